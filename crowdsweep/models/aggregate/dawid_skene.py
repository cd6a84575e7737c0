"""Dawid-Skene: every annotator has a confusion matrix, every item a hidden true class.

The classes of the items are drawn from shares, and each answer from the row of its annotator's matrix that belongs to
the item's class. EM alternates between the posterior of the items (E-step) and shares and matrices (M-step). Answers
of accurate annotators weigh more, and systematic errors are corrected instead of outvoted.

Dawid and Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm".

    p_j            class shares                      exp(log_shares)
    pi_jl^(k)      confusion matrix of annotator k   ConfusionColumns
    T_ij           posterior of item i               posterior
    n_il^(k)       answers of annotator k            StackedCrowds.answers

`shrinkage` draws annotators with few answers towards the crowd: so many pseudo-answers for each true class are added to
theirs, in the proportions of the matrix that all annotators share under `multinomial`, which is fitted first. As it
grows, the model becomes `multinomial`.

Deviations: `shrinkage` is ours, and so are `smoothing` pseudo-counts in every cell of the matrices (the paper has
neither; both 0 give the paper's model); an annotator's row without any mass is uniform, an annotator without answers
has the pooled matrix; logarithms are of max(p, LOG_FLOOR); items without answers do not count in the class shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, final

import numpy as np
from annotated_types import Ge

from crowdsweep.arrays import Confusions, ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    AnnotatorTotals,
    ColumnProbs,
    ConfusionColumns,
    PerReplica,
    PseudoAnswers,
    ReplicaClasses,
    StackedCrowds,
    annotator_model,
    confusion_columns,
    em_results,
    evenly,
    log_answers,
    log_class_shares,
    log_confusion_prior,
    mean_relative_change,
    normalised,
    pooled,
    soft_vote,
    stack,
    winners,
)
from crowdsweep.models._steps import Stepped, keeping, run_steps
from crowdsweep.models.aggregate._by_class import fit_by_class
from crowdsweep.models.contract import AnnotatorModel, FitContext, FitResult, ModelInfo, Report, no_op

CROWD_STEPS = 100  # limit of the crowd's own EM: whatever `iterations` is, annotators are drawn towards the same crowd


@final
@dataclass(frozen=True, kw_only=True)
class DawidSkene:
    """Hyper-parameters of Dawid-Skene.

    Attributes:
        smoothing: pseudo-counts in every cell of every confusion matrix. The one that matters: with few labels per
            annotator, 1 can make the posterior collapse to one class, 0 can overfit. Counted by cells, as papers and
            their code do, not as a row's total: with 200 classes (100 annotators, five labels per item) 0.01 per cell
            labels 83.5 % rightly, 0.01 per row 74.6 %.
        shrinkage: pseudo-answers in every row of every annotator's matrix, drawn from the crowd's matrix. One is worth
            1.4 ± 0.9 points on nineteen public datasets, and most where annotators gave few labels (anonymous votes:
            74.9 -> 88.5 and 68.1 -> 79.0). Much of it predicts answers better and classes worse, so that held-out
            answers choose too much: search no more than a few.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
        start: posterior to begin with: the shares of votes, or their winner (ties shared evenly).
    """

    smoothing: Annotated[float, Ge(0)] = 0.01
    shrinkage: Annotated[float, Ge(0)] = 1.0
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8
    start: Literal["soft", "hard"] = "soft"

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        if data[0].scale == "multilabel":
            return fit_by_class(self, data, contexts)
        crowds = stack([part.annotations for part in data])
        start = soft_vote(crowds) if self.start == "soft" else winners(soft_vote(crowds))
        pseudo_answers = evenly(crowds, self.smoothing)
        if self.shrinkage > 0:
            pseudo_answers += self.shrinkage * crowds_matrices(crowds, start, pseudo_answers, self.tolerance)
        fitted = fit_matrices(
            crowds,
            start,
            pseudo_answers,
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        return fitted.results(self.smoothing)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FittedMatrices:
    """The result of EM over class shares and confusion matrices."""

    crowds: StackedCrowds
    posterior: ItemProbs
    stepped: Stepped[Any]
    columns: ConfusionColumns
    class_shares: ReplicaClasses

    def matrices(self) -> Confusions:
        """Returns the matrix of each replica, where each has one annotator (`pooled`)."""
        return np.exp(self.columns.log_probs).reshape(self.columns.pseudo_answers.shape).transpose(0, 2, 1)

    def results(self, smoothing: float | PseudoAnswers) -> list[FitResult]:
        """Returns the result of each replica; `smoothing` is that of the crowds' matrices."""
        each = np.broadcast_to(smoothing, self.columns.pseudo_answers.shape)
        return self.results_of(
            [annotator_model(self.crowds, self.columns, r, smoothing=own) for r, own in enumerate(each)]
        )

    def results_of(self, annotators: Sequence[AnnotatorModel]) -> list[FitResult]:
        """Returns the result of each replica, given its annotators."""
        shares = [{"class_shares": own} for own in self.class_shares]
        return em_results(self.crowds, self.posterior, self.stepped, annotators, shares)


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """The state of EM: the posterior, and the matrices that it was computed with (see `ConfusionColumns`)."""

    posterior: ItemProbs
    log_probs: ColumnProbs
    totals: AnnotatorTotals

    def columns(self, pseudo_answers: PseudoAnswers) -> ConfusionColumns:
        """Returns the matrices."""
        return ConfusionColumns(log_probs=self.log_probs, totals=self.totals, pseudo_answers=pseudo_answers)


def fit_matrices(
    crowds: StackedCrowds,
    start: ItemProbs,
    pseudo_answers: PseudoAnswers,
    *,
    iterations: int,
    tolerance: float,
    reports: Sequence[Report],
    matrices_rest: bool = False,
) -> FittedMatrices:
    """Runs Dawid-Skene's EM on all replicas side by side.

    Args:
        tolerance: stop once the objective rises by less than this share of itself.
        matrices_rest: stop only once the matrices' entries change by no more either, on average.
    """

    def step(state: State) -> tuple[State, PerReplica]:
        columns = confusion_columns(crowds, state.posterior, pseudo_answers)
        log_joint = log_answers(crowds, columns)
        log_joint += crowds.spread(log_class_shares(crowds, state.posterior))
        posterior, log_evidence = normalised(log_joint, in_place=True)
        objective = crowds.replica_sums(log_evidence) + log_confusion_prior(crowds, columns)
        return State(posterior=posterior, log_probs=columns.log_probs, totals=columns.totals), objective

    def change(before: State, after: State) -> PerReplica:
        return mean_relative_change(crowds, before.columns(pseudo_answers), after.columns(pseudo_answers))

    # No matrices yet: `run_steps` never stops at a first step, so that the change from these decides nothing.
    begun = State(
        posterior=start,
        log_probs=np.zeros((len(crowds.column_label), crowds.n_classes)),
        totals=np.zeros((crowds.n_annotators, crowds.n_classes)),
    )
    stepped = run_steps(
        begun,
        step,
        keeping(crowds, posterior="items", log_probs="columns", totals="annotators"),
        iterations=iterations,
        tolerance=tolerance,
        reports=reports,
        change=change if matrices_rest else None,
    )
    posterior = stepped.state.posterior
    return FittedMatrices(
        crowds=crowds,
        posterior=posterior,
        stepped=stepped,
        columns=confusion_columns(crowds, posterior, pseudo_answers),
        class_shares=np.exp(log_class_shares(crowds, posterior)),
    )


def crowds_matrices(
    crowds: StackedCrowds, start: ItemProbs, pseudo_answers: PseudoAnswers, tolerance: float
) -> Confusions:
    """Returns the matrix that all annotators of each replica share, by the same EM."""
    fitted = fit_matrices(
        pooled(crowds),
        start,
        pseudo_answers,
        iterations=CROWD_STEPS,
        tolerance=tolerance,
        reports=[no_op] * crowds.n_replicas,
    )
    return fitted.matrices()


MODEL = ModelInfo(
    name="dawid-skene",
    title="Dawid-Skene: a confusion matrix for each annotator, by EM",
    model=DawidSkene,
    steps="iterations",
    predicts_labels=True,
    source="Dawid and Skene 1979, equations 2.3 to 2.5",
    supports=frozenset({"votes", "multilabel", "soft_answers"}),
    version=3,
    space={
        "smoothing": {"values": [0, 0.01, 0.1, 1]},
        "shrinkage": {"values": [0, 1, 3]},
        "start": {"values": ["soft", "hard"]},
    },
    cost=lambda shape, params: 4.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    deterministic=True,
    monotone_objective=True,
)
