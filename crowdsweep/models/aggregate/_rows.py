"""Answers as rows (item, annotator, label, weight), for models that compute something for each of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float64, Int, Int32, Int64

from crowdsweep.models._em import StackedCrowds, chunks

PerRow = Float64[np.ndarray, " rows"]
PerUnit = Float64[np.ndarray, " units"]
UnitParameters = Float64[np.ndarray, " units *shape"]

_HALVINGS = 10


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The answers as rows: item, annotator, label, and how much each counts."""

    item: Int32[np.ndarray, " rows"]
    annotator: Int32[np.ndarray, " rows"]
    label: Int32[np.ndarray, " rows"]
    weight: PerRow
    n_items: int
    n_annotators: int
    n_classes: int

    @classmethod
    def of(cls, crowds: StackedCrowds) -> "Rows":
        """Lays out the entries of the answers."""
        entries = crowds.answers.tocoo()
        return cls(
            item=entries.coords[0].astype(np.int32),
            annotator=crowds.column_annotator[entries.coords[1]],
            label=crowds.column_label[entries.coords[1]],
            weight=entries.data,
            n_items=crowds.n_items,
            n_annotators=crowds.n_annotators,
            n_classes=crowds.n_classes,
        )

    def by_item(self, per_row: PerRow) -> PerUnit:
        """Sums over the rows of each item."""
        return sums_of(self.item, per_row, self.n_items)

    def by_annotator(self, per_row: PerRow) -> PerUnit:
        """Sums over the rows of each annotator."""
        return sums_of(self.annotator, per_row, self.n_annotators)

    def by_label(self, per_row: PerRow) -> Float64[np.ndarray, "items classes"]:
        """Sums over the rows of each item and label."""
        cells = self.item.astype(np.int64) * self.n_classes + self.label
        return sums_of(cells, per_row, self.n_items * self.n_classes).reshape(-1, self.n_classes)


class Piece(NamedTuple):
    """Some items, with the row among them, annotator, label and weight of each of their answers."""

    items: slice
    row: Int64[np.ndarray, " entries"]
    annotator: Int32[np.ndarray, " entries"]
    label: Int32[np.ndarray, " entries"]
    weight: Float64[np.ndarray, " entries"]


def pieces(crowds: StackedCrowds, row_size: int, numbers: int) -> Iterator[Piece]:
    """Yields the answers, cut so that a table of `row_size` numbers for each item has about so many `numbers`."""
    answers = crowds.answers
    for items in chunks(crowds.n_items, row_size, numbers):
        ends = answers.indptr[items.start : items.stop + 1]
        entries, row = slice(ends[0], ends[-1]), np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        column = answers.indices[entries]
        labels = crowds.column_label[column]
        yield Piece(items, row, crowds.column_annotator[column], labels, answers.data[entries])


class AnswersByPair(NamedTuple):
    """The answers of each pair of an item and an annotator, repeats and fractions of an answer together.

    Attributes:
        weights: sparse [pairs, columns]: `crowds.answers` with a row for each pair in place of each item.
        item, annotator: of each pair.
    """

    weights: sp.csr_array
    item: Int32[np.ndarray, " pairs"]
    annotator: Int32[np.ndarray, " pairs"]

    @classmethod
    def of(cls, crowds: StackedCrowds) -> "AnswersByPair":
        """Lays out the pairs, sorted by item and annotator."""
        (item, annotator, pointers), answers = pairs_of(crowds), crowds.answers
        weights = sp.csr_array((answers.data, answers.indices, pointers), shape=(len(pointers) - 1, answers.shape[1]))
        return cls(weights, item[pointers[:-1]], annotator[pointers[:-1]])


def pairs_of(
    crowds: StackedCrowds,
) -> tuple[Int32[np.ndarray, " entries"], Int32[np.ndarray, " entries"], Int64[np.ndarray, " pointers"]]:
    """Returns item and annotator of each entry of `crowds.answers`, sorted by item and column, and where pairs begin:
    the entries of pair p, of one item and one annotator, are `pointers[p]:pointers[p + 1]`."""
    answers = crowds.answers
    answers.sort_indices()
    item = np.repeat(np.arange(crowds.n_items, dtype=np.int32), np.diff(answers.indptr))
    annotator = crowds.column_annotator[answers.indices]
    begins = np.ones(len(item) + 1, dtype=bool)  # the last one where the last pair ends
    begins[1:-1] = (item[1:] != item[:-1]) | (annotator[1:] != annotator[:-1])
    return item, annotator, np.flatnonzero(begins)


def by_code(
    crowds: StackedCrowds, replica: int, values: Float64[np.ndarray, " active"], *, idle: float = 0.0
) -> Float64[np.ndarray, " annotators"]:
    """Returns the values of a replica's active annotators at their codes; `idle` at those without an answer."""
    everybody = np.full(crowds.declared_annotators[replica], idle)
    everybody[crowds.annotator_code[crowds.annotators_of(replica)]] = values
    return everybody


def sums_of(code: Int[np.ndarray, " rows"], per_row: PerRow, size: int) -> PerUnit:
    """Sums over the rows of each code."""
    return np.bincount(code, weights=per_row, minlength=size).astype(np.float64, copy=False)  # no rows: integers


def damped_newton_step(
    value: Callable[[UnitParameters], PerUnit], at: UnitParameters, step: UnitParameters
) -> UnitParameters:
    """Returns at + step, each unit's step halved until its value does not fall; no step where ten halvings do not help.

    Args:
        value: of all units; each depends on its own parameters alone.
    """
    # A Newton step leads to the maximum of a quadratic, which can lie beyond the function's own. No unit's value
    # depends on another's step, so that one evaluation tries all of them.
    before = value(at)
    wide = (-1, *(1,) * (at.ndim - 1))
    for _ in range(_HALVINGS):
        falls = value(at + step) < before
        if not falls.any():
            return at + step
        step = np.where(falls.reshape(wide), 0.5 * step, step)
    return np.where((value(at + step) < before).reshape(wide), at, at + step)
