"""The estimate of the time left of a running sweep.

The estimate is the expected seconds of the trials that are left, divided by the mean number of trials that ran in
parallel so far. A trial is expected to take the mean time of the trials of its model on its dataset that have finished
under this driver; else the mean of that dataset, else the mean of all trials. The shown value is smoothed so that it
falls steadily; where it has to rise, a reason is given.

Points that a search has yet to propose may be slower or faster than earlier ones. While there are such points, a range
is shown, from the quartiles over finished points. It has no upper end until `FEWEST_POINTS` points have finished.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from statistics import quantiles
from typing import NamedTuple

SMOOTH_S = 20.0
"""Time constant of the smoothing, in seconds: after this time a new estimate counts for about two thirds.

For an estimate below the smoothed time it is at most half of that estimate. Otherwise a sweep that sped up after slow
first trials would end while a long time was still shown as left."""
FAR_OFF, FAR_OFF_S = 1.3, 15.0
"""A longer time is shown only if the smoothed estimate exceeds this factor times the shown one plus these seconds."""

FEWEST_POINTS = 3
"""Finished points of a search that are needed to bound how slow its next points may be."""

Cell = tuple[str, str]
"""A model's label and a dataset."""


class Remaining(NamedTuple):
    """The time left, as it is shown.

    Attributes:
        seconds: seconds left; the lower end, where there is a range.
        why: why the time is longer than the one shown before; empty where it is not.
        most_s: upper end of the range, infinite where it is unknown; None where there is no range.
    """

    seconds: float
    why: str
    most_s: float | None = None


@dataclass(kw_only=True)
class _Sum:
    """Total seconds and number of trials that have finished under this driver."""

    seconds: float = 0.0
    trials: int = 0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.trials += 1


@dataclass(kw_only=True)
class Work:
    """Seconds of finished trials, by cell, dataset and point."""

    by_cell: dict[Cell, _Sum] = field(default_factory=dict[Cell, _Sum])
    by_dataset: dict[str, _Sum] = field(default_factory=dict[str, _Sum])
    by_point: dict[Cell, dict[str, _Sum]] = field(default_factory=dict[Cell, dict[str, _Sum]])
    all: _Sum = field(default_factory=_Sum)

    def add(self, cell: Cell, seconds: float, point: str = "") -> None:
        """Adds a finished trial; `point` identifies its hyper-parameters."""
        for sums in (
            self.by_point.setdefault(cell, {}).setdefault(point, _Sum()),
            self.by_cell.setdefault(cell, _Sum()),
            self.by_dataset.setdefault(cell[1], _Sum()),
            self.all,
        ):
            sums.add(seconds)

    def seconds_of(self, cell: Cell) -> float:
        """Returns the expected seconds of a trial of this cell; at least one trial must have finished."""
        for known in (self.by_cell.get(cell), self.by_dataset.get(cell[1])):
            if known is not None:
                return known.seconds / known.trials
        return self.all.seconds / self.all.trials

    def left_s(self, to_go: Mapping[Cell, int], gone_s: float) -> float | None:
        """Returns the seconds until the remaining trials have finished; None before the first trial has finished.

        Trials of cells without a finished trial count with at least the mean over all finished trials, as most sweeps
        begin with the fast models.

        Args:
            to_go: cell → number of trials left.
            gone_s: elapsed seconds in which the finished trials ran.
        """
        if not self.all.trials or gone_s <= 0:
            return None
        n = sum(to_go.values())
        by_number_s = n * gone_s / self.all.trials
        if self.all.seconds <= 0 or not n:
            return by_number_s
        by_work_s = sum(n * self.seconds_of(cell) for cell, n in to_go.items()) * gone_s / self.all.seconds
        unknown = sum(n for cell, n in to_go.items() if cell not in self.by_cell) / n
        return by_work_s + unknown * max(0.0, by_number_s - by_work_s)

    def margins(self, proposed_later: Mapping[Cell, int], gone_s: float) -> tuple[float, float]:
        """Returns how far the range reaches below and above `left_s`, in seconds, for points that are yet to be
        proposed.

        The second margin is infinite where fewer than `FEWEST_POINTS` points of a cell have finished.

        Args:
            proposed_later: cell → number of trials at points that a search has yet to propose.
            gone_s: elapsed seconds in which the finished trials ran.
        """
        less_s = more_s = 0.0
        for cell, n in proposed_later.items():
            known = [point.seconds / point.trials for point in self.by_point.get(cell, {}).values()]
            if len(known) < FEWEST_POINTS:
                less_s, more_s = less_s + n * self.seconds_of(cell), float("inf")
                continue
            low, _, high = quantiles(known, n=4, method="inclusive")
            mean = self.seconds_of(cell)
            less_s, more_s = less_s + n * max(0.0, mean - low), more_s + n * max(0.0, high - mean)
        side_by_side = self.all.seconds / gone_s if self.all.seconds > 0 else 1.0
        return less_s / side_by_side, more_s / side_by_side

    def longest(self, to_go: Mapping[Cell, int]) -> Cell | None:
        """Returns the cell with the most expected seconds left, among those with a finished trial; None without any."""
        known = {cell: n * self.seconds_of(cell) for cell, n in to_go.items() if n and cell in self.by_cell}
        return max(known, key=lambda cell: known[cell]) if known else None


class TimeLeft:
    """Smoothed display of a sequence of estimates of the time left."""

    def __init__(self) -> None:
        self.shown_s: float | None = None
        self.why = ""
        self._smooth_s = 0.0
        self._at_s = 0.0
        self._rose_from_s = 0.0
        self._told: Hashable = None

    def update(self, estimate_s: float | None, now_s: float, why: Callable[[], str]) -> None:
        """Updates the shown time with a new estimate.

        Args:
            estimate_s: seconds left; None, which changes nothing, where they are not known yet.
            now_s: time of the estimate, on a monotonic clock.
            why: returns why the time left has grown; called only where the shown time rises.
        """
        if estimate_s is None:
            return
        if self.shown_s is None:
            self.shown_s = self._smooth_s = estimate_s
            self._at_s = now_s
            return
        gone_s, self._at_s = max(0.0, now_s - self._at_s), now_s
        before_s = max(0.0, self._smooth_s - gone_s)
        smooth_s = SMOOTH_S if estimate_s >= before_s else min(SMOOTH_S, estimate_s / 2)
        self._smooth_s = before_s + (estimate_s - before_s) * (min(1.0, gone_s / smooth_s) if smooth_s else 1.0)
        if self._smooth_s > FAR_OFF * self.shown_s + FAR_OFF_S:
            if not self.why:
                self._rose_from_s = self.shown_s
            self.shown_s, self.why = self._smooth_s, why()
        self.shown_s = min(self.shown_s, self._smooth_s)
        if self.why and self.shown_s <= self._rose_from_s:
            self.why = ""
