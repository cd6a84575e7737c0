"""The one trainer: many replicas of any network side by side, on any loss, by minibatches and Adam.

A model brings parameters (and tables, for what has a row for each annotator), the rows that each replica learns from,
and a loss; gradients come from autograd over tensors with a leading axis of replicas. (Measured on one core,
torch.func's vmap of grad takes two to four times as long as autograd over stacked tensors, at 16 hidden units and at
256.) A loss may write its gradients out instead (`WrittenLoss`), which for small networks halves a step.

Replicas never mix: each has its own initial values, order of rows, dropout masks and step count, and the loss of one
does not look at another's rows. So a replica trains as it would alone, whoever stands beside it or is dropped.

`ReplicaTrainer` steps through epochs. `train.train` runs it to the end: reports, patience, rules to stop.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Float32, Float64, Int64

from crowdsweep.models._batches import Batch, blocks_of
from crowdsweep.models.checkpoints import State, checked_array, with_prefix, without_prefix
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.replicas import Adam, Parameter, ReplicaStack, StackView
from crowdsweep.models.networks.streams import Dropout, DropoutMasks, Shuffler
from crowdsweep.models.networks.tables import EmbeddingTables, Table
from crowdsweep.models.networks.tensors import PerReplica, ReplicaValues, StackedValues
from crowdsweep.models.networks.values import Step, Values
from crowdsweep.seeds import SeedStream


@runtime_checkable
class Loss(Protocol):
    """What a training step minimises."""

    def __call__(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        """Returns the summed loss of each replica on its rows of the batch, and the weight of these rows, above 0. The
        step follows the gradient of their ratio.
        """
        ...


@runtime_checkable
class WrittenLoss(Loss, Protocol):
    """A loss that can write its gradients out: the same mathematics in fewer calls, checked against autograd."""

    def write(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        """Returns what the loss does, having written the gradients of the ratio (`Values.gradient`)."""
        ...


@final
class ReplicaTrainer:
    """S replicas in training. They keep the numbers that they came with, even after others have been dropped."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        *,
        rows: Sequence[Int64[np.ndarray, " _"]],
        seeds: Sequence[SeedStream],
        optimiser: Adam,
        batch_size: int,
        device: str = "cpu",
        dropout: Sequence[Dropout] = (),
        tables: Mapping[str, Table] | None = None,
        row_size: int = 256,
        least_steps: float | Sequence[float] = 0.0,
    ) -> None:
        """Draws the initial values.

        Args:
            rows: what each replica learns from: numbers that its loss understands.
            optimiser: of all; its learning rate may be each replica's own.
            tables: parameters with many rows of which a step moves only those that the loss takes.
            row_size: roughly how many numbers a loss holds for one row; bounds memory, decides nothing.
            least_steps: of an epoch, for all or for each: a replica with fewer goes through its rows several times in
                it.
        """
        self._optimiser, self._batch_size, self._device, self._row_size = optimiser, batch_size, device, row_size
        least = np.broadcast_to(least_steps, len(rows)).tolist()
        passes = [passes_of(len(part), batch_size, own) for part, own in zip(rows, least, strict=True)]
        steps = [-(-len(part) * n // batch_size) for part, n in zip(rows, passes, strict=True)]
        rates = np.broadcast_to(optimiser.learning_rate, len(rows))
        # Those with the most steps first, as `Shuffler` asks; equal rates stand together, as `Adam` would have them.
        self._order = sorted(range(len(rows)), key=lambda s: (-steps[s], rates[s]))
        self._rates = rates[self._order]
        ordered = [seeds[s] for s in self._order]
        self._stack = ReplicaStack.start(parameters, ordered, device)
        self._tables = {
            name: EmbeddingTables(table.of(self._order), seeds=ordered, name=name, device=device)
            for name, table in (tables or {}).items()
        }
        taken = [passes[s] for s in self._order]
        self._shuffler = Shuffler([rows[s] for s in self._order], ordered, batch_size, device, taken)
        self._dropout = [DropoutMasks(place, ordered, device) for place in dropout]
        self._leaves: dict[int, StackedValues] = {}

    @property
    def active(self) -> list[int]:
        """The replicas that have not been dropped, ascending."""
        return sorted(self._order)

    def drop(self, replicas: Sequence[int]) -> None:
        """Takes these replicas out: they cost nothing and never change again."""
        kept = [place for place, replica in enumerate(self._order) if replica not in set(replicas)]
        if len(kept) == len(self._order):
            return
        self._order = [self._order[place] for place in kept]
        self._rates = self._rates[kept]
        self._leaves = {}
        for _, part in self._parts():
            part.keep(kept)

    def run_epoch(self, loss: Loss) -> dict[int, float]:
        """Steps every active replica through its rows, in a fresh order, once or as often as `least_steps` asks.

        Returns:
            For each active replica its loss by weight over the epoch, as it was when each row was stepped on (with
            dropout).
        """
        return dict(zip(self._order, self.step_through(loss).tolist(), strict=True))

    @without_gradients
    def step_through(self, loss: Loss) -> Float64[torch.Tensor, " active"]:
        """Steps as `run_epoch` does, and returns the losses on the device, so that the CPU need not wait for them."""
        optimiser = replace(self._optimiser, learning_rate=self._rates)
        written = loss if isinstance(loss, WrittenLoss) else None
        totals = torch.zeros(2, len(self._order), dtype=torch.float64, device=self._device)
        for block in blocks_of(self._shuffler.epoch(), self._order, self._dropout, self._row_size):
            view = self._stack.prefix(len(block.replicas))
            found: list[PerReplica] = []
            for step in range(len(block.batches)):
                batch = Batch(block=block, step=step)
                gathered = Step(gradients=view.gradients, tables=self._tables)
                if written is None:
                    found += self._followed(loss, view, batch, gathered)
                else:
                    found += written.write(Values(view.values, gathered), batch)
                optimiser.step(self._stack, view.n_replicas)
                for name, touched in gathered.touched.items():
                    self._tables[name].step(touched, optimiser, view.n_replicas)
            totals[:, : view.n_replicas] += torch.stack(found).view(-1, 2, view.n_replicas).sum(dim=0)
        return totals[0] / totals[1]

    def _followed(self, loss: Loss, view: StackView, batch: Batch, gathered: Step) -> tuple[PerReplica, PerReplica]:
        """Computes a loss with autograd and writes all gradients; returns the loss's values."""
        leaves = self._leaves_of(view)
        with torch.enable_grad():
            lost, weight = loss(Values(leaves, gathered), batch)
            # A replica's parameters are in its own term alone, so the sum's gradients are those of each term: one
            # backward pass.
            mean = (lost / weight).sum()
        rows = list(gathered.touched.values())
        ends = [*leaves.values(), *(touched.values for touched in rows)]
        found: list[torch.Tensor | None] = list(torch.autograd.grad(mean, ends, allow_unused=True))
        for name, gradient in zip(leaves, found, strict=False):
            if gradient is None:
                view.gradients[name].zero_()
            else:
                view.gradients[name].copy_(gradient)
        for touched, gradient in zip(rows, found[len(leaves) :], strict=True):
            touched.gradient = gradient
        return lost.detach(), weight

    def _leaves_of(self, view: StackView) -> StackedValues:
        """Returns views of the parameters that autograd stops at; the optimiser moves them in place."""
        if view.n_replicas not in self._leaves:
            self._leaves[view.n_replicas] = {
                name: value.detach().requires_grad_(True) for name, value in view.values.items()
            }
        return self._leaves[view.n_replicas]

    def values(self, replicas: Sequence[int]) -> StackedValues:
        """Returns the parameters of these active replicas, in this order."""
        places = [self._order.index(replica) for replica in replicas]
        values = self._stack.prefix(len(self._stack)).values
        if places == list(range(len(self._stack))):
            return values
        return {name: array[places] for name, array in values.items()}

    def state(self, replica: int) -> State:
        """Returns all that the next epoch of an active replica depends on."""
        place = self._order.index(replica)
        return {
            key: array for name, part in self._parts() for key, array in with_prefix(name, part.state(place)).items()
        }

    def restore(self, replica: int, state: State) -> None:
        """Resumes an active replica from a state.

        Raises:
            CheckpointRefused: the state does not fit such a replica.
        """
        place = self._order.index(replica)
        for name, part in self._parts():
            part.restore(place, without_prefix(state, name))

    def _parts(self) -> Iterator[tuple[str, "ReplicaStack | Shuffler | EmbeddingTables | DropoutMasks"]]:
        """Yields what holds the replicas, by name."""
        yield "stack", self._stack
        yield "rows", self._shuffler
        for name, table in self._tables.items():
            yield f"table {name}", table
        for masks in self._dropout:
            yield f"dropout {masks.dropout.name}", masks

    def snapshot_of(self, replica: int, state: State) -> "Snapshot":
        """Returns the snapshot of an active replica whose state is given (`Snapshot.state`).

        Raises:
            CheckpointRefused: the state does not fit such a replica.
        """
        place = self._order.index(replica)
        values, tables = without_prefix(state, "values"), without_prefix(state, "tables")
        return Snapshot(
            values={one.name: checked_array(values, one.name, one.shape, np.float32) for one in self._stack.parameters},
            tables={
                name: checked_array(tables, name, table.shape_of(place), np.float32)
                for name, table in self._tables.items()
            },
        )

    def snapshot(self, replica: int) -> "Snapshot":
        """Returns a copy of an active replica as it is now."""
        place = self._order.index(replica)
        return Snapshot(
            values=self._stack.values_of(place),
            tables={name: table.values_of(place) for name, table in self._tables.items()},
        )


def passes_of(n_rows: int, batch_size: int, least_steps: float) -> int:
    """Returns how often so many rows are gone through until they make at least so many steps; at least once."""
    return max(1, math.ceil(least_steps * batch_size / max(n_rows, 1)))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """The parameters and tables of a replica at one moment, by name."""

    values: ReplicaValues
    tables: Mapping[str, Float32[np.ndarray, "_ _"]]

    def state(self) -> State:
        """Returns what `ReplicaTrainer.snapshot_of` makes it of again."""
        return {**with_prefix("values", self.values), **with_prefix("tables", self.tables)}
