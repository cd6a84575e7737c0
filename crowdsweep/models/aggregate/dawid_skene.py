"""Dawid-Skene: every annotator has a confusion matrix, every item a hidden true class.

The classes of the items are drawn from shares, and each answer from the row of its annotator's matrix that belongs to
the item's class. EM turns between the posterior of the items (E-step) and shares and matrices (M-step). Annotators who
agree with the consensus gain weight, and those who err in a regular way are understood instead of outvoted.

Dawid and Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm".

    p_j            class shares                      exp(log_shares)
    pi_jl^(k)      confusion matrix of annotator k   ConfusionColumns
    T_ij           posterior of item i               posterior
    n_il^(k)       answers of annotator k            StackedCrowds.answers

Deviations: `smoothing` pseudo-counts in every cell of the matrices (the paper has none; 0 gives the paper's model);
an annotator's row without any mass is uniform; logarithms are of max(p, LOG_FLOOR); items without answers do not count
in the class shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    PerReplica,
    annotator_model,
    confusion_columns,
    log_answers,
    log_class_shares,
    log_confusion_prior,
    normalised,
    run_em,
    soft_vote,
    stack,
    winners,
)
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class DawidSkene:
    """Hyper-parameters of Dawid-Skene.

    Attributes:
        smoothing: pseudo-counts in every cell of every confusion matrix. The one that matters: with few labels per
            annotator, 1 can make the posterior collapse to one class, 0 can overfit.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
        start: posterior to begin with: the shares of votes, or their winner (ties shared evenly).
    """

    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8
    start: Literal["soft", "hard"] = "soft"

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        """Fits all data sets side by side; each stops by itself."""
        crowds = stack([part.annotations for part in data])
        posterior = soft_vote(crowds) if self.start == "soft" else winners(soft_vote(crowds))

        def step(posterior: ItemProbs) -> tuple[ItemProbs, PerReplica]:
            columns = confusion_columns(crowds, posterior, self.smoothing)
            log_joint = log_answers(crowds, columns)
            log_joint += crowds.spread(log_class_shares(crowds, posterior))
            updated, log_evidence = normalised(log_joint)
            return updated, crowds.replica_sums(log_evidence) + log_confusion_prior(crowds, columns)

        fitted = run_em(
            crowds,
            posterior,
            step,
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        columns = confusion_columns(crowds, fitted.posterior, self.smoothing)
        annotators = [annotator_model(crowds, columns, replica) for replica in range(crowds.n_replicas)]
        shares = np.exp(log_class_shares(crowds, fitted.posterior))
        return fitted.results(annotators, [{"class_shares": own} for own in shares])


MODEL = ModelInfo(
    name="dawid-skene",
    title="Dawid-Skene: a confusion matrix for each annotator, by EM",
    model=DawidSkene,
    source="Dawid and Skene 1979, equations 2.3 to 2.5",
    supports=frozenset({"votes", "soft_answers"}),
    space={"smoothing": {"values": [0, 0.01, 0.1, 1]}, "start": {"values": ["soft", "hard"]}},
    cost=lambda shape, params: 4.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    deterministic=True,
    monotone_objective=True,
)
