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

from crowdsweep.arrays import ItemProbs, floored_log
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
    run_em,
    soft_vote,
    stack,
)
from crowdsweep.models.aggregate._coins import Accuracies, accuracies, coins, error
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


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
        annotators = coins(crowds, column_counts(crowds, fitted.posterior), self.smoothing)
        shares = np.exp(log_class_shares(crowds, fitted.posterior))
        extras = [
            {"class_shares": own, "annotator_accuracy": coin.accuracy}
            for own, coin in zip(shares, annotators, strict=True)
        ]
        return fitted.results(annotators, extras)

    def _accuracy(self, crowds: StackedCrowds, posterior: ItemProbs) -> Accuracies:
        """M-step: (expected right answers + smoothing) / (answers + classes * smoothing)."""
        return accuracies(crowds, column_counts(crowds, posterior), self.smoothing)

    def _log_prior(self, crowds: StackedCrowds, accuracy: Accuracies) -> PerReplica:
        per_annotator = floored_log(accuracy) + (crowds.n_classes - 1) * floored_log(error(accuracy, crowds.n_classes))
        return self.smoothing * crowds.replica_sums_of_annotators(per_annotator)


def _columns(crowds: StackedCrowds, accuracy: Accuracies) -> ConfusionColumns:
    of_column = accuracy[crowds.column_annotator]
    log_probs = np.repeat(floored_log(error(of_column, crowds.n_classes))[:, None], crowds.n_classes, axis=1)
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
    steps="iterations",
    predicts_labels=True,
    source="Dawid and Skene 1979 with one parameter an annotator",
    supports=frozenset({"votes", "soft_answers"}),
    space={"smoothing": {"values": [0, 0.01, 0.1, 1]}},
    cost=lambda shape, params: 4.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    version=2,
    deterministic=True,
    monotone_objective=True,
)
