"""Ordinal Dawid-Skene: every annotator has a confusion matrix, and errors go to neighbouring classes first.

Where classes are steps of a scale, most errors are of one step. Dawid-Skene does not know that: with few labels it may
exchange neighbouring classes, or estimate that an annotator gives the lowest grade to items of the highest. Here each
row of a matrix has a Dirichlet prior whose mean falls off with the distance from the true class, and which counts as
`strength` answers:

    row j of annotator k's matrix  ~  Dirichlet(1 + strength × m_j),   m_jl proportional to exp(-decay |j - l|)

Fitted is the mode of the posterior, by Dawid-Skene's EM with the prior as pseudo-answers. `shrinkage` draws annotators
towards the crowd's matrix, as it does in `dawid-skene`; that matrix is the one that all share, and so has the priors of
all of them together.

Dawid and Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm". Dirichlet priors
of the rows: Kim and Ghahramani (2012), "Bayesian classifier combination", AISTATS.

    p_j            class shares                      exp(log_shares)
    pi_jl^(k)      confusion matrix of annotator k   ConfusionColumns
    T_ij           posterior of item i               posterior
    m_j            mean of the prior                 neighbours

Deviations: Kim and Ghahramani sample where this maximises, and their prior knows no order; that it falls off
exponentially is ours, and so is `shrinkage`. An annotator without answers has the matrix of all the others together,
their pseudo-answers among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from crowdsweep.arrays import Confusion, normalised_rows
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import soft_vote, stack
from crowdsweep.models.aggregate import dawid_skene
from crowdsweep.models.aggregate.dawid_skene import crowds_matrices, fit_matrices
from crowdsweep.models.contract import FitContext, FitResult, Need

_NEEDS: frozenset[Need] = frozenset({"order"})


@final
@dataclass(frozen=True, kw_only=True)
class OrdinalDawidSkene:
    """Hyper-parameters of ordinal Dawid-Skene.

    Attributes:
        strength: pseudo-answers in every row of every annotator's matrix, spread over the classes by their nearness.
        decay: how fast they fall off: a class that is one step farther gets exp(-decay) times as many; 0 is not at all.
        shrinkage: pseudo-answers in every row of every annotator's matrix, drawn from the crowd's matrix.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    strength: Annotated[float, Ge(0)] = 0.7
    decay: Annotated[float, Ge(0)] = 2.0
    shrinkage: Annotated[float, Ge(0)] = 2.0
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def needs(self) -> frozenset[Need]:
        """Returns that classes have an order, also where this is the aggregator of another model."""
        return _NEEDS

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        crowds = stack([part.annotations for part in data])
        start = soft_vote(crowds)
        prior = np.tile(self.strength * neighbours(crowds.n_classes, self.decay), (crowds.n_replicas, 1, 1))
        # The shared matrix is counted from all annotators' answers, and so gets all annotators' pseudo-answers.
        everybody = np.maximum(crowds.replica_sums_of_annotators(np.ones(crowds.n_annotators)), 1.0)[:, None, None]
        own = prior + self.shrinkage * crowds_matrices(crowds, start, everybody * prior, self.tolerance)
        fitted = fit_matrices(
            crowds,
            start,
            own,
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        return fitted.results(everybody * own)


def neighbours(n_classes: int, decay: float) -> Confusion:
    """Returns the matrix whose rows fall off from the diagonal, by exp(-decay) each step."""
    place = np.arange(n_classes)
    return normalised_rows(np.exp(-decay * np.abs(place[:, None] - place)))


MODEL = replace(
    dawid_skene.MODEL,
    name="ordinal-dawid-skene",
    title="Ordinal Dawid-Skene: confusion matrices whose errors go to neighbouring classes first",
    model=OrdinalDawidSkene,
    source="Dawid and Skene 1979, equations 2.3 to 2.5; Dirichlet priors as in Kim and Ghahramani 2012",
    needs=_NEEDS,
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "strength": {"values": [0.3, 0.7, 1.5, 3]},
        "decay": {"values": [1, 2, 3]},
        "shrinkage": {"values": [0, 1, 2, 4]},
    },
    version=1,
    label_symmetric=False,
)
