"""Stops a fit early when its best score so far is worse than what earlier points had at the same step.

Compared are the running best of the fit and a quantile (the median) of the scores that the fits of earlier points with
the same seed had then, so that one bad epoch stops no fit. Earlier fits that were stopped themselves are left out, as
nobody knows what they would have had. The rule is a function of the record alone: whoever calls it chooses the earlier
points by their numbers, never by when they ended. The idea is the median rule of Google Vizier (Golovin et al. 2017),
which takes running averages in place of the scores.

`tests/benchmarks/early_stopping.py` says what it saves and how often it loses the best point.
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
"""Earlier fits that went to their end; of fewer no bar is made."""


@dataclass(frozen=True, kw_only=True)
class MedianRule:
    """The settings of the rule.

    Attributes:
        quantile: share of the earlier scores, the worst first, that lie below the bar: 0.5 is their median.
        grace: share of the usual length of a fit before which none is stopped.
    """

    quantile: float
    grace: float

    def bar(self, earlier: Iterable[TrialResult], metric: str, goal: Goal) -> Bar | None:
        """Returns what a fit has to reach; None where too little is known.

        The usual length is the median of the earlier fits' own. Where an earlier fit ended by itself its last score
        stands for all later steps; from the last scored step of the longest one on nothing is compared, since there is
        nothing left to save.

        Args:
            earlier: results on the same seed; only those count that went to their end with a curve of the metric.
            metric: that curves are of.
            goal: which way its scores are better.
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
    """Returns the scores at these steps, none of which is before the first that was scored: each the latest one."""
    own, scores = zip(*result.curve, strict=True)
    return np.asarray(scores)[np.searchsorted(own, steps, side="right") - 1]
