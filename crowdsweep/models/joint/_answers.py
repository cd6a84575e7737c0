"""The answers to minibatches of items, for models that are trained by gradient on the labels themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._classifiers import features_of
from crowdsweep.models.networks.replicas import Minibatch, take_rows

_BLOCK_FLOATS = 1 << 21


@dataclass(frozen=True, kw_only=True, eq=False)
class BatchAnswers:
    """All answers to the items of one minibatch, in one row each, replica after replica.

    Attributes:
        replica: int64, whose they are.
        place: int64, their item's place in the batch: replica * batch size + position.
        annotator: int64, replica * n_annotators + annotator.
        label: int64.
        weight: float32.
    """

    replica: torch.Tensor
    place: torch.Tensor
    annotator: torch.Tensor
    label: torch.Tensor
    weight: torch.Tensor


@final
class StackedAnswers:
    """The annotations and features of S replicas, under one another in flat arrays on the device.

    The same feature array is held once, however many replicas share it.
    """

    def __init__(self, data: Sequence[TrainingData], device: str) -> None:
        """Lays out the data of each replica, in the order given."""
        self.device = device
        self.n_annotators = max(part.n_annotators for part in data)
        starts, held = stacked_tables([features_of(part.items) for part in data])
        rows = np.cumsum([0, *(len(part.annotations) for part in data)])
        pointers = [part.annotations.item_pointers + row for part, row in zip(data, rows, strict=False)]
        self._features = torch.from_numpy(held).to(device)
        self._first_feature = torch.tensor(starts, device=device)[:, None]
        self._pointers = self._tensor(np.concatenate(pointers))
        self._first_pointer = self._tensor(np.cumsum([0, *map(len, pointers)])[:-1])[:, None]
        self._annotator = self._tensor(np.concatenate([part.annotations.annotator for part in data]))
        self._label = self._tensor(np.concatenate([part.annotations.label for part in data]))
        weights = [
            np.ones(len(part.annotations)) if part.annotations.weight is None else part.annotations.weight
            for part in data
        ]
        self._weight = torch.from_numpy(np.concatenate(weights).astype(np.float32)).to(device)

    def features_of(self, batch: Minibatch) -> torch.Tensor:
        """Returns float32 [n_replicas, batch, features]."""
        return take_rows(self._features, batch.rows + self._first_feature[: batch.n_replicas])

    def of(self, batch: Minibatch) -> BatchAnswers:
        """Returns all answers to the batch's items; padding has none."""
        n_replicas, size = batch.rows.shape
        at = batch.rows + self._first_pointer[:n_replicas]
        first = take_rows(self._pointers, at.flatten())
        counts = take_rows(self._pointers, at.flatten() + 1) - first
        if batch.mask is not None:
            counts = counts * (batch.mask.flatten() > 0)
        place = torch.repeat_interleave(torch.arange(n_replicas * size, device=self.device), counts)
        before = torch.cumsum(counts, 0) - counts
        row = torch.arange(len(place), device=self.device) + take_rows(first - before, place)
        replica = place // size
        return BatchAnswers(
            replica=replica,
            place=place,
            annotator=take_rows(self._annotator, row) + replica * self.n_annotators,
            label=take_rows(self._label, row),
            weight=take_rows(self._weight, row),
        )

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, np.int64)).to(self.device)


def step_blocks(batches: Sequence[Minibatch], floats: int) -> Iterator[list[Minibatch]]:
    """Yields runs of steps that the same replicas take, short enough that `floats` a step stay in a few megabytes."""
    limit = max(1, _BLOCK_FLOATS // max(floats, 1))
    block: list[Minibatch] = []
    for batch in batches:
        if block and (len(block) == limit or block[-1].n_replicas != batch.n_replicas):
            yield block
            block = []
        block.append(batch)
    if block:
        yield block


def stacked_tables(tables: Sequence[np.ndarray]) -> tuple[list[int], np.ndarray]:
    """Returns where each table starts, and the distinct ones under one another, float32."""
    known: dict[int, int] = {}
    held: list[np.ndarray] = []
    starts: list[int] = []
    for table in tables:
        if id(table) not in known:
            known[id(table)] = sum(map(len, held))
            held.append(table)
        starts.append(known[id(table)])
    return starts, np.concatenate(held).astype(np.float32, copy=False)
