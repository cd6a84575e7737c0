"""Minibatches: the rows of each replica's data in one step, and its dropout masks.

Steps that the same replicas take are laid out together, a block of them, so that gathering rows and drawing masks
costs its dispatch once per block and not once per step.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped

from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.streams import DropoutMasks, Minibatch
from crowdsweep.models.networks.tensors import BatchMask, BatchRows, PerReplica, ReplicaNumbers, take_rows

_BLOCK_NUMBERS = 1 << 24
_GATHERED_NUMBERS = 1 << 19  # 2 MB: what is gathered is still in a cache when its step comes
_BLOCK_STEPS = 16

Made = TypeVar("Made")


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class StackedRows:
    """The rows of several replicas under one another on the device; arrays that are equal are held once.

    Attributes:
        starts: where each replica's rows begin.
    """

    table: Shaped[torch.Tensor, " rows *shape"]
    starts: ReplicaNumbers

    @classmethod
    def of(cls, arrays: Sequence[Shaped[np.ndarray, " _ *shape"]], device: str) -> "StackedRows":
        """Lays out one array for each replica; they agree in type and in all axes but the first."""
        held: list[Shaped[np.ndarray, " _ *shape"]] = []
        which: list[int] = []
        for array in arrays:
            known = next((place for place, other in enumerate(held) if _equal(array, other)), len(held))
            if known == len(held):
                held.append(array)
            which.append(known)
        starts = np.cumsum([0, *map(len, held)])[which]
        table = torch.from_numpy(np.concatenate(held)).to(device)
        return cls(table=table, starts=torch.from_numpy(starts).to(device))

    def at(
        self, index: Int64[torch.Tensor, " replicas *places"], batch: "Batch"
    ) -> Shaped[torch.Tensor, "replicas ..."]:
        """Returns rows by their numbers in each replica's own data [replicas, *places, *shape]."""
        starts = self.starts[batch.block.replicas].view(-1, *[1] * (index.dim() - 1))
        return take_rows(self.table, index + starts)

    def of_block(
        self, block: "Block", steps: slice = slice(None)
    ) -> Shaped[torch.Tensor, "steps replicas batch *shape"]:
        """Returns the rows of some steps of a block."""
        return take_rows(self.table, block.rows[steps] + self.starts[block.replicas][:, None])


@final
@dataclass(kw_only=True, eq=False)
class Block:
    """Steps that the same replicas take; only the last of them may have padding. It keeps what is made of them (`once`,
    `taken`) as long as it lives.

    Attributes:
        replicas: the numbers of the replicas, which their data go by.
        order: the same on the CPU.
        rows: row numbers of each replica's own data.
        masks: dropout masks by name, each of its own shape; True for a unit that stays.
    """

    batches: Sequence[Minibatch]
    replicas: ReplicaNumbers
    order: Sequence[int]
    rows: Int64[torch.Tensor, "steps replicas batch"]
    masks: Mapping[str, Bool[torch.Tensor, "steps replicas batch ..."]]
    _made: dict[Any, Any] = field(default_factory=dict)

    def once(self, make: Callable[["Block"], Made]) -> Made:
        """Returns what `make` makes of this block; made once."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    def taken(self, stacked: StackedRows, step: int) -> Shaped[torch.Tensor, "replicas batch *shape"]:
        """Returns the rows of one step; gathered with those of the next ones, while small."""
        first, gathered = self._made.get(stacked, (0, ()))
        if not first <= step < first + len(gathered):
            size = self.rows[0].numel() * max(1, stacked.table[:1].numel())
            first, steps = step, max(1, _GATHERED_NUMBERS // size)
            self._made.pop(stacked, None)
            gathered = stacked.of_block(self, slice(first, first + steps))
            self._made[stacked] = first, gathered
        return gathered[step - first]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Batch:
    """One step of the replicas that still have rows to see in this epoch."""

    block: Block
    step: int

    @property
    def rows(self) -> BatchRows:
        """Row numbers of each replica's own data."""
        return self.block.rows[self.step]

    @property
    def mask(self) -> BatchMask | None:
        """0 where the batch is filled up with rows that do not count, else 1; None where it is nowhere."""
        return self.block.batches[self.step].mask

    @property
    def drawn(self) -> Int64[np.ndarray, "replicas batch"]:
        """The row numbers on the CPU; -1 where the batch is filled up."""
        return self.block.batches[self.step].drawn

    @property
    def sizes(self) -> PerReplica:
        """How many rows count."""
        return self.block.batches[self.step].sizes

    @property
    def places(self) -> Int64[torch.Tensor, "replicas 1"]:
        """0, 1, …: where each replica stands in this batch."""
        return self.block.once(_places)

    def take(self, stacked: StackedRows) -> Shaped[torch.Tensor, "replicas batch *shape"]:
        """Returns the batch's rows of some data."""
        return self.block.taken(stacked, self.step)

    def kept(self, name: str) -> Float32[torch.Tensor, "replicas batch *shape"]:
        """Returns a dropout mask: 1 for a unit that stays."""
        stays = self.block.masks[name][self.step]
        return stays.view(torch.int8).to(torch.float32)  # of bool it takes five times as long


def _equal(array: Shaped[np.ndarray, "..."], other: Shaped[np.ndarray, "..."]) -> bool:
    """Whether two arrays are equal; comparing their first rows settles most pairs."""
    if array is other:
        return True
    return array.shape == other.shape and np.array_equal(array[:1], other[:1]) and np.array_equal(array, other)


def _places(block: Block) -> Int64[torch.Tensor, "replicas 1"]:
    return torch.arange(len(block.replicas), device=block.rows.device)[:, None]


def blocks_of(
    batches: Sequence[Minibatch], order: Sequence[int], dropout: Sequence[DropoutMasks], row_size: int
) -> Iterator[Block]:
    """Groups an epoch's steps into blocks; one with padding ends a block.

    Args:
        order: the numbers of all replicas in training, those with the most steps first.
        row_size: numbers that are laid out for one row, which bounds how many steps stand in a block.
    """
    if not batches:
        return
    replicas = torch.tensor(order, dtype=torch.int64, device=batches[0].rows.device)
    run: list[Minibatch] = []
    for batch in batches:
        most = max(1, min(_BLOCK_NUMBERS // max(1, run[0].rows.numel() * row_size), _BLOCK_STEPS)) if run else 0
        if run and (len(run) == most or run[-1].n_replicas != batch.n_replicas):
            yield _block(run, order, replicas, dropout)
            run = []
        run.append(batch)
        if batch.mask is not None:
            yield _block(run, order, replicas, dropout)
            run = []
    if run:
        yield _block(run, order, replicas, dropout)


def _block(
    batches: Sequence[Minibatch], order: Sequence[int], replicas: ReplicaNumbers, dropout: Sequence[DropoutMasks]
) -> Block:
    n_replicas, size = batches[0].rows.shape
    return Block(
        batches=batches,
        replicas=replicas[:n_replicas],
        order=order[:n_replicas],
        rows=torch.stack([batch.rows for batch in batches]),
        masks={masks.dropout.name: masks.draw(len(batches), size, n_replicas) for masks in dropout},
    )
