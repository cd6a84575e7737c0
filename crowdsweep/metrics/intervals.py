"""Means over seeds with their uncertainty: Student's t, computed once for reports and studies alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        n: number of values; at least one.
        mean: of the values.
        sd: sample standard deviation (n - 1); None where n is one.
        low, high: the 95 % t interval; None where n is one, or where every value is the same: then nothing varied, and
            an interval of width zero would claim a certainty that seeds cannot give.
    """

    n: int
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def constant(self) -> bool:
        """Whether several seeds all gave the same number: nothing in data or model depends on the seed."""
        return self.n > 1 and self.sd == 0.0


def estimate(values: Sequence[float]) -> Estimate:
    """Returns mean, standard deviation and 95 % t interval.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"expected at least one value, all finite, got {list(values)}")
    n, mean = int(array.size), float(array.mean())
    if n == 1:
        return Estimate(n=1, mean=mean)
    if np.ptp(array) <= 1e-12 * max(1.0, abs(mean)):
        return Estimate(n=n, mean=mean, sd=0.0)
    sd = float(array.std(ddof=1))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * sd / n**0.5
    return Estimate(n=n, mean=mean, sd=sd, low=mean - half, high=mean + half)
