"""Snorkel: annotators as labelling functions, which label or abstain, and agree with the class more or less.

Each annotator has a factor for labelling at all and one for labelling with the true class; together they define the
joint distribution of answers, abstentions and classes, whose marginal likelihood is maximised without gold. The penalty
on the accuracy factors decides how far the result departs from the majority vote.

Ratner et al. (2016), "Data programming", NIPS, and (2017), "Snorkel", VLDB: independent functions, several classes.

    phi_Lab    the function labels: weight beta_j          not kept: its optimum depends on counts alone
    phi_Acc    it labels with the class: weight alpha_j    log_odds
    Z_j        1 + exp(beta)(exp(alpha) + K - 1)           exact; given a label, exp(alpha) + K - 1
    p(y)       uniform                                     posterior: softmax of alpha_j over the answers

Deviations: without correlations the normaliser is exact, so nothing is sampled, and the likelihood is maximised by EM
with Newton steps in place of stochastic gradients. The penalty is added to the mean over items, to which the shrinkage
after each step in Snorkel 0.7 is equivalent, but on alpha alone: with beta penalised too, alpha becomes negative
wherever most annotators abstain (rte: accuracy 7.6 %). So beta has its maximum likelihood value, is the same for all
classes and drops out of the objective. Annotators without answers have the mean accuracy of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs, ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import PerReplica, StackedCrowds, column_counts, em_results, normalised, soft_vote, stack
from crowdsweep.models._steps import keeping, run_steps
from crowdsweep.models.aggregate._coins import coins_of
from crowdsweep.models.aggregate._rows import damped_newton_step
from crowdsweep.models.aggregate._weighted_votes import weighted_votes
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo

PerAnnotator = Float64[np.ndarray, " annotators"]

_NEWTON_STEPS = 3


@final
@dataclass(frozen=True, kw_only=True)
class Snorkel:
    """Hyper-parameters of Snorkel's generative model.

    Attributes:
        penalty: half of it times the square of each annotator's weight is taken from the mean log-likelihood of an
            item. The default predicts held-out answers best, on average over 17 public datasets (0.000001 to 0.001 on
            five splits of each, 0.01 and 0.1 on three); gold had no part in it. At 0.1, which Snorkel 0.7 is often
            called with, the weights of sparse data are so small that EM is the power method and drifts as `kos.py`
            does.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    penalty: Annotated[float, Gt(0)] = 0.0003
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        crowds = stack([part.annotations for part in data])
        stepped = run_steps(
            State(posterior=soft_vote(crowds), log_odds=np.zeros(crowds.n_annotators)),
            lambda state: self._step(crowds, state),
            keeping(crowds, posterior="items", log_odds="annotators"),
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        end = stepped.state
        accuracy = _accuracy(end.log_odds, crowds.n_classes)
        given, sums = crowds.answers_per_annotator, crowds.replica_sums_of_annotators
        together = ratio(sums(given * accuracy), sums(given), at_zero=1.0 / crowds.n_classes)
        annotators = coins_of(crowds, accuracy, together)
        extras = [{"annotator_accuracy": own.accuracy} for own in annotators]
        return em_results(crowds, end.posterior, stepped, annotators, extras)

    def _step(self, crowds: StackedCrowds, state: "State") -> tuple["State", PerReplica]:
        """M-step: alpha of each annotator by itself; E-step: votes weighted by alpha."""
        counts = column_counts(crowds, state.posterior)
        right = crowds.annotator_sums(counts[np.arange(len(counts)), crowds.column_label])
        given, n_classes = crowds.answers_per_annotator, crowds.n_classes
        # The penalty is declared for a mean over items; what is maximised here is a sum.
        penalty = self.penalty * crowds.replica_sums(crowds.answered)[crowds.annotator_replica]

        def apart(at: PerAnnotator) -> PerAnnotator:
            return -given * _log_normaliser(at, n_classes) - 0.5 * penalty * at**2

        log_odds = state.log_odds
        for _ in range(_NEWTON_STEPS):
            accuracy = _accuracy(log_odds, n_classes)
            slope = right - given * accuracy - penalty * log_odds
            step = slope / (given * accuracy * (1.0 - accuracy) + penalty)
            log_odds = damped_newton_step(lambda at: right * at + apart(at), log_odds, step)
        posterior, log_evidence = normalised(weighted_votes(crowds, log_odds) - np.log(n_classes))
        objective = crowds.replica_sums(log_evidence) + crowds.replica_sums_of_annotators(apart(log_odds))
        return State(posterior=posterior, log_odds=log_odds), objective


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM: the posterior, and alpha of each annotator."""

    posterior: ItemProbs
    log_odds: PerAnnotator


def _log_normaliser(log_odds: PerAnnotator, n_classes: int) -> PerAnnotator:
    """Returns log(exp(alpha) + K - 1)."""
    return np.logaddexp(log_odds, np.log(max(n_classes - 1, 1)))


def _accuracy(log_odds: PerAnnotator, n_classes: int) -> PerAnnotator:
    """Returns the probability that a label given is the class."""
    return np.exp(log_odds - _log_normaliser(log_odds, n_classes))


MODEL = ModelInfo(
    name="snorkel",
    title="Snorkel: data programming with independent annotators",
    model=Snorkel,
    steps="iterations",
    predicts_labels=True,
    source="Ratner et al. 2016 and 2017, the generative model without correlations",
    supports=frozenset({"votes", "soft_answers"}),
    space={"penalty": {"values": [0.0001, 0.0003, 0.001, 0.01, 0.1]}},
    cost=lambda shape, params: 4.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    version=2,
    deterministic=True,
    monotone_objective=True,
)
