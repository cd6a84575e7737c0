"""Models ranked on several datasets: whether their mean ranks differ at all, and how far apart those of two must be.

Friedman's test with the correction of Iman and Davenport (1980), and Nemenyi's test after it, as Demšar (2006, Journal
of Machine Learning Research 7) advises for classifiers. Both take datasets for independent.

Nemenyi's compares what people look at, mean ranks, and finds differences from five datasets on. Pairwise signed-rank
tests with Holm's correction, which Benavoli, Corani and Mangili (2016, JMLR 17) prefer because they do not depend on
which other models take part, cannot there: of five datasets the smallest p value is 0.06, of eight with fifteen models
it is 0.82 after correction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
from jaxtyping import Float64
from scipy import stats

from crowdsweep.metrics.differences import SIGNIFICANCE

FEWEST_DATASETS, FEWEST_MODELS = 5, 3
"""Below, no critical difference: it is of many datasets, and two models are compared by themselves."""
_AGREEMENT = 1e-9  # of the largest χ²: datasets that differ by less rank alike


@dataclass(frozen=True, kw_only=True)
class FriedmanTest:
    """Whether models differ over datasets.

    Attributes:
        chi2: Friedman's statistic, corrected for ties, at least 0.
        f: Iman and Davenport's, infinite where every dataset ranks the models alike.
        freedom: of F: models less one, and that times datasets less one.
    """

    chi2: float
    f: float
    freedom: tuple[int, int]
    p: float


def friedman_test(ranks: Float64[np.ndarray, "datasets models"]) -> FriedmanTest:
    """Tests ranks of at least three models on at least two datasets; on one of these not all tie."""
    n_datasets, n_models = ranks.shape
    chi2 = float(stats.friedmanchisquare(*ranks.T).statistic)
    largest = n_datasets * (n_models - 1)
    left = largest - chi2
    f = (n_datasets - 1) * chi2 / left if left > _AGREEMENT * largest else inf
    freedom = n_models - 1, (n_models - 1) * (n_datasets - 1)
    return FriedmanTest(chi2=chi2, f=f, freedom=freedom, p=float(stats.f.sf(f, *freedom)))


def critical_difference(n_models: int, n_datasets: int) -> float:
    """Returns by how much the mean ranks of two models must differ, at 5 % for all pairs together, by Nemenyi's test.

    Args:
        n_models: at least 2.
        n_datasets: at least 1; for few the distribution of ranks, taken for normal, is only roughly so.
    """
    q = float(stats.studentized_range.ppf(1 - SIGNIFICANCE, n_models, inf)) / sqrt(2)
    return q * sqrt(n_models * (n_models + 1) / (6 * n_datasets))


def not_different(mean_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Returns the first and last place of every longest run of models whose ranks all differ by less than a critical
    difference.

    Args:
        mean_ranks: ascending.
        difference: above 0.
    """
    runs: list[tuple[int, int]] = []
    for first, rank in enumerate(mean_ranks):
        last = first + sum(other - rank < difference for other in mean_ranks[first:]) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs
