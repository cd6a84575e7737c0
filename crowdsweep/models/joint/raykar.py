"""Raykar: softmax regression and annotators' confusion matrices, learned together by EM.

The true class of an item is drawn from a softmax regression on its features, each label from the row of its annotator's
confusion matrix. EM alternates between the posterior of the true classes and, from it, the matrices (by counting) and
the regression (to its maximum). Without a prior of the matrices; with one it is `raykar-prior`.

Raykar et al. (2010), "Learning from crowds", JMLR 11, section 3 (several classes).

    w           weights of the regression, N(0, 1 / penalty)        weights
    p_i         softmax(w x_i)                                      log_probs
    alpha^j     confusion matrix of annotator j                     `_em.ConfusionColumns`
    mu_i        posterior, proportional to p_i prod_j alpha^j       posterior

It is `dl-em` with `network: linear` and an exact M-step: nothing is drawn at random, and the objective never falls. For
any other network take `dl-em`.

Deviations: features are standardised, and the intercept has the prior of the other weights; EM starts at the soft vote
and each M-step where the last one ended (the code of Rodrigues et al. starts the weights anew); log space, floored.

**Published values without a prior** (Chen et al. 2020: music genre 12.0 %) are those of one class for every item; the
paper gives no reason. By the formulas, an annotator with few labels has rows without any mass, 0 / 0, which makes all
weights nan within one step; here such a row is uniform, and the model does about as well as with the prior.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    PerReplica,
    annotator_model,
    confusion_columns,
    em_results,
    evenly,
    log_answers,
    log_confusion_prior,
    normalised,
    soft_vote,
    stack,
)
from crowdsweep.models._steps import keeping, run_steps
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._softmax_regression import (
    RegressionEM,
    Regressions,
    ReplicaWeights,
    SoftmaxPredictor,
    em_cost,
)


@final
@dataclass(frozen=True, kw_only=True)
class Raykar:
    """Hyper-parameters of Raykar's model without a prior.

    Attributes:
        smoothing: pseudo-counts in every cell of the confusion matrices.
        em: how it is fitted.
    """

    smoothing: Annotated[float, Ge(0)] = 0.0
    em: RegressionEM = RegressionEM()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        return fit_raykar(self.em, self.smoothing, data, contexts)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM: the posterior of the flat items, the regression of each replica."""

    posterior: ItemProbs
    weights: ReplicaWeights


def fit_raykar(
    em: RegressionEM, smoothing: float, data: Sequence[TrainingData], contexts: Sequence[FitContext]
) -> list[FitResult]:
    """Runs EM on all data sets; each stops by itself.

    Args:
        smoothing: pseudo-counts in every cell of the confusion matrices.
        data: agree in the numbers of classes and features.
    """
    crowds, regressions = stack([part.annotations for part in data]), Regressions(data=data, penalty=em.penalty)
    pseudo_answers = evenly(crowds, smoothing)

    def step(now: State) -> tuple[State, PerReplica]:
        columns = confusion_columns(crowds, now.posterior, pseudo_answers)
        weights = regressions.learn(now.posterior * crowds.answered[:, None], now.weights)
        log_joint = regressions.log_probs(weights) + log_answers(crowds, columns)
        posterior, log_evidence = normalised(log_joint)
        objective = crowds.replica_sums(log_evidence * crowds.answered)
        objective += log_confusion_prior(crowds, columns) + regressions.log_prior(weights)
        return State(posterior=posterior, weights=weights), objective

    def predictor(now: State, replica: int) -> SoftmaxPredictor:
        return regressions.predictor(now.weights, replica)

    stepped = run_steps(
        State(posterior=soft_vote(crowds), weights=regressions.start()),
        step,
        keeping(crowds, posterior="items", weights="replicas"),
        iterations=em.iterations,
        tolerance=em.tolerance,
        reports=[context.report for context in contexts],
        predictor=predictor,
    )
    end = stepped.state
    columns = confusion_columns(crowds, end.posterior, pseudo_answers)
    # The crowd is all annotators together, each of whom has pseudo-counts of its own.
    n_annotators = np.diff(crowds.annotator_pointers).tolist()
    annotators = [
        annotator_model(crowds, columns, replica, smoothing=smoothing * own) for replica, own in enumerate(n_annotators)
    ]
    predictors = [predictor(end, replica) for replica in range(len(data))]
    return em_results(crowds, end.posterior, stepped, annotators, [{} for _ in data], predictors)


MODEL = ModelInfo(
    name="raykar",
    title="Raykar: softmax regression and confusion matrices, by exact EM",
    model=Raykar,
    steps="iterations",
    predicts_labels=True,
    source="Raykar et al. 2010, JMLR 11, section 3",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={"penalty": {"values": [0.1, 1, 10, 100]}},
    cost=em_cost,
    deterministic=True,
    monotone_objective=True,
)
