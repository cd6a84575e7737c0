"""Number of seeds or scored items needed to rank two models that are not significantly different yet.

This is the usual sample size for a paired difference. It gives the test a power of 80 % if the true difference is the
observed one, at the level that Bonferroni's correction leaves each pair. The observed difference is itself uncertain:
the number is rounded to two digits and only gives an order of magnitude.
"""

from dataclasses import dataclass
from math import ceil, floor, inf, log10

from scipy import stats

from crowdsweep.analysis.paired import PairedTest
from crowdsweep.metrics.differences import SIGNIFICANCE
from crowdsweep.metrics.intervals import CONFIDENCE, Varies

POWER = 0.8
MOST = 100.0
"""Highest reported multiple of the present number; beyond it, two models are reported as a tie."""


@dataclass(frozen=True, kw_only=True)
class MoreNeeded:
    """Number of seeds or items that would settle a comparison.

    Attributes:
        times: needed multiple of the present number of seeds, items or both; infinite beyond `MOST`.
        varies: what the difference varies over: seeds, items or both.
        now: present number of seeds or items; of seeds, where it is both.
    """

    times: float
    varies: Varies
    now: int

    @property
    def number(self) -> int:
        """The needed number, rounded up to two digits."""
        exact = ceil(self.times * self.now)
        digits = max(0, floor(log10(exact)) - 1)
        return ceil(exact / 10**digits) * 10**digits


def more_needed(test: PairedTest, comparisons: int) -> MoreNeeded | None:
    """Returns the number that would settle a comparison.

    None where the comparison is significant already, was not tested, or varies over held-out splits: more of these do
    not help in the way that more seeds do.

    Args:
        test: test of the best model against another one.
        comparisons: number of pairs that are tested on this dataset.
    """
    found = test.difference
    if found is None or test.p is None or test.is_significant or found.varies == "held-out splits":
        return None
    if found.low is None or found.high is None:
        return None
    over_seeds = found.varies == "seeds"
    freedom = found.n - 1 if over_seeds else inf
    error = (found.high - found.low) / 2 / float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))
    asked = float(stats.norm.isf(SIGNIFICANCE / 2 / comparisons) + stats.norm.isf(1 - POWER))
    times = (asked * error / abs(found.mean)) ** 2 if found.mean else inf
    now = found.n_items if found.varies == "items" else found.n
    return MoreNeeded(times=max(times, 1.0) if times <= MOST else inf, varies=found.varies, now=now)
