"""One-coin annotators: right with one probability, whatever the class, and uniform over the wrong classes."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int

from crowdsweep.arrays import Confusion, Confusions, ItemProbs, ratio
from crowdsweep.models._em import ColumnProbs, PerReplica, StackedCrowds
from crowdsweep.models.aggregate._rows import by_code, pieces

Accuracies = Float64[np.ndarray, " annotators"]
RightAndAll = tuple[Accuracies, Accuracies]
_ITEMS = 1 << 16  # whose answers are looked at together
PerEntry = Float64[np.ndarray, " entries"]  # of `StackedCrowds.answers`


@dataclass(frozen=True, eq=False)
class OneCoinConfusions:
    """An `AnnotatorModel` of one number per annotator."""

    accuracy: Accuracies
    n_classes: int

    @property
    def n_annotators(self) -> int:
        return len(self.accuracy)

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        accuracy = self.accuracy[annotators][:, None, None]
        return np.where(np.eye(self.n_classes, dtype=bool), accuracy, error(accuracy, self.n_classes))

    def global_confusion(self) -> Confusion | None:
        return None


def error(accuracy: Float64[np.ndarray, "*shape"], n_classes: int) -> Float64[np.ndarray, "*shape"]:
    """Returns the probability of each wrong class."""
    return (1.0 - accuracy) / max(n_classes - 1, 1)


def accuracies(crowds: StackedCrowds, answers: RightAndAll, smoothing: float) -> Accuracies:
    """Returns (right answers + smoothing) / (answers + classes * smoothing) of each annotator; 1 / classes without any.

    Args:
        answers: of each annotator, how many are right, and how many there are.
        smoothing: at least 0.
    """
    return _smoothed(*answers, smoothing, crowds.n_classes)


def coins(crowds: StackedCrowds, answers: RightAndAll, smoothing: float) -> list[OneCoinConfusions]:
    """Returns each replica's annotators by their codes; those without an answer have the pooled accuracy."""
    return coins_of(crowds, accuracies(crowds, answers, smoothing), pooled_accuracies(crowds, answers, smoothing))


def pooled_accuracies(crowds: StackedCrowds, answers: RightAndAll, smoothing: float) -> PerReplica:
    """Returns the accuracy of all answers of each replica, whoever gave them."""
    right, total = answers
    sums = crowds.replica_sums_of_annotators
    return _smoothed(sums(right), sums(total), smoothing, crowds.n_classes)


def coins_of(crowds: StackedCrowds, accuracy: Accuracies, unknown: PerReplica) -> list[OneCoinConfusions]:
    """Returns each replica's annotators by their codes; `unknown` is the accuracy of those without an answer."""
    return [
        OneCoinConfusions(
            by_code(crowds, replica, accuracy[crowds.annotators_of(replica)], idle=idle), crowds.n_classes
        )
        for replica, idle in enumerate(unknown)
    ]


def right_answers(crowds: StackedCrowds, posterior: ItemProbs) -> RightAndAll:
    """Returns how many answers of each annotator are right, and how many there are. O(A)."""
    right, total = np.zeros((2, crowds.n_annotators))
    for piece in pieces(crowds, 1, _ITEMS):
        np.add.at(right, piece.annotator, piece.weight * posterior[piece.items][piece.row, piece.label])
        np.add.at(total, piece.annotator, piece.weight)
    return right, total


def right_of_counts(crowds: StackedCrowds, counts: ColumnProbs) -> RightAndAll:
    """Returns the same from counts of answers [columns, classes] by the class that each is compared with."""
    right = crowds.annotator_sums(counts[np.arange(len(counts)), crowds.column_label])
    return right, crowds.annotator_sums(counts.sum(axis=1))


def right_entries(crowds: StackedCrowds, right: PerEntry) -> RightAndAll:
    """Returns the same from the probability that each answer is right."""
    answers, annotator = crowds.answers, crowds.column_annotator[crowds.answers.indices]
    sums = (np.bincount(annotator, part, crowds.n_annotators) for part in (answers.data * right, answers.data))
    right_sum, total = (part.astype(np.float64, copy=False) for part in sums)  # no entries: integers
    return right_sum, total


def _smoothed(
    right: Float64[np.ndarray, " rows"], total: Float64[np.ndarray, " rows"], smoothing: float, n_classes: int
) -> Float64[np.ndarray, " rows"]:
    return ratio(right + smoothing, total + smoothing * n_classes, at_zero=1.0 / n_classes)
