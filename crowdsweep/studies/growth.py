"""How the cost of models grows along a study's axis: the exponent of a power law, with its uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crowdsweep.metrics.intervals import CONFIDENCE

FEWEST = 3
"""Values of the axis of which an exponent has an interval."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """cost ∝ size ** exponent.

    Attributes:
        exponent: the slope of a straight line through the logarithms.
        low, high: its 95 % interval, from how far the values lie off that line.
    """

    exponent: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}]"


def growth(sizes: Sequence[int | float], costs: Sequence[int | float]) -> Growth | None:
    """Returns how costs grow with sizes, least squares on logarithms; None of fewer than `FEWEST`.

    Args:
        sizes: all different and above 0.
        costs: of each, above 0.
    """
    from scipy import stats  # noqa: PLC0415 - takes half a second, and who describes a template computes nothing

    if len(sizes) < FEWEST:
        return None
    found = stats.linregress(np.log(sizes), np.log(costs))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(sizes) - 2)) * found.stderr
    return Growth(exponent=found.slope, low=found.slope - half, high=found.slope + half)
