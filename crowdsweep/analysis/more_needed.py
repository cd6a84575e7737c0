"""How many seeds or scored items it would take to rank two models that are not significantly different yet.

If they are as far apart as they seem, so many that the test finds it in four of five repetitions: the usual size of a
sample for a paired difference, at the level that Bonferroni leaves each pair. What seems is itself uncertain, so the
number is rounded to two digits and never more than an order of magnitude to plan by.
"""

from dataclasses import dataclass
from math import ceil, floor, inf, log10

from scipy import stats

from crowdsweep.analysis.paired import PairedTest
from crowdsweep.metrics.differences import SIGNIFICANCE
from crowdsweep.metrics.intervals import CONFIDENCE, Varies

POWER = 0.8
MOST = 100.0
"""Times as many as there were: what takes more is told as a tie."""


@dataclass(frozen=True, kw_only=True)
class MoreNeeded:
    """What would settle a comparison.

    Attributes:
        times: as many as now, of all that the difference varies over; infinite where no number is told.
        varies: that is, seeds, items or both.
        now: how many there are; of both, the seeds.
    """

    times: float
    varies: Varies
    now: int

    @property
    def number(self) -> int:
        """How many it takes, to two digits."""
        exact = ceil(self.times * self.now)
        digits = max(0, floor(log10(exact)) - 1)
        return ceil(exact / 10**digits) * 10**digits


def more_needed(test: PairedTest, comparisons: int) -> MoreNeeded | None:
    """Returns what would settle an open comparison; None where it is settled, was not tested, or varies over held-out
    splits, of which more do not help as more seeds do.

    Args:
        test: of the best model against another.
        comparisons: how many pairs are tested on this dataset.
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
