"""Raykar with a prior of the confusion matrices: `raykar` whose matrices have pseudo-counts.

One more label in every cell of an annotator's matrix (a Dirichlet prior, at its maximum) keeps annotators with few
labels from ruling classes out. Everything else is `raykar`'s.

Raykar et al. (2010), "Learning from crowds", JMLR 11, section 2.5 (priors). "Raykar w/ prior" in the tables of Chen et
al. (2020) has one pseudo-count in every cell; a version by Rodrigues et al. 0.01, in the numerator alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.joint import raykar
from crowdsweep.models.joint._softmax_regression import RegressionEM


@final
@dataclass(frozen=True, kw_only=True)
class RaykarPrior:
    """Hyper-parameters of Raykar's model with a prior.

    Attributes:
        smoothing: pseudo-counts in every cell of the confusion matrices.
        em: how it is fitted.
    """

    smoothing: Annotated[float, Ge(0)] = 1.0
    em: RegressionEM = RegressionEM()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        return raykar.fit_raykar(self.em, self.smoothing, data, contexts)


MODEL = replace(
    raykar.MODEL,
    name="raykar-prior",
    title="Raykar with a prior: softmax regression and smoothed confusion matrices, by exact EM",
    model=RaykarPrior,
    source="Raykar et al. 2010, JMLR 11, sections 2.5 and 3",
    space={"smoothing": {"values": [0.01, 1]}, **raykar.MODEL.space},
    version=1,
)
