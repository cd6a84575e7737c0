"""One-coin: every annotator is right with one probability, whatever the class, and errs uniformly.

Dawid-Skene with confusion matrices of one parameter: accuracy on the diagonal, the rest spread evenly. It needs far
fewer labels per annotator than a full matrix, and cannot represent that an annotator confuses two particular classes.

Dawid and Skene (1979) with the "homogeneous" annotator of Raykar et al. (2010) and of crowd-kit's OneCoinDawidSkene.

    accuracy_t   probability that annotator t answers with the true class
    rho          class shares, as in `dawid_skene.py`

`shrinkage` draws annotators with few answers towards the crowd: so many pseudo-answers are added to theirs, right as
often as all annotators are if they share one accuracy, which is fitted first.

Deviations: `shrinkage` is ours; `smoothing` is a pseudo-count in each of an annotator's K cells, as in
`dawid_skene.py`, so that it draws towards chance (1 / K), not towards 1/2. Annotators without answers have the
pooled accuracy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs, floored_log, ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    FittedEM,
    PerReplica,
    StackedCrowds,
    chunks,
    log_class_shares,
    normalised,
    pooled,
    soft_vote,
    stack,
)
from crowdsweep.models._steps import kept_rows, run_steps
from crowdsweep.models.aggregate._by_class import fit_by_class
from crowdsweep.models.aggregate._coins import Accuracies, coins_of, error, pooled_accuracies, right_answers
from crowdsweep.models.aggregate.dawid_skene import CROWD_STEPS
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo, Report, no_op


@final
@dataclass(frozen=True, kw_only=True)
class OneCoin:
    """Hyper-parameters of one-coin.

    Attributes:
        smoothing: pseudo-counts of right answers, and of each kind of wrong ones.
        shrinkage: pseudo-answers of every annotator, right as often as the crowd's are. Without them, estimates from
            few answers are too extreme: of 10,000 simulated annotators with four labels each, the held-out
            log-likelihood per answer is then -1.17 (the vote's: -0.66), and -0.60 with ten pseudo-answers.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    smoothing: Annotated[float, Ge(0)] = 0.01
    shrinkage: Annotated[float, Ge(0)] = 10.0
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all data sets side by side; each stops by itself."""
        if data[0].scale == "multilabel":
            return fit_by_class(self, data, contexts)
        crowds = stack([part.annotations for part in data])
        pseudo = self._pseudo_answers(crowds)
        fitted = self._fit(crowds, pseudo, self.iterations, [context.report for context in contexts])
        of_crowd = pooled_accuracies(crowds, right_answers(crowds, fitted.posterior), self.smoothing)
        annotators = coins_of(crowds, pseudo.accuracy(crowds, fitted.posterior), of_crowd)
        shares = np.exp(log_class_shares(crowds, fitted.posterior))
        extras = [
            {"class_shares": own, "annotator_accuracy": coin.accuracy}
            for own, coin in zip(shares, annotators, strict=True)
        ]
        return fitted.results(annotators, extras)

    def _pseudo_answers(self, crowds: StackedCrowds) -> "PseudoCoins":
        """Returns what is added to every annotator's answers; the crowd's accuracy is by the same EM."""
        evenly = np.full(crowds.n_replicas, self.smoothing)
        smoothed = PseudoCoins(right=evenly, wrong=evenly)
        if self.shrinkage == 0:
            return smoothed
        crowd = pooled(crowds)
        fitted = self._fit(crowd, smoothed, CROWD_STEPS, [no_op] * crowds.n_replicas)
        accuracy = smoothed.accuracy(crowd, fitted.posterior)
        return PseudoCoins(
            right=evenly + self.shrinkage * accuracy,
            wrong=evenly + self.shrinkage * error(accuracy, crowds.n_classes),
        )

    def _fit(
        self, crowds: StackedCrowds, pseudo: "PseudoCoins", iterations: int, reports: Sequence[Report]
    ) -> FittedEM:
        def step(posterior: ItemProbs) -> tuple[ItemProbs, PerReplica]:
            accuracy = pseudo.accuracy(crowds, posterior)
            log_joint = _log_answers(crowds, accuracy)
            log_joint += crowds.spread(log_class_shares(crowds, posterior))
            updated, log_evidence = normalised(log_joint, in_place=True)
            return updated, crowds.replica_sums(log_evidence) + pseudo.log_prior(crowds, accuracy)

        stepped = run_steps(
            soft_vote(crowds),
            step,
            partial(kept_rows, crowds, "items"),
            iterations=iterations,
            tolerance=self.tolerance,
            reports=reports,
        )
        return FittedEM(crowds=crowds, posterior=stepped.state, stepped=stepped)


@dataclass(frozen=True, kw_only=True, eq=False)
class PseudoCoins:
    """Pseudo-answers of every annotator of each replica: right ones, and those of each wrong class."""

    right: PerReplica
    wrong: PerReplica

    def accuracy(self, crowds: StackedCrowds, posterior: ItemProbs) -> Accuracies:
        """M-step: (expected right answers + pseudo-answers) / (answers + pseudo-answers); 1 / classes without any."""
        right, total = right_answers(crowds, posterior)
        more, n_classes = self.right[crowds.annotator_replica], crowds.n_classes
        total = total + more + (n_classes - 1) * self.wrong[crowds.annotator_replica]
        return ratio(right + more, total, at_zero=1.0 / n_classes)

    def log_prior(self, crowds: StackedCrowds, accuracy: Accuracies) -> PerReplica:
        """Returns the sum of pseudo-answers * log probability; EM maximises its sum with the log evidence."""
        wrong = (crowds.n_classes - 1) * floored_log(error(accuracy, crowds.n_classes))
        sums = crowds.replica_sums_of_annotators
        return self.right * sums(floored_log(accuracy)) + self.wrong * sums(wrong)


def _log_answers(crowds: StackedCrowds, accuracy: Accuracies) -> Float64[np.ndarray, "items classes"]:
    """Returns the log-likelihood of each item's answers for each true class, some classes at a time: of very many, a
    table of columns × classes would be far larger than that of items. O(A K)."""
    label, of_column = crowds.column_label[:, None], accuracy[crowds.column_annotator][:, None]
    right, wrong = floored_log(of_column), floored_log(error(of_column, crowds.n_classes))
    found = np.empty((crowds.n_items, crowds.n_classes))
    for part in chunks(crowds.n_classes, len(label)):
        found[:, part] = crowds.answers @ np.where(label == np.arange(part.start, part.stop), right, wrong)
    return found


MODEL = ModelInfo(
    name="one-coin",
    title="One-coin Dawid-Skene: one accuracy for each annotator",
    model=OneCoin,
    steps="iterations",
    predicts_labels=True,
    source="Dawid and Skene 1979 with one parameter an annotator",
    supports=frozenset({"votes", "multilabel", "soft_answers"}),
    space={"smoothing": {"values": [0.01, 1]}, "shrinkage": {"values": [0, 3, 10, 30]}},
    cost=lambda shape, params: 1.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    version=3,
    deterministic=True,
    monotone_objective=True,
)
