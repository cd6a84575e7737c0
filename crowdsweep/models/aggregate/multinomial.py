"""Multinomial: Dawid-Skene with one confusion matrix for all annotators, so that nothing need be known of them.

Paun et al. (2018), "Comparing Bayesian models of annotation", TACL 6: pi are the class shares, beta_k row k of the
crowd's matrix, c_i the posterior. Deviations: EM in place of sampling, pseudo-counts in place of Dirichlet(1) priors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import SharedConfusion, evenly, pooled, soft_vote, stack
from crowdsweep.models.aggregate.dawid_skene import fit_matrices
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Multinomial:
    """Hyper-parameters of the multinomial model.

    Attributes:
        smoothing: pseudo-counts in every cell of the crowd's confusion matrix.
        iterations: limit of EM steps.
        tolerance: stop once the objective rises by less than this share of itself.
    """

    smoothing: Annotated[float, Ge(0)] = 0.01
    iterations: Annotated[int, Ge(1)] = 100
    tolerance: Annotated[float, Ge(0)] = 1e-8

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        crowds = pooled(stack([part.annotations for part in data]))
        fitted = fit_matrices(
            crowds,
            soft_vote(crowds),
            evenly(crowds, self.smoothing),
            iterations=self.iterations,
            tolerance=self.tolerance,
            reports=[context.report for context in contexts],
        )
        found = zip(fitted.matrices(), data, strict=True)
        return fitted.results_of([SharedConfusion(matrix=own, n_annotators=part.n_annotators) for own, part in found])


MODEL = ModelInfo(
    name="multinomial",
    title="Multinomial: one confusion matrix for all annotators, by EM",
    model=Multinomial,
    steps="iterations",
    predicts_labels=True,
    source="Paun et al. 2018, TACL 6, the pooled multinomial model",
    supports=frozenset({"votes", "soft_answers"}),
    space={"smoothing": {"values": [0, 0.01, 0.1, 1]}},
    cost=lambda shape, params: 4.0 * params["iterations"] * shape.n_annotations * shape.n_classes,
    deterministic=True,
    monotone_objective=True,
)
