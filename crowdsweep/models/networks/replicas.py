"""Many small networks as one: parameters on a leading axis of replicas, one optimiser, a random stream for each.

A step of a 16-unit network costs its dispatch, not its arithmetic, so seeds and restarts are stacked and stepped
together. Everything here keeps replicas apart: each draws from its own `SeedStream`, no operation mixes them, and so a
batched fit equals the same fit alone. What a replica draws is drawn with numpy, hence the same on every device.

A replica that has nothing to do costs nothing: replicas are ordered so that those with work left are a prefix
(`ReplicaStack.prefix`), and those that have stopped are taken out (`ReplicaStack.keep`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np
import torch

from crowdsweep.seeds import SeedStream

Initialiser = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

KERAS_EPSILON = 1e-7
# Parameters of the replicas that are trained together on a CPU. With their gradients and moments they take 32 MB, what
# a last-level cache holds; measured from 2^17 to 2^22, batches gained until then, and beyond it memory stays bounded.
_CACHED_FLOATS = 1 << 21
_MARKED_ROWS = 1 << 16  # embedding rows up to which marking all is cheaper than sorting a batch
_ALIGNED_FLOATS = 16  # 64 bytes: kernels may round differently at other alignments


def take_rows(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Returns table[rows]; `index_select` copies small rows several times faster than indexing does."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, *table.shape[1:])


def glorot_uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draws from U(±sqrt(6 / (fan in + fan out))), the fans being the last two axes."""
    limit = np.sqrt(6.0 / (shape[-2] + shape[-1]))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:  # noqa: ARG001 - an Initialiser
    """Returns zeros; draws nothing."""
    return np.zeros(shape, np.float32)


def constant(value: float) -> Initialiser:
    """Returns an initialiser that fills with `value` and draws nothing."""

    def fill(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:  # noqa: ARG001 - an Initialiser
        return np.full(shape, value, np.float32)

    return fill


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


def replica_chunks(n_replicas: int, floats_per_replica: int, device: str) -> Iterator[slice]:
    """Yields the replicas that are best trained together: on a CPU as many as fit a cache, elsewhere all."""
    size = n_replicas
    if device == "cpu":
        size = max(1, min(n_replicas, _CACHED_FLOATS // max(floats_per_replica, 1)))
    for start in range(0, n_replicas, max(size, 1)):
        yield slice(start, min(start + size, n_replicas))


@final
class ReplicaStack:
    """The parameters of S replicas, one row each of one flat table, with gradients and Adam's moments beside them.

    `stack[name]` is a view [S, *shape]. `Adam.step` moves along `stack.gradient(name)`, which the network's written
    backward pass fills.
    """

    def __init__(self, parameters: Sequence[Parameter], flat: torch.Tensor) -> None:
        """Lays views over `flat` [S, floats]; `ReplicaStack.start` draws one."""
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

    def _set(self, flat: torch.Tensor, first: torch.Tensor, second: torch.Tensor, steps: np.ndarray) -> None:
        self.flat, self.first, self.second, self.steps = flat, first, second, steps
        self.flat_gradient = torch.zeros_like(flat)
        self.scratch = torch.empty_like(flat)
        self._prefixes: dict[int, StackView] = {}

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.prefix(len(self)).values[name]

    def gradient(self, name: str) -> torch.Tensor:
        """Returns the view [S, *shape] that gradients of that parameter go to."""
        return self.prefix(len(self)).gradients[name]

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

    def values_of(self, replica: int) -> dict[str, np.ndarray]:
        """Returns a copy of one replica's parameters, float32."""
        row = self.flat[replica].detach().cpu().numpy()
        offsets, _ = _layout(self.parameters)
        return {
            p.name: row[offsets[p.name] : offsets[p.name] + p.size].reshape(p.shape).copy() for p in self.parameters
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class StackView:
    """The parameters and gradients of the first `n_replicas` replicas, by name, [n_replicas, *shape]."""

    n_replicas: int
    values: Mapping[str, torch.Tensor]
    gradients: Mapping[str, torch.Tensor]


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
        learning_rate: above 0.
        first_decay, second_decay: of the moments.
        epsilon: added to the root of the second moment *before* its bias is corrected, which is Keras's reading.
        weight_decay: decoupled (AdamW): each step first shrinks the parameters by learning_rate * weight_decay.
    """

    learning_rate: float = 1e-3
    first_decay: float = 0.9
    second_decay: float = 0.999
    epsilon: float = KERAS_EPSILON
    weight_decay: float = 0.0

    @torch.no_grad()
    def step(self, stack: ReplicaStack, n_replicas: int | None = None) -> None:
        """Moves the first `n_replicas` replicas (default: all) along their gradients."""
        active = slice(len(stack) if n_replicas is None else n_replicas)
        flat, first, second = stack.flat[active], stack.first[active], stack.second[active]
        gradient, scratch = stack.flat_gradient[active], stack.scratch[active]
        stack.steps[active] += 1
        first.lerp_(gradient, 1 - self.first_decay)
        second.mul_(self.second_decay).addcmul_(gradient, gradient, value=1 - self.second_decay)
        torch.sqrt(second, out=scratch).add_(self.epsilon)
        torch.div(first, scratch, out=scratch)
        if self.weight_decay:
            flat.mul_(1 - self.learning_rate * self.weight_decay)
        flat.addcmul_(scratch, self.corrected_rates(stack.steps[active], flat.device), value=-1)

    def corrected_rates(self, steps: np.ndarray, device: torch.device) -> torch.Tensor:
        """Returns the learning rate with both moments' biases corrected, float32 [S, 1], after `steps` steps each."""
        corrected = np.sqrt(1 - self.second_decay**steps) / (1 - self.first_decay**steps)
        return torch.from_numpy((self.learning_rate * corrected).astype(np.float32)[:, None]).to(device)


@final
class EmbeddingTables:
    """S tables of rows (one for each annotator, say), stepped only where a batch touches them.

    The tables lie under one another, [S * rows, width], replica s's row r being row s * rows + r. A step reads and
    writes only the rows of its batch (lazy Adam: a row's moments stand still while it is not touched), so that a
    million annotators cost memory and nothing else.
    """

    def __init__(self, *, rows: int, width: int, start: Initialiser, seeds: Sequence[SeedStream], device: str) -> None:
        self.rows, self.width = rows, width
        drawn = [start(stream.numpy("initial rows"), (rows, width)) for stream in seeds]
        self.values = torch.from_numpy(np.concatenate(drawn)).to(device)
        self.first = torch.zeros_like(self.values)
        self.second = torch.zeros_like(self.values)
        self.steps = np.zeros(len(seeds))

    def __len__(self) -> int:
        return len(self.steps)

    def gather(self, flat_rows: torch.Tensor) -> tuple["TouchedRows", torch.Tensor]:
        """Returns the distinct rows of a batch as an autograd leaf, and the batch's values [*flat_rows.shape, width].

        Args:
            flat_rows: int64, replica * rows + row, any shape.
        """
        distinct, inverse = self._distinct(flat_rows)
        leaf = take_rows(self.values, distinct).requires_grad_(True)
        return TouchedRows(rows=distinct, values=leaf, inverse=inverse), take_rows(leaf, inverse)

    def _distinct(self, flat_rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the distinct rows, ascending, and which of them each place is: by marking where tables are small."""
        if len(self.values) > _MARKED_ROWS:
            return torch.unique(flat_rows, return_inverse=True)
        marks = torch.zeros(len(self.values), dtype=torch.int64, device=flat_rows.device)
        marks.index_fill_(0, flat_rows.flatten(), 1)
        return marks.nonzero()[:, 0], take_rows(marks.cumsum(0).sub_(1), flat_rows)

    @torch.no_grad()
    def step(self, touched: "TouchedRows", adam: Adam, n_replicas: int | None = None) -> None:
        """Moves the touched rows along their gradients; the first `n_replicas` replicas count a step."""
        self.steps[: len(self) if n_replicas is None else n_replicas] += 1
        gradient = touched.values.grad
        if gradient is None or not len(touched.rows):
            return
        rows = touched.rows
        first = take_rows(self.first, rows).lerp_(gradient, 1 - adam.first_decay)
        second = (
            take_rows(self.second, rows)
            .mul_(adam.second_decay)
            .addcmul_(gradient, gradient, value=1 - adam.second_decay)
        )
        rates = adam.corrected_rates(np.maximum(self.steps, 1), rows.device)[rows // self.rows]
        values = take_rows(self.values, rows)
        if adam.weight_decay:
            values.mul_(1 - adam.learning_rate * adam.weight_decay)
        values.sub_(rates * first / second.sqrt().add_(adam.epsilon))
        for table, moved in ((self.first, first), (self.second, second), (self.values, values)):
            table.index_copy_(0, rows, moved)

    def keep(self, replicas: Sequence[int]) -> None:
        """Drops all other replicas, keeping these in the order given."""
        order = torch.as_tensor(replicas, dtype=torch.long)
        for name in ("values", "first", "second"):
            table = getattr(self, name).unflatten(0, (len(self), self.rows))
            setattr(self, name, table[order.to(table.device)].flatten(0, 1))
        self.steps = self.steps[list(replicas)]

    def values_of(self, replica: int) -> np.ndarray:
        """Returns a copy of one replica's table, float32 [rows, width]."""
        return self.values[replica * self.rows : (replica + 1) * self.rows].cpu().numpy().copy()


@dataclass(frozen=True, kw_only=True, eq=False)
class TouchedRows:
    """The distinct rows that a batch touches, and the leaf [distinct, width] that their gradients gather on.

    `inverse`, of the shape of the batch, says which of the distinct rows each place of it is.
    """

    rows: torch.Tensor
    values: torch.Tensor
    inverse: torch.Tensor

    def add_gradients(self, gradients: torch.Tensor) -> None:
        """Gathers gradients [*batch, width] that were worked out by hand, where autograd would put them."""
        gathered = torch.zeros_like(self.values)
        self.values.grad = gathered.index_add_(0, self.inverse.flatten(), gradients.flatten(0, -2))


@dataclass(frozen=True, kw_only=True, eq=False)
class Minibatch:
    """One step of the replicas that still have rows to see in this epoch: the first `n_replicas`.

    Attributes:
        n_replicas: how many take part; the others have had all their rows.
        rows: int64 [n_replicas, batch], row numbers of each replica's own data.
        mask: float32 [n_replicas, batch], 0 where the last batch is filled up, or None where it is nowhere.
        sizes: float32 [n_replicas], rows that count.
    """

    n_replicas: int
    rows: torch.Tensor
    mask: torch.Tensor | None
    sizes: torch.Tensor


@final
class Shuffler:
    """Cuts each replica's rows into minibatches, in an order of its own every epoch.

    Replicas must come sorted by their number of steps, longest first; `by_steps` says how.
    """

    def __init__(self, rows: Sequence[np.ndarray], seeds: Sequence[SeedStream], batch_size: int, device: str) -> None:
        self._rows = [np.asarray(part, dtype=np.int64) for part in rows]
        self._rngs = [stream.numpy("permutations") for stream in seeds]
        self._batch_size, self._device = batch_size, device
        steps = self.steps
        if (np.diff(steps) > 0).any():
            raise ValueError(f"expected replicas with the most steps first, got {steps.tolist()}")

    @staticmethod
    def by_steps(sizes: Sequence[int], batch_size: int) -> list[int]:
        """Returns the replicas ordered by their number of steps an epoch, most first (stable)."""
        return sorted(range(len(sizes)), key=lambda s: -(-sizes[s] // batch_size), reverse=True)

    @property
    def steps(self) -> np.ndarray:
        """Steps of each replica in an epoch."""
        return np.array([-(-len(rows) // self._batch_size) for rows in self._rows])

    def keep(self, replicas: Sequence[int]) -> None:
        """Drops all other replicas; the order given must not bring one before another with more steps."""
        self._rows = [self._rows[s] for s in replicas]
        self._rngs = [self._rngs[s] for s in replicas]

    def epoch(self) -> list[Minibatch]:
        """Draws one permutation for each replica and returns the epoch's steps."""
        steps = self.steps
        n_steps, size = int(steps.max(initial=0)), self._batch_size
        table = np.zeros((len(steps), n_steps * size), np.int64)
        lengths = np.array([len(rows) for rows in self._rows])
        for row, rows, rng in zip(table, self._rows, self._rngs, strict=True):
            row[: len(rows)] = rng.permutation(rows)
        real = np.arange(n_steps * size) < lengths[:, None]
        order = torch.from_numpy(table).to(self._device)
        masks = torch.from_numpy(real.astype(np.float32)).to(self._device)
        batches: list[Minibatch] = []
        for step in range(n_steps):
            active = int((steps > step).sum())
            part = slice(step * size, (step + 1) * size)
            full = bool(real[:active, part].all())
            mask = masks[:active, part]
            batches.append(
                Minibatch(
                    n_replicas=active, rows=order[:active, part], mask=None if full else mask, sizes=mask.sum(dim=1)
                )
            )
        return batches


@final
class DropoutMasks:
    """Each replica's own dropout masks: True for a unit that stays. Nothing is rescaled.

    The probability is kept to 1/65536. A replica's masks do not depend on who else is in the stack, nor on how many
    steps are drawn at a time.
    """

    def __init__(self, seeds: Sequence[SeedStream], probability: float, device: str, name: str = "dropout") -> None:
        self.probability = probability
        self._rngs = [stream.numpy(name) for stream in seeds]
        self._device = device

    def keep(self, replicas: Sequence[int]) -> None:
        """Drops all other replicas, keeping these in the order given."""
        self._rngs = [self._rngs[s] for s in replicas]

    def draw(self, steps: int, shape: tuple[int, ...], n_replicas: int) -> torch.Tensor:
        """Returns bool [steps, n_replicas, *shape] for the first replicas, drawn step after step."""
        size = prod(shape)
        words = -(-size // 4)  # four 16-bit numbers in a word
        threshold = np.uint16(round(self.probability * 65536))
        masks = np.empty((steps, n_replicas, size), np.bool_)
        for replica, rng in enumerate(self._rngs[:n_replicas]):
            bits = rng.integers(0, 1 << 64, size=(steps, words), dtype=np.uint64).view(np.uint16)[:, :size]
            np.greater_equal(bits, threshold, out=masks[:, replica])
        return torch.from_numpy(masks).to(self._device).view(steps, n_replicas, *shape)
