"""Many small networks as one: parameters on a leading axis of replicas, one optimiser, a random stream for each.

A step of a 16-unit network costs its dispatch, not its arithmetic, so seeds and restarts are stacked and stepped
together. Everything here keeps replicas apart: each draws from its own `SeedStream`, no operation mixes them, and so a
batched fit equals the same fit alone. What a replica draws is drawn with numpy, hence the same on every device.

A replica that has nothing to do costs nothing: replicas are ordered so that those with work left are a prefix
(`ReplicaStack.prefix`), and those that have stopped are taken out (`ReplicaStack.keep`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import final

import numpy as np
from jaxtyping import Float, Float32, Float64

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models import devices
from crowdsweep.models.checkpoints import State, checked_array
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import Initialiser, glorot_uniform
from crowdsweep.models.networks.tensors import ReplicaValues, StackedValues
from crowdsweep.seeds import SeedStream

KERAS_EPSILON = 1e-7
# Parameters of the replicas that are trained together on a CPU. With their gradients and moments they take 32 MB, what
# a last-level cache holds; measured from 2^17 to 2^22, batches gained until then, and beyond it memory stays bounded.
_CACHED_FLOATS = 1 << 21
_MEMORY_SHARE = 0.5  # of what is free: what a step makes is held too, and other slots may share a GPU
_COPIES = 8  # of a parameter: its value, gradient and two moments, and as much again of what a step makes of them
_PER_CLASS, _PER_ANSWER = 16, 16  # numbers that a fit holds of each item's class and of each answer
_ALIGNED_FLOATS = 16  # 64 bytes: kernels may round differently at other alignments

Flat = Float[torch.Tensor, "replicas floats"]
LearningRates = Float64[np.ndarray, " replicas"]
StepCounts = Float64[np.ndarray, " replicas"]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One array of a network: its name, its shape without the replica axis, and how it starts."""

    name: str
    shape: tuple[int, ...]
    start: Initialiser = glorot_uniform

    @property
    def size(self) -> int:
        return prod(self.shape)


def count_parameters(parameters: Sequence[Parameter]) -> int:
    """Returns how many floats one replica's parameters are."""
    return sum(parameter.size for parameter in parameters)


def numbers_held(data: Sequence[TrainingData]) -> int:
    """Returns roughly how many numbers a fit holds for one replica beside its parameters, of the largest data set."""
    return max(
        (_PER_CLASS * part.n_items * part.n_classes + _PER_ANSWER * len(part.annotations) for part in data), default=0
    )


def replica_chunks(
    n_replicas: int, floats_per_replica: int, device: str, numbers_per_replica: int = 0
) -> Iterator[slice]:
    """Yields the replicas that are best trained together: as many as half of the free memory holds, and on a CPU as
    many as a cache does.

    Args:
        numbers_per_replica: what is held for one beside its parameters (`numbers_held`).
    """
    size = n_replicas
    if device == "cpu":
        size = max(1, min(n_replicas, _CACHED_FLOATS // max(floats_per_replica, 1)))
    if (free := devices.free_bytes(device)) is not None:
        one = 4 * (_COPIES * floats_per_replica + numbers_per_replica)
        size = max(1, min(size, int(_MEMORY_SHARE * free) // max(one, 1)))
    for start in range(0, n_replicas, max(size, 1)):
        yield slice(start, min(start + size, n_replicas))


@final
class ReplicaStack:
    """The parameters of S replicas, one row each of one flat table, with gradients and Adam's moments beside them.

    `prefix` gives views of them by name [S, *shape]. `Adam.step` moves along the gradients, which the trainer fills.
    """

    def __init__(self, parameters: Sequence[Parameter], flat: Flat) -> None:
        """Lays views over `flat`; `ReplicaStack.start` draws one."""
        self.parameters = tuple(parameters)
        self._set(flat, torch.zeros_like(flat), torch.zeros_like(flat), np.zeros(len(flat)))

    @classmethod
    def start(cls, parameters: Sequence[Parameter], seeds: Sequence[SeedStream], device: str) -> "ReplicaStack":
        """Draws each replica's initial values from its own stream, a named one for each parameter."""
        offsets, width = _layout(parameters)
        flat = np.zeros((len(seeds), width), np.float32)
        for row, stream in zip(flat, seeds, strict=True):
            for parameter in parameters:
                values = parameter.start(stream.numpy(f"initial {parameter.name}"), parameter.shape)
                row[offsets[parameter.name] : offsets[parameter.name] + parameter.size] = values.ravel()
        return cls(parameters, torch.from_numpy(flat).to(device))

    def _set(self, flat: Flat, first: Flat, second: Flat, steps: StepCounts) -> None:
        self.flat, self.first, self.second, self.steps = flat, first, second, steps
        self.flat_gradient = torch.zeros_like(flat)
        self._prefixes: dict[int, StackView] = {}

    def __len__(self) -> int:
        return len(self.flat)

    def prefix(self, n_replicas: int) -> "StackView":
        """Returns views over the first replicas only; the others are neither read nor written."""
        if n_replicas not in self._prefixes:
            offsets, _ = _layout(self.parameters)
            values: dict[str, torch.Tensor] = {}
            gradients: dict[str, torch.Tensor] = {}
            for parameter in self.parameters:
                columns = slice(offsets[parameter.name], offsets[parameter.name] + parameter.size)
                shape = (n_replicas, *parameter.shape)
                values[parameter.name] = self.flat[:n_replicas, columns].view(shape)
                gradients[parameter.name] = self.flat_gradient[:n_replicas, columns].view(shape)
            self._prefixes[n_replicas] = StackView(n_replicas=n_replicas, values=values, gradients=gradients)
        return self._prefixes[n_replicas]

    def keep(self, replicas: Sequence[int]) -> None:
        """Drops all other replicas, keeping these in the order given with their moments and step counts."""
        rows = torch.as_tensor(replicas, dtype=torch.long, device=self.flat.device)
        self._set(self.flat[rows], self.first[rows], self.second[rows], self.steps[list(replicas)])

    def state(self, replica: int) -> State:
        """Returns a copy of one replica's parameters, of their moments, and its step count."""
        tables = {"values": self.flat, "first": self.first, "second": self.second}
        rows = {name: table[replica].detach().cpu().numpy().copy() for name, table in tables.items()}
        return {**rows, "steps": self.steps[[replica]]}

    def restore(self, replica: int, state: State) -> None:
        for name, table in {"values": self.flat, "first": self.first, "second": self.second}.items():
            row = checked_array(state, name, (table.shape[1],), np.float32)
            table[replica] = torch.from_numpy(row).to(table.device)
        self.steps[replica] = checked_array(state, "steps", (1,))[0]

    def values_of(self, replica: int) -> ReplicaValues:
        """Returns a copy of one replica's parameters."""
        row = self.flat[replica].detach().cpu().numpy()
        offsets, _ = _layout(self.parameters)
        return {
            p.name: row[offsets[p.name] : offsets[p.name] + p.size].reshape(p.shape).copy() for p in self.parameters
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class StackView:
    """The parameters and gradients of the first `n_replicas` replicas, by name."""

    n_replicas: int
    values: StackedValues
    gradients: StackedValues


def _layout(parameters: Sequence[Parameter]) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    width = 0
    for parameter in parameters:
        offsets[parameter.name] = width
        width += -(-parameter.size // _ALIGNED_FLOATS) * _ALIGNED_FLOATS
    return offsets, width


@final
@dataclass(frozen=True, kw_only=True)
class Adam:
    """Adam (Kingma & Ba 2015), over a whole stack at once; every replica has its own step count.

    Attributes:
        learning_rate: above 0; of each replica, where they differ. Replicas of equal rates beside each other are moved
            in one pass.
        first_decay, second_decay: of the moments.
        epsilon: added to the root of the second moment *before* its bias is corrected, which is Keras's reading.
    """

    learning_rate: float | LearningRates = 1e-3
    first_decay: float = 0.9
    second_decay: float = 0.999
    epsilon: float = KERAS_EPSILON

    def step(self, stack: ReplicaStack, n_replicas: int | None = None) -> None:
        """Moves the first `n_replicas` replicas (default: all) along their gradients; under `torch.no_grad`.

        One pass of torch's fused kernel over all that have taken equally many steps at equal rates. The public function
        around it, `torch.optim.adamw.adamw(fused=True)`, gives the same bits and makes fits of small networks 5 to 18 %
        longer. The kernel corrects the second moment before it adds epsilon, so epsilon is passed with the same
        correction.
        """
        steps = stack.steps[: len(stack) if n_replicas is None else n_replicas]
        steps += 1
        rates = np.broadcast_to(self.learning_rate, len(stack))[: len(steps)]
        for rows in _equal_runs(steps, rates):
            taken = float(steps[rows.start])
            torch._fused_adamw_(  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage] - what torch.optim.AdamW(fused=True) calls
                [stack.flat[rows]],
                [stack.flat_gradient[rows]],
                [stack.first[rows]],
                [stack.second[rows]],
                [],
                [torch.full((), taken, device=stack.flat.device)],  # made there, not brought there
                lr=float(rates[rows.start]),
                beta1=self.first_decay,
                beta2=self.second_decay,
                weight_decay=0.0,
                eps=self.epsilon / math.sqrt(1 - self.second_decay**taken),
                amsgrad=False,
                maximize=False,
            )

    def corrected_rates(self, steps: StepCounts, device: torch.device) -> Float32[torch.Tensor, "replicas 1"]:
        """Returns the learning rate with both moments' biases corrected, after `steps` steps each."""
        corrected = np.sqrt(1 - self.second_decay**steps) / (1 - self.first_decay**steps)
        rates = (self.learning_rate * corrected).astype(np.float32)
        found = torch.empty(len(rates), 1, device=device)
        for rows in _equal_runs(rates):
            found[rows].fill_(float(rates[rows.start]))  # made there, not brought there
        return found


def _equal_runs(*columns: Float[np.ndarray, " replicas"]) -> Iterator[slice]:
    """Yields the replicas that agree in all columns, those that stand beside each other."""
    n_replicas = len(columns[0])
    if all((column == column[0]).all() for column in columns):  # as most often
        return iter([slice(0, n_replicas)])
    changes = np.any([np.diff(column) != 0 for column in columns], axis=0)
    ends = [*(np.flatnonzero(changes) + 1).tolist(), n_replicas]
    return (slice(start, end) for start, end in pairwise([0, *ends]))
