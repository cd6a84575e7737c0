"""The bar of early stopping: the best score that a fit must have reached, at each step, to continue.

A bar is made before the fit begins (`search.median`) and sent along with its batch. Its decisions are thus independent
of when the driver checks and of the slot that the fit runs on.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from crowdsweep.record.result import StoppedEarly

TIE = 1e-6
"""Relative tolerance: scores closer than this are equal, because a trial's batch may change them by this much."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """The threshold, at each step, for the best score of a fit so far.

    Attributes:
        steps: at which the bar changes, ascending; there is no bar before the first.
        values: the bar from each of these steps on, in the metric's own units; as many as `steps`.
        end: the step from which there is no bar any more.
        n_rivals: the number of earlier fits that the bar was made of.
    """

    steps: Sequence[int]
    values: Sequence[float]
    end: int
    higher_is_better: bool
    n_rivals: int

    def stop(self, curve: Sequence[tuple[int, float]]) -> StoppedEarly | None:
        """Returns the reason to stop a fit after the last step of its curve; None to continue.

        Args:
            curve: all (step, score) pairs so far; at least one.
        """
        step = curve[-1][0]
        place = bisect_right(self.steps, step) - 1
        scores = [score for _, score in curve if math.isfinite(score)]
        if place < 0 or step >= self.end or not scores:
            return None
        bar, best = self.values[place], max(scores) if self.higher_is_better else min(scores)
        behind = bar - best if self.higher_is_better else best - bar
        if behind <= TIE * max(abs(bar), abs(best)):
            return None
        return StoppedEarly(step=step, best=best, bar=bar, n_rivals=self.n_rivals)
