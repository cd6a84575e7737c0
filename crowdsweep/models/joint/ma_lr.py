"""MA-LR: an annotator either knows the class, as a softmax regression does, or guesses; each has one reliability.

With the annotator's reliability as probability, a label is drawn from the regression's distribution of its item, else
uniformly from all classes. EM alternates between the posterior probability that a label was not a guess, and the
reliabilities and the regression, in which a label is weighted by that probability.

Rodrigues, Pereira and Ribeiro (2013), "Learning from multiple annotators: distinguishing good from random labelers",
Pattern Recognition Letters 34.

    w             weights of the regression, N(0, 1 / penalty)                      weights
    eta_i         softmax(w x_i)                                                    exp(log_probs)
    pi_r          reliability of annotator r                                        reliability
    gamma_ir      probability that label y_ir was not a guess                       knowing
                  pi_r eta_iy / (pi_r eta_iy + (1 - pi_r) / K)

Deviations: features are standardised. `reliabilities: exact` is the mean of gamma, the M-step of this likelihood;
`agreement` is what the authors' Python code does instead: the square of the annotator's agreement with the regression's
class, weighted by the regression's confidence. No objective need rise with it, so EM also waits for the reliabilities
to converge. Labels of one item stand for themselves in the likelihood, as in the paper; training items are labelled by
the regression and all their labels together, each of which is right with probability pi + (1 - pi) / K.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import floored_log, ratio
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import PerReplica, StackedCrowds, em_results, normalised, soft_vote, stack
from crowdsweep.models._steps import Stepped, keeping, run_steps
from crowdsweep.models.aggregate._coins import coins_of
from crowdsweep.models.aggregate._rows import PerRow, Rows, by_code
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._softmax_regression import (
    LogProbs,
    RegressionEM,
    Regressions,
    ReplicaWeights,
    SoftmaxPredictor,
    em_cost,
)

Reliabilities = Float64[np.ndarray, " annotators"]


@final
@dataclass(frozen=True, kw_only=True)
class MaLr:
    """Hyper-parameters of MA-LR.

    Attributes:
        reliabilities: `exact` likelihood, or the squared `agreement` with the regression of the authors' code.
        em: how it is fitted.
    """

    reliabilities: Literal["exact", "agreement"] = "exact"
    em: RegressionEM = RegressionEM()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        crowds = stack([part.annotations for part in data])
        rows, regressions = Rows.of(crowds), Regressions(data=data, penalty=self.em.penalty)
        given = rows.by_annotator(rows.weight)

        def mean(per_row: PerRow) -> Reliabilities:
            return ratio(rows.by_annotator(rows.weight * per_row), given, at_zero=0.0)

        def step(now: State) -> tuple[State, PerReplica]:
            weights = regressions.learn(now.targets, now.weights)
            log_probs = regressions.log_probs(weights)
            known = now.reliability[rows.annotator] * np.exp(log_probs[rows.item, rows.label])
            total = known + (1.0 - now.reliability[rows.annotator]) / rows.n_classes
            objective = crowds.replica_sums(rows.by_item(rows.weight * floored_log(total)))
            knowing = ratio(known, total, at_zero=0.0)
            reliability = mean(knowing) if self.reliabilities == "exact" else _agreement(rows, log_probs)
            after = State(targets=rows.by_label(rows.weight * knowing), reliability=reliability, weights=weights)
            return after, objective + regressions.log_prior(weights)

        def predictor(now: State, replica: int) -> SoftmaxPredictor:
            return regressions.predictor(now.weights, replica)

        def change(before: State, after: State) -> PerReplica:
            moved = np.abs(after.reliability - before.reliability)
            return _share(crowds, given * moved, given)

        agreeing = soft_vote(crowds)[rows.item, rows.label]
        stepped = run_steps(
            State(
                targets=rows.by_label(rows.weight * agreeing), reliability=mean(agreeing), weights=regressions.start()
            ),
            step,
            keeping(crowds, targets="items", reliability="annotators", weights="replicas"),
            iterations=self.em.iterations,
            tolerance=self.em.tolerance,
            reports=[context.report for context in contexts],
            change=None if self.reliabilities == "exact" else change,
            predictor=predictor,
        )
        return _results(crowds, rows, regressions, stepped)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM: expected number of labels of each class that an item's annotators gave because they knew, each
    annotator's reliability, and each replica's regression."""

    targets: Float64[np.ndarray, "items classes"]
    reliability: Reliabilities
    weights: ReplicaWeights


def _results(crowds: StackedCrowds, rows: Rows, regressions: Regressions, stepped: Stepped[State]) -> list[FitResult]:
    end, given = stepped.state, rows.by_annotator(rows.weight)
    posterior = _posterior(rows, regressions.log_probs(end.weights), end.reliability)
    right = end.reliability + (1.0 - end.reliability) / rows.n_classes
    together = _share(crowds, given * right, given)
    reliabilities = [end.reliability[crowds.annotators_of(replica)] for replica in range(crowds.n_replicas)]
    return em_results(
        crowds,
        posterior,
        stepped,
        coins_of(crowds, right, together),
        [{"reliability": by_code(crowds, replica, own)} for replica, own in enumerate(reliabilities)],
        [regressions.predictor(end.weights, replica) for replica in range(crowds.n_replicas)],
    )


def _share(crowds: StackedCrowds, part: Reliabilities, whole: Reliabilities) -> PerReplica:
    """Returns for each replica the sum over its annotators of one thing, by the sum of another; 1 where that is 0."""
    return ratio(crowds.replica_sums_of_annotators(part), crowds.replica_sums_of_annotators(whole), at_zero=1.0)


def _agreement(rows: Rows, log_probs: LogProbs) -> Reliabilities:
    """Returns the square of each annotator's agreement with the likeliest classes, weighted by their probabilities."""
    confidence = rows.weight * np.exp(log_probs.max(axis=1))[rows.item]
    agrees = log_probs.argmax(axis=1)[rows.item] == rows.label
    return ratio(rows.by_annotator(confidence * agrees), rows.by_annotator(confidence), at_zero=0.0) ** 2


def _posterior(rows: Rows, log_probs: LogProbs, reliability: Reliabilities) -> Float64[np.ndarray, "items classes"]:
    """Returns each item's class given the regression and its labels."""
    wrong = (1.0 - reliability[rows.annotator]) / rows.n_classes
    gain = floored_log(reliability[rows.annotator] + wrong) - floored_log(wrong)
    return normalised(log_probs + rows.by_label(rows.weight * gain))[0]


MODEL = ModelInfo(
    name="ma-lr",
    title="MA-LR: softmax regression, and annotators who know or guess, by exact EM",
    model=MaLr,
    steps="iterations",
    predicts_labels=True,
    source="Rodrigues, Pereira and Ribeiro 2013, Pattern Recognition Letters 34",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={"penalty": {"values": [0.1, 1, 10, 100]}, "reliabilities": {"values": ["exact", "agreement"]}},
    cost=em_cost,
    deterministic=True,
    monotone_objective=True,
)
