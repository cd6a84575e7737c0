"""Distances of estimated confusion matrices from the true ones.

The distance of two matrices is the Jensen-Shannon divergence of their rows, averaged over the rows: entries are clipped
at 1e-7, rows normalised again, and the result divided by ln 2, so that it lies in [0, 1]. The true matrix of an
annotator is known for a simulated crowd; else it is counted from the answers to items with gold, a class of which the
annotator met no item getting a uniform row. Multi-label annotators have a matrix of two by two for each class; the
average runs over the rows of all of them.

All averages run over active annotators, those with at least one annotation, in chunks: nothing of size
annotators × classes × classes is ever made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ClassConfusion, ClassConfusions, Confusion, Confusions, normalised_rows
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import ChoiceCounts, choice_counts, choices_of
from crowdsweep.data.dataset import Gold

CLIP = 1e-7
CHUNK_ENTRIES = 4_000_000  # annotators × classes × classes at a time: 32 MB


@runtime_checkable
class TrueMatrices(Protocol):
    """Gives the true, row-stochastic matrices of annotators, as `TrueCrowd` does."""

    def of(self, annotators: np.ndarray) -> Confusions | ClassConfusions: ...


@runtime_checkable
class EstimatedMatrices(Protocol):
    """Gives estimated, row-stochastic matrices of annotators, as a model's `AnnotatorModel` does."""

    def confusion(self, annotators: np.ndarray) -> Confusions | ClassConfusions: ...


@dataclass(frozen=True, eq=False)
class CountedCrowd:
    """True matrices counted from the annotators' answers to items with gold (one gold class per item); a soft answer
    counts as fractions of an answer to each label."""

    annotations: Annotations
    gold: Gold

    def of(self, annotators: np.ndarray) -> Confusions:
        """Returns the matrices of these annotators; uniform rows where one met no item of a class."""
        starts = self.annotations.annotator_pointers[annotators]
        lengths = self.annotations.annotator_pointers[annotators + 1] - starts
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = self.annotations.by_annotator[np.repeat(starts, lengths) + within]
        owner = np.repeat(np.arange(len(annotators)), lengths)
        return normalised_rows(self._counts(rows, owner, len(annotators)))

    def pooled(self) -> Confusion:
        """Returns the matrix of all answers together."""
        everything = np.arange(len(self.annotations))
        return normalised_rows(self._counts(everything, np.zeros_like(everything), 1))[0]

    def _counts(self, rows: np.ndarray, owner: np.ndarray, n_owners: int) -> Confusions:
        n_classes = self.annotations.n_classes
        truth = np.full(self.annotations.n_items, -1, dtype=np.int64)
        truth[self.gold.item] = self.gold.label
        true_class = truth[self.annotations.item[rows]]
        known = true_class >= 0
        cell = (owner[known] * n_classes + true_class[known]) * n_classes + self.annotations.label[rows[known]]
        weight = None if self.annotations.weight is None else self.annotations.weight[rows[known]]
        if self.annotations.soft_labels is not None:
            shares = self.annotations.soft_labels[rows[known]] * (1.0 if weight is None else weight[:, None])
            soft = np.zeros((n_owners * n_classes, n_classes))
            np.add.at(soft, cell // n_classes, shares)
            return soft.reshape(n_owners, n_classes, n_classes)
        counts = np.bincount(cell, weights=weight, minlength=n_owners * n_classes * n_classes)
        return counts.astype(np.float64).reshape(n_owners, n_classes, n_classes)


@dataclass(frozen=True, eq=False)
class CountedChoosers:
    """True matrices counted from multi-label answers to items with gold: for each class two by two."""

    counts: ChoiceCounts

    @classmethod
    def of_answers(cls, annotations: Annotations, gold: Gold) -> "CountedChoosers":
        """Counts the answers to items with gold, to which the classes that gold does not name do not apply."""
        applies = np.zeros((annotations.n_items, annotations.n_classes))
        applies[gold.item, gold.label] = 1.0
        known = applies.max(axis=1) > 0
        return cls(choice_counts(choices_of(annotations.take(known[annotations.item])), applies))

    def of(self, annotators: np.ndarray) -> ClassConfusions:
        """Returns the matrices of these annotators; uniform rows where one met no item of the kind."""
        return normalised_rows(self.counts.of(annotators))

    def pooled(self) -> ClassConfusion:
        """Returns the matrices of all answers together."""
        return normalised_rows(self.counts.pooled())


def js_matrices(
    true: Float64[np.ndarray, "annotators *rows observed"], estimated: Float64[np.ndarray, "annotators *rows observed"]
) -> Float64[np.ndarray, " annotators"]:
    """Returns for each pair of matrices (or pair of stacks of them) the mean over rows of their JS divergence, in
    [0, 1]."""
    first, second = (normalised_rows(np.clip(part, CLIP, 1.0)) for part in (true, estimated))
    middle = 0.5 * (first + second)
    rows = 0.5 * (first * np.log(first / middle) + second * np.log(second / middle)).sum(axis=-1)
    return rows.mean(axis=tuple(range(1, rows.ndim))) / np.log(2.0)


def js_annotators(true: TrueMatrices, estimated: EstimatedMatrices, active: np.ndarray) -> float:
    """Returns the plain mean over active annotators of the divergence of their own two matrices (I-JS).

    Args:
        active: int [active], codes of the annotators with annotations; at least one.
    """
    chunks = _chunks(active, estimated)
    total = sum(float(js_matrices(true.of(part), estimated.confusion(part)).sum()) for part in chunks)
    return total / len(active)


def js_annotators_crowd(true: TrueMatrices, crowd: Confusion | ClassConfusion, active: np.ndarray) -> float:
    """Returns the plain mean over active annotators of the divergence of their own true matrix from the crowd's one.

    So Mena and Nanculef (2019) compute I-JS of majority vote: every annotator has the matrix of all answers against the
    vote.

    Args:
        crowd: the matrix that every annotator is taken to have.
        active: int [active], codes of the annotators with annotations; at least one.
    """
    return js_annotators(true, _SameMatrix(crowd), active)


@dataclass(frozen=True, eq=False)
class _SameMatrix:
    matrix: Confusion | ClassConfusion

    def confusion(self, annotators: np.ndarray) -> Confusions | ClassConfusions:
        return np.broadcast_to(self.matrix, (len(annotators), *self.matrix.shape))


def js_global(true: Confusion | ClassConfusion, estimated: Confusion | ClassConfusion) -> float:
    """Returns the divergence of the two matrices of the whole crowd (G-JS)."""
    return float(js_matrices(true[None], estimated[None])[0])


def mean_confusion(
    estimated: EstimatedMatrices, active: np.ndarray, weight: Float64[np.ndarray, " active"] | None = None
) -> Confusion | ClassConfusion:
    """Returns the mean of the active annotators' estimated matrices: plain, or weighted (by their numbers of labels).

    Args:
        active: int [active], codes of the annotators with annotations; at least one.
        weight: positive; None for the plain mean.
    """
    weight = np.ones(len(active)) if weight is None else weight
    total, done = 0.0, 0
    for part in _chunks(active, estimated):
        total = total + np.tensordot(weight[done : done + len(part)], estimated.confusion(part), axes=1)
        done += len(part)
    return np.asarray(total) / weight.sum()


def _chunks(annotators: np.ndarray, estimated: EstimatedMatrices) -> Iterator[np.ndarray]:
    step = max(CHUNK_ENTRIES // estimated.confusion(annotators[:1]).size, 1)
    for start in range(0, len(annotators), step):
        yield annotators[start : start + step]
