"""The answers to the items of a minibatch, for models that are trained by gradient on the labels themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float32, Int, Int32, Int64

from crowdsweep.data.annotations import Annotations
from crowdsweep.models._batches import Batch
from crowdsweep.models._stacked import weights_of
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.tensors import PerReplica, take_rows


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ActiveAnswers:
    """The answers as plain rows, and the annotators who gave any.

    Attributes:
        rows: the answers; annotator t of them is the data's annotator `code[t]`. A soft answer is a row for each label
            that it does not exclude, weighing what it gives to that label.
        code: ascending.
        declared: annotators of the data, those who answered nothing among them.
    """

    rows: Annotations
    code: Int32[np.ndarray, " active"]
    declared: int

    @classmethod
    def of(cls, annotations: Annotations) -> "ActiveAnswers":
        """Returns the answers of these annotations. O(A log A)."""
        plain = _plain(annotations)
        code, annotator = np.unique(plain.annotator, return_inverse=True)
        rows = replace(plain, annotator=annotator.astype(np.int32), n_annotators=len(code))
        return cls(rows=rows, code=code.astype(np.int32), declared=annotations.n_annotators)


def _plain(annotations: Annotations) -> Annotations:
    soft = annotations.soft_labels
    if soft is None:
        return annotations
    row, label = np.nonzero(soft)
    return Annotations.of(
        item=annotations.item[row],
        annotator=annotations.annotator[row],
        label=label,
        weight=(weights_of(annotations)[row] * soft[row, label]).astype(np.float32),
        n_items=annotations.n_items,
        n_annotators=annotations.n_annotators,
        n_classes=annotations.n_classes,
        anonymous=annotations.anonymous,
    )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class BatchAnswers:
    """All answers to the items of one minibatch, replica after replica.

    Attributes:
        place: where in the batch the replica stands whose answer it is.
        item: where the answered item stands in the flat batch: place * batch size + position.
        annotator, label: the replica's own codes.
        sizes: how many items of the batch count.
        given: answers of each replica, on the CPU.
    """

    place: Int64[torch.Tensor, " answers"]
    item: Int64[torch.Tensor, " answers"]
    annotator: Int64[torch.Tensor, " answers"]
    label: Int64[torch.Tensor, " answers"]
    weight: Float32[torch.Tensor, " answers"]
    sizes: PerReplica
    given: Int64[np.ndarray, " replicas"]

    @property
    def weights(self) -> PerReplica:
        """The weight of all answers of each replica."""
        return torch.zeros_like(self.sizes).index_add_(0, self.place, self.weight)

    def summed(self, per_answer: Float32[torch.Tensor, " answers"]) -> PerReplica:
        """Returns the weighted sum over the answers of each replica."""
        return torch.zeros_like(self.sizes).index_add(0, self.place, per_answer * self.weight)


@final
class StackedAnswers:
    """The annotations of S replicas under one another, in flat arrays on the device."""

    def __init__(self, parts: Sequence[Annotations], device: str) -> None:
        """Lays out the annotations of each replica, in the order given."""
        self._device = device
        rows = np.cumsum([0, *map(len, parts)])
        pointers = [part.item_pointers + row for part, row in zip(parts, rows, strict=False)]
        self._pointers = self._tensor(np.concatenate(pointers))
        self._first_pointer = self._tensor(np.cumsum([0, *map(len, pointers)])[:-1])
        # On the CPU: how many answers there are to each item, one set behind the other; none to row -1.
        self._given = np.concatenate([*(part.labels_per_item for part in parts), [0]])
        self._first_item = np.cumsum([0, *(part.n_items for part in parts)])[:-1]
        self._annotator = self._tensor(np.concatenate([part.annotator for part in parts]))
        self._label = self._tensor(np.concatenate([part.label for part in parts]))
        weights = np.concatenate([weights_of(part) for part in parts])
        self._weight = torch.from_numpy(weights.astype(np.float32)).to(device)

    def of(self, batch: Batch) -> BatchAnswers:
        """Returns all answers to the batch's items; padding has none."""
        n_replicas, size = batch.rows.shape
        at = (batch.rows + self._first_pointer[batch.block.replicas][:, None]).flatten()
        first = take_rows(self._pointers, at)
        counts = take_rows(self._pointers, at + 1) - first
        if batch.mask is not None:
            counts = counts * (batch.mask.flatten() > 0)
        first_items = self._first_item[list(batch.block.order)][:, None]
        given = self._given[np.where(batch.drawn < 0, -1, batch.drawn + first_items)].sum(axis=1)
        places = torch.arange(n_replicas * size, device=self._device)
        # With the size from the CPU, a GPU is not waited for to count.
        item = torch.repeat_interleave(places, counts, output_size=int(given.sum()))
        before = torch.cumsum(counts, 0) - counts
        # The ranges first:first + counts, one behind the other: a running number, shifted for each item.
        row = torch.arange(len(item), device=self._device) + take_rows(first - before, item)
        return BatchAnswers(
            place=item // size,
            item=item,
            annotator=take_rows(self._annotator, row),
            label=take_rows(self._label, row),
            weight=take_rows(self._weight, row),
            sizes=batch.sizes,
            given=given,
        )

    def _tensor(self, array: Int[np.ndarray, " numbers"]) -> Int64[torch.Tensor, " numbers"]:
        return torch.from_numpy(np.ascontiguousarray(array, np.int64)).to(self._device)
