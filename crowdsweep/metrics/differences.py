"""The difference of two models on the same seeds and items: its mean, interval and p value.

Over items, a difference varies as a mean does (`metrics.intervals`), with three things more:

- Of items that are right or wrong the interval is Agresti and Min's (2005), which adds two items, one on which both
  models agree and one that is half for either: few items that differ have no variance to rely on. What seeds add to
  that variance is added.
- Where at most `FEW_ITEMS` items differ and seeds do not move all of them together, the test is exact: a permutation
  test that flips the signs of the items' differences. With one seed and items that are right or wrong it is McNemar's
  exact test. That seeds move items together shows in an F test, the means of seeds against what is left of the two-way
  layout; at `SEEDS_MATTER` it is taken to, early, as flips do not count that.
- The worse model can beat the better one by no more than the better one leaves of the metric's range, nor be behind by
  more than all that it reaches; an interval ends there.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64
from scipy import special

from crowdsweep.metrics.intervals import (
    CONFIDENCE,
    Estimate,
    crossed_standard_error,
    estimate,
    p_value,
    standard_error_of,
)
from crowdsweep.metrics.metric_table import info_of
from crowdsweep.metrics.permutation import sign_flip_p, signed_rank_p

FEW_ITEMS = 30
SEEDS_MATTER = 0.2
SIGNIFICANCE = 0.05
Test = Literal["permutation", "Wilcoxon", "paired t"]
Items = Float[np.ndarray, "seeds items"]


def difference(
    one: Sequence[float],
    other: Sequence[float],
    *,
    metric: str = "",
    heldout: float = 0.0,
    item_differences: Items | None = None,
) -> Estimate:
    """Returns the mean of one less other, with its 95 % interval.

    Args:
        one, other: scores of two models on the same seeds.
        metric: whose scores they are, by its full name; empty for none, whose range is not known.
        heldout: as for `estimate`.
        item_differences: of the scores of the items that the scores are means of, by seed.
    """
    values = np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64)
    found = estimate(values.tolist(), heldout=heldout, item_scores=item_differences)
    info = info_of(metric) if metric else None
    if info is not None and info.is_share and item_differences is not None and item_differences.shape[1] > 1:
        low, high = share_difference_interval(item_differences)
    else:
        low, high = found.low, found.high
    if low is None or high is None or info is None:
        return found
    if info.goal is not None:
        means = float(np.mean(one)), float(np.mean(other))
        first_is_better = means[0] >= means[1] if info.goal == "maximize" else means[0] <= means[1]
        least, most = (
            (means[0] - info.high, means[0] - info.low)
            if first_is_better
            else (info.low - means[1], info.high - means[1])
        )
        low, high = max(low, min(least, found.mean)), min(high, max(most, found.mean))
    return replace(found, low=low, high=high)


def share_difference_interval(differences: Items) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of the difference of two shares of the same items, by Agresti and Min.

    Args:
        differences: 1 where one model is right and the other wrong, -1 the other way round, 0 where they agree; between
            them of items that are right in part.
    """
    n_seeds, n_items = differences.shape
    of_items = differences.mean(axis=0, dtype=np.float64)
    n = n_items + 2
    middle = float(of_items.sum()) / n
    # The added items: one on which the models agree (0), one that only one of them gets right (1 or -1, 0 on average).
    # The sum stays as it is, and the sum of squares grows by 1.
    by_items = ((float((of_items**2).sum()) + 1.0) / n - middle**2) / n
    crossed = float(crossed_standard_error(differences[None], all_count=True).variance[0])
    by_seeds = float(differences.mean(axis=1, dtype=np.float64).var(ddof=1)) / n_seeds if n_seeds > 1 else 0.0
    # What seeds add: the variance over seeds and items less that over items alone.
    variance = by_items + max(crossed - float(of_items.var(ddof=1)) / n_items, 0.0)
    freedom = variance**2 / (by_items**2 / (n_items - 1) + by_seeds**2 / max(n_seeds - 1, 1))
    half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * variance**0.5
    return middle - half, middle + half


def p_of_difference(
    values: Float64[np.ndarray, " seeds"],
    *,
    comparisons: int,
    heldout: float = 0.0,
    item_differences: Items | None = None,
) -> tuple[Test, float]:
    """Returns which test of a mean difference is made, and its two-sided p value, uncorrected.

    Over seeds alone it is Wilcoxon's signed-rank test where its smallest possible p, 2 / 2ⁿ, times the number of
    comparisons is within 5 %: with fewer seeds it could not reject anything.

    Args:
        values: differences by seed; they, or those of items, vary.
        comparisons: how many pairs are tested together.
        heldout, item_differences: as for `difference`.
    """
    error, varies = standard_error_of(values, heldout=heldout, item_scores=item_differences)
    if item_differences is not None and varies in ("items", "seeds and items") and _few_differ(item_differences):
        return "permutation", sign_flip_p(item_differences.mean(axis=0, dtype=np.float64))
    if varies == "seeds" and 2.0 * 0.5 ** len(values) * comparisons <= SIGNIFICANCE:
        return "Wilcoxon", signed_rank_p(values)
    assert error is not None  # noqa: S101 - something varies
    return "paired t", float(p_value(values.mean(keepdims=True), error)[0])


def _few_differ(differences: Items) -> bool:
    """Whether few items differ, and seeds do not move them together."""
    n_seeds, n_items = differences.shape
    of_items = differences.mean(axis=0, dtype=np.float64)
    if np.count_nonzero(np.abs(of_items) > 1e-9) > FEW_ITEMS:
        return False
    of_seeds = differences.mean(axis=1, dtype=np.float64)
    rest = differences - of_items - of_seeds[:, None] + of_items.mean()
    between, within = float(((of_seeds - of_seeds.mean()) ** 2).sum()) * n_items, float((rest**2).sum())
    if n_seeds < 2 or between <= 1e-12:
        return True
    if within <= 1e-12:
        return False
    together = between / within * (n_items - 1)
    return bool(special.fdtrc(n_seeds - 1, (n_seeds - 1) * (n_items - 1), together) > SEEDS_MATTER)
