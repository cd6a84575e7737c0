"""One-coin annotators: right with one probability, whatever the class, and uniform over the wrong classes."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int

from crowdsweep.arrays import Confusion, Confusions, ratio
from crowdsweep.models._em import ColumnProbs, PerReplica, StackedCrowds

Accuracies = Float64[np.ndarray, " annotators"]


@dataclass(frozen=True, eq=False)
class OneCoinConfusions:
    """An `AnnotatorModel` of one number per annotator."""

    accuracy: Accuracies
    n_classes: int

    @property
    def n_annotators(self) -> int:
        return len(self.accuracy)

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        """Returns the matrices of these annotators."""
        accuracy = self.accuracy[annotators][:, None, None]
        return np.where(np.eye(self.n_classes, dtype=bool), accuracy, error(accuracy, self.n_classes))

    def global_confusion(self) -> Confusion | None:
        return None


def error(accuracy: Float64[np.ndarray, "*shape"], n_classes: int) -> Float64[np.ndarray, "*shape"]:
    """Returns the probability of each wrong class."""
    return (1.0 - accuracy) / max(n_classes - 1, 1)


def accuracies(crowds: StackedCrowds, counts: ColumnProbs, smoothing: float) -> Accuracies:
    """Returns (right answers + smoothing) / (answers + classes * smoothing) of each annotator; 1 / classes without any.

    Args:
        crowds: the annotations.
        counts: of each column's answers, by the class that their items are taken for.
        smoothing: at least 0.
    """
    return _smoothed(*right_answers(crowds, counts), smoothing, crowds.n_classes)


def coins(crowds: StackedCrowds, counts: ColumnProbs, smoothing: float) -> list[OneCoinConfusions]:
    """Returns each replica's annotators by their codes; those without an answer are as right as all together.

    Args:
        crowds: the annotations.
        counts, smoothing: as of `accuracies`.
    """
    return coins_of(crowds, accuracies(crowds, counts, smoothing), together(crowds, counts, smoothing))


def together(crowds: StackedCrowds, counts: ColumnProbs, smoothing: float) -> PerReplica:
    """Returns the accuracy of all answers of each replica together.

    Args:
        crowds, counts, smoothing: as of `accuracies`.
    """
    right, total = right_answers(crowds, counts)
    sums = crowds.replica_sums_of_annotators
    return _smoothed(sums(right), sums(total), smoothing, crowds.n_classes)


def coins_of(crowds: StackedCrowds, accuracy: Accuracies, unknown: PerReplica) -> list[OneCoinConfusions]:
    """Returns each replica's annotators by their codes, from their accuracies and that of those without an answer."""
    found: list[OneCoinConfusions] = []
    for replica in range(crowds.n_replicas):
        mine = crowds.annotators_of(replica)
        everybody = np.full(crowds.declared_annotators[replica], unknown[replica])
        everybody[crowds.annotator_code[mine]] = accuracy[mine]
        found.append(OneCoinConfusions(everybody, crowds.n_classes))
    return found


def right_answers(crowds: StackedCrowds, counts: ColumnProbs) -> tuple[Accuracies, Accuracies]:
    """Returns how many answers of each annotator are right, and how many there are.

    Args:
        crowds, counts: as of `accuracies`.
    """
    right = crowds.annotator_sums(counts[np.arange(len(counts)), crowds.column_label])
    return right, crowds.annotator_sums(counts.sum(axis=1))


def _smoothed(
    right: Float64[np.ndarray, " rows"], total: Float64[np.ndarray, " rows"], smoothing: float, n_classes: int
) -> Float64[np.ndarray, " rows"]:
    return ratio(right + smoothing, total + smoothing * n_classes, at_zero=1.0 / n_classes)
