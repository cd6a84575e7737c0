"""The median rule of early stopping: stops a fit whose best score is worse than earlier points' at the same step.

The rule compares the fit's best score so far with a quantile (the median) of scores at that step: those of the fits of
earlier points with the same seed. As the best score counts, one bad epoch stops no fit. Earlier fits that were stopped
themselves are left out, as their later scores are unknown. The rule depends on the record alone: its caller selects the
earlier points by their numbers, never by the time at which they ended. It follows the median rule of Google Vizier
(Golovin et al. 2017), which takes running averages in place of the scores.

`tests/benchmarks/early_stopping.py` measures what it saves and how often it loses the best point.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from crowdsweep.record.bar import Bar
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.search.contract import Goal

FEWEST_RIVALS = 3
"""Fewest earlier fits, not stopped early, that a bar is made of."""


@dataclass(frozen=True, kw_only=True)
class MedianRule:
    """Settings of the median rule.

    Attributes:
        quantile: share of the earlier scores that are worse than the bar: 0.5 is their median.
        grace: share of the usual length of a fit before which none is stopped.
    """

    quantile: float
    grace: float

    def bar(self, earlier: Iterable[TrialResult], metric: str, goal: Goal) -> Bar | None:
        """Returns the bar that a fit has to reach; None where too few earlier fits, or steps, can be compared.

        The usual length of a fit is the median of the earlier fits' lengths. After the end of an earlier fit, its last
        score counts for all later steps. From the last scored step of the longest one on, nothing is compared, since
        stopping would save nothing there.

        Args:
            earlier: results with the same seed; only those with status ok and a finite curve of the metric count.
        """
        whole = [result for result in earlier if _is_comparable(result, metric)]
        if len(whole) < FEWEST_RIVALS:
            return None
        after_grace = math.ceil(self.grace * median(result.iterations for result in whole))
        first = max(after_grace, *(result.curve[0][0] for result in whole))
        end = max(result.curve[-1][0] for result in whole)
        steps = sorted({first, *(step for result in whole for step, _ in result.curve if first < step < end)})
        if first >= end:
            return None
        scores = np.array([_at(result, steps) for result in whole])
        level = self.quantile if goal == "maximize" else 1.0 - self.quantile
        values: list[float] = np.quantile(scores, level, axis=0).tolist()
        changes = [place for place in range(len(steps)) if not place or values[place] != values[place - 1]]
        return Bar(
            steps=[steps[place] for place in changes],
            values=[values[place] for place in changes],
            end=end,
            higher_is_better=goal == "maximize",
            n_rivals=len(whole),
        )


def _is_comparable(result: TrialResult, metric: str) -> bool:
    whole = result.status is Status.OK and result.watched == metric and bool(result.curve)
    return whole and all(math.isfinite(score) for _, score in result.curve)


def _at(result: TrialResult, steps: Sequence[int]) -> np.ndarray:
    """Returns the latest score at each of these steps, none of which is before the first scored one."""
    own, scores = zip(*result.curve, strict=True)
    return np.asarray(scores)[np.searchsorted(own, steps, side="right") - 1]
