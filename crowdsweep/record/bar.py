"""The bar of early stopping: the best score that a fit must have reached, step by step, to continue.

A bar is made before the fit begins (`search.median`) and travels with its batch, so that what it decides is the same
whenever the driver looks and whichever slot the fit runs on.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from crowdsweep.record.result import StoppedEarly

TIE = 1e-6
"""Relative: scores that differ by less are equal, as a trial's numbers may move by that much with its batch."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """What the best score of a fit so far is compared with.

    Attributes:
        steps: at which the bar changes, ascending; before the first of them nothing is compared.
        values: the bar from each of these steps on, in the metric's own units; as many as there are steps.
        end: the step from which nothing is compared any more.
        higher_is_better: of the metric.
        n_rivals: the number of fits that it was made of.
    """

    steps: Sequence[int]
    values: Sequence[float]
    end: int
    higher_is_better: bool
    n_rivals: int

    def stop(self, curve: Sequence[tuple[int, float]]) -> StoppedEarly | None:
        """Returns why a fit ends after the last step of its curve; None where it goes on.

        Args:
            curve: (step, score), all that were scored so far; at least one.
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
