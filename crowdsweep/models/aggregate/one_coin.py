"""One-coin: every annotator is right with one probability, whatever the class, and errs evenly.

Dawid-Skene with confusion matrices of one parameter: accuracy on the diagonal, the rest spread evenly. It needs far
fewer labels of an annotator than a whole matrix, and cannot see that somebody confuses two classes.

Dawid and Skene (1979) with the "homogeneous" annotator of Raykar et al. (2010) and of crowd-kit's OneCoinDawidSkene.

    accuracy_t   probability that annotator t answers with the true class
    rho          class shares, as in `dawid_skene.py`

Deviations: `smoothing` is a pseudo-count in each of an annotator's K cells, as in `dawid_skene.py`, so an annotator is
shrunk towards chance (1 / K), not towards 1/2. Annotators without any answer have the accuracy of all answers together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64, Int

from crowdsweep.arrays import Confusion, Confusions, ItemProbs, floored_log, ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    ConfusionColumns,
    PerReplica,
    StackedCrowds,
    column_counts,
    evenly,
    log_answers,
    log_class_shares,
    normalised,
    pooled,
    run_em,
    soft_vote,
    stack,
)
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

Accuracies = Float64[np.ndarray, " annotators"]


@final
@dataclass(frozen=True, kw_only=True)
class OneCoin:
    """Hyper-parameters of one-coin.

    Attributes:
        smoothing: pseudo-counts in every cell: one for the right answer, one for each wrong one.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all data sets side by side; each stops by itself."""
        crowds = stack([part.annotations for part in data])

        def step(posterior: ItemProbs) -> tuple[ItemProbs, PerReplica]:
            accuracy = self._accuracy(crowds, posterior)
            log_joint = log_answers(crowds, _columns(crowds, accuracy))
            log_joint += crowds.spread(log_class_shares(crowds, posterior))
            updated, log_evidence = normalised(log_joint)
            return updated, crowds.replica_sums(log_evidence) + self._log_prior(crowds, accuracy)

        fitted = run_em(
            crowds,
            soft_vote(crowds),
            step,
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        accuracy = self._accuracy(crowds, fitted.posterior)
        together = self._accuracy(pooled(crowds), fitted.posterior)
        annotators = [_annotators_of(crowds, accuracy, together, replica) for replica in range(crowds.n_replicas)]
        shares = np.exp(log_class_shares(crowds, fitted.posterior))
        extras = [
            {"class_shares": own, "annotator_accuracy": coins.accuracy}
            for own, coins in zip(shares, annotators, strict=True)
        ]
        return fitted.results(annotators, extras)

    def _accuracy(self, crowds: StackedCrowds, posterior: ItemProbs) -> Accuracies:
        """M-step: (expected right answers + smoothing) / (answers + classes * smoothing)."""
        counts = column_counts(crowds, posterior)
        right = crowds.annotator_sums(counts[np.arange(len(counts)), crowds.column_label]) + self.smoothing
        total = crowds.annotator_sums(counts.sum(axis=1)) + self.smoothing * crowds.n_classes
        return ratio(right, total, at_zero=1.0 / crowds.n_classes)

    def _log_prior(self, crowds: StackedCrowds, accuracy: Accuracies) -> PerReplica:
        per_annotator = floored_log(accuracy) + (crowds.n_classes - 1) * floored_log(_error(accuracy, crowds.n_classes))
        return self.smoothing * crowds.replica_sums_of_annotators(per_annotator)


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
        return np.where(np.eye(self.n_classes, dtype=bool), accuracy, _error(accuracy, self.n_classes))

    def global_confusion(self) -> Confusion | None:
        return None


def _annotators_of(
    crowds: StackedCrowds, accuracy: Accuracies, together: PerReplica, replica: int
) -> OneCoinConfusions:
    """Returns one replica's annotators by their codes; those without an answer are as right as all together."""
    mine = crowds.annotators_of(replica)
    everybody = np.full(crowds.declared_annotators[replica], together[replica])
    everybody[crowds.annotator_code[mine]] = accuracy[mine]
    return OneCoinConfusions(everybody, crowds.n_classes)


def _error(accuracy: Float64[np.ndarray, "*shape"], n_classes: int) -> Float64[np.ndarray, "*shape"]:
    return (1.0 - accuracy) / max(n_classes - 1, 1)


def _columns(crowds: StackedCrowds, accuracy: Accuracies) -> ConfusionColumns:
    of_column = accuracy[crowds.column_annotator]
    log_probs = np.repeat(floored_log(_error(of_column, crowds.n_classes))[:, None], crowds.n_classes, axis=1)
    log_probs[np.arange(len(of_column)), crowds.column_label] = floored_log(of_column)
    return ConfusionColumns(
        log_probs=log_probs,
        totals=np.zeros((crowds.n_annotators, crowds.n_classes)),
        pseudo_answers=evenly(crowds, 0.0),
    )


MODEL = ModelInfo(
    name="one-coin",
    title="One-coin Dawid-Skene: one accuracy for each annotator",
    model=OneCoin,
    source="Dawid and Skene 1979 with one parameter an annotator",
    supports=frozenset({"votes", "soft_answers"}),
    space={"smoothing": {"values": [0, 0.01, 0.1, 1]}},
    cost=lambda shape, params: 4.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    version=2,
    deterministic=True,
    monotone_objective=True,
)
