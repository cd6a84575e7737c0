"""Sign flips: how often paired differences whose signs are chance add up to as much as was seen.

Under the hypothesis that neither of a pair is better every difference could as well have had the other sign. Where few
of them differ from zero nothing else is needed: the distribution of the sum over all 2ⁿ signs is worked out by
convolution, one difference after the other. Of the ranks of the differences it is Wilcoxon's signed-rank test, exact
also where ranks tie.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float64, Int64

MOST_EXACT = 50
"""Differences whose flips are worked out; the rank sum of more is taken for normal, as tables do."""
_FINEST_LATTICE = 240  # scores of items over seeds are multiples of 1 / (seeds × ties): up to this fine they are exact
_GRID = 2**13  # steps in the sum of other numbers
_ZERO = 1e-9  # of the largest difference
Alternative = Literal["two-sided", "greater"]
Values = Float64[np.ndarray, " values"]


def sign_flip_p(values: Values, alternative: Alternative = "two-sided") -> float:
    """Returns the share of all sign flips whose sum is as large as the sum of the values; 1 where all are zero.

    Args:
        values: paired differences; O(n² lattice) for n of them that are not zero.
        alternative: `greater` counts sums that are as large, `two-sided` those that are as far from zero.
    """
    size = np.abs(values)
    counted = values[size > _ZERO * size.max(initial=0.0)]
    if not len(counted):
        return 1.0
    weights, slack = _whole(counted)
    share = _sums(np.abs(weights))
    middle = len(share) // 2
    seen = int(weights.sum()) if alternative == "greater" else abs(int(weights.sum()))
    above = float(share[max(middle + seen - slack, 0) :].sum())
    if alternative == "greater":
        return min(above, 1.0)
    # Both tails weigh the same, as the distribution is symmetric; where the sum is about 0, every flip is as far out.
    return min(2.0 * above, 1.0) if seen > slack else 1.0


def signed_rank_p(values: Values, alternative: Alternative = "two-sided", *, rank_zeros: bool = False) -> float:
    """Returns the p value of Wilcoxon's signed-rank test: exact up to `MOST_EXACT` values, ties and all; of more by the
    normal distribution.

    Args:
        alternative: as for `sign_flip_p`.
        rank_zeros: zeros take the lowest ranks, and count for neither side (Pratt); else they are left out.
    """
    from scipy import stats  # noqa: PLC0415 - takes longer to import than a small sweep's first trial to run

    size = np.abs(values)
    largest = size.max(initial=0.0)
    if not largest:
        return 1.0
    size = np.round(size / largest, 10)  # differences that should tie differ in their last bits
    if len(values) > MOST_EXACT:
        method = "zsplit" if rank_zeros else "wilcox"
        signed = np.sign(values) * size
        return float(stats.wilcoxon(signed, alternative=alternative, zero_method=method, method="approx").pvalue)
    counted = np.ones(len(values), dtype=bool) if rank_zeros else size > 0
    ranks = np.zeros(len(values))
    ranks[counted] = stats.rankdata(size[counted])
    return sign_flip_p(np.where(size > 0, np.sign(values), 0.0) * ranks, alternative)


def _whole(values: Values) -> tuple[Int64[np.ndarray, " values"], int]:
    """Returns values as whole numbers of one step, and by how many steps sums that should be equal may differ."""
    for parts in range(1, _FINEST_LATTICE + 1):
        on_lattice = np.round(values * parts)
        if np.abs(values * parts - on_lattice).max() < 1e-4:
            return on_lattice.astype(np.int64), 0
    # Each rounded value is off by half a step at most, and a sum of n of them by n / 2.
    step = np.abs(values).sum() / _GRID
    return np.round(values / step).astype(np.int64), (len(values) + 1) // 2


def _sums(sizes: Int64[np.ndarray, " values"]) -> Float64[np.ndarray, " sums"]:
    """Returns the shares of all sign flips by their sum, from minus the sum of the sizes to plus."""
    total = int(sizes.sum())
    share = np.zeros(2 * total + 1)
    share[total] = 1.0
    for size in sizes:
        flipped = np.zeros_like(share)
        flipped[size:] += share[: len(share) - size]
        flipped[: len(share) - size] += share[size:]
        share = flipped / 2
    return share
