"""Shared by raykar and raykar-prior: EM of Dawid-Skene's matrices and a softmax regression, both M-steps exact."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    FittedEM,
    PerReplica,
    annotator_model,
    confusion_columns,
    evenly,
    log_answers,
    log_confusion_prior,
    normalised,
    soft_vote,
    stack,
)
from crowdsweep.models._steps import keeping, run_steps
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.joint._softmax_regression import (
    RegressionEM,
    Regressions,
    ReplicaWeights,
    SoftmaxPredictor,
)


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
    fitted = FittedEM(crowds=crowds, posterior=end.posterior, stepped=stepped)
    return fitted.results(annotators, [{} for _ in data], predictors)
