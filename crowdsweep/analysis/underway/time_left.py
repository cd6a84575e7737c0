"""The estimate of the time left of a running sweep.

It is the expected seconds of the trials still to be run, divided by how many ran side by side so far. A trial is
expected to take the mean of those of its model on its dataset that have finished here; of a model without any, the mean
on that dataset, else the mean of all. What is shown is smoothed so that it falls; where it has to rise, it says why.

Points that a search has still to propose may be slower or faster than those before. While there are such, a range is
shown, by the quartiles over points; before a few points have ended it has no upper end.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from statistics import quantiles
from typing import NamedTuple

SMOOTH_S = 20.0
"""How long a new estimate takes to count for two thirds; a shorter one takes at most half of what it says is left.

Else a sweep that went faster than its slow first trials would end while much was said to be left."""
FAR_OFF, FAR_OFF_S = 1.3, 15.0
"""A new estimate is shown though it is longer where it is so many times the shown one, and by so many seconds."""

FEWEST_POINTS = 3
"""So many points must have ended before a search tells how slow the next ones may be."""

Cell = tuple[str, str]
"""A model's label and a dataset."""


class Left(NamedTuple):
    """What is shown of the time left.

    Attributes:
        seconds: at the least, where there is a range.
        why: that is more than was said before; empty where it is not.
        most_s: at the most, infinite where nothing tells; None where there is no range.
    """

    seconds: float
    why: str
    most_s: float | None = None


@dataclass(kw_only=True)
class _Sum:
    """Seconds of trials that have finished here."""

    seconds: float = 0.0
    trials: int = 0

    def add(self, seconds: float) -> None:
        self.seconds += seconds
        self.trials += 1


@dataclass(kw_only=True)
class Work:
    """Seconds of trials, by what they were trials of."""

    by_cell: dict[Cell, _Sum] = field(default_factory=dict[Cell, _Sum])
    by_dataset: dict[str, _Sum] = field(default_factory=dict[str, _Sum])
    by_point: dict[Cell, dict[str, _Sum]] = field(default_factory=dict[Cell, dict[str, _Sum]])
    all: _Sum = field(default_factory=_Sum)

    def add(self, cell: Cell, seconds: float, point: str = "") -> None:
        """Takes a trial that has finished here; `point` identifies its hyper-parameters."""
        for sums in (
            self.by_point.setdefault(cell, {}).setdefault(point, _Sum()),
            self.by_cell.setdefault(cell, _Sum()),
            self.by_dataset.setdefault(cell[1], _Sum()),
            self.all,
        ):
            sums.add(seconds)

    def seconds_of(self, cell: Cell) -> float:
        """Returns the expected seconds of a trial; at least one must have finished."""
        for known in (self.by_cell.get(cell), self.by_dataset.get(cell[1])):
            if known is not None:
                return known.seconds / known.trials
        return self.all.seconds / self.all.trials

    def left_s(self, to_go: Mapping[Cell, int], gone_s: float) -> float | None:
        """Returns the seconds that trials still take; None before the first has finished.

        For models of which no trial has finished it is at least the mean over all finished trials: most sweeps begin
            with the quick ones.

        Args:
            to_go: how many trials of each cell are left.
            gone_s: seconds in which all this work was done.
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
        """Returns how far the range reaches below and above `left_s`, in seconds, as points are still to be proposed;
        infinitely far above where too few points have ended.

        Args:
            proposed_later: how many trials of each cell will be at points that a search has still to propose.
            gone_s: seconds in which all work was done.
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
        """Returns the cell that most of the time goes to."""
        known = {cell: n * self.seconds_of(cell) for cell, n in to_go.items() if n and cell in self.by_cell}
        return max(known, key=lambda cell: known[cell]) if known else None


class TimeLeft:
    """What is shown of estimates that come one after another."""

    def __init__(self) -> None:
        self.shown_s: float | None = None
        self.why = ""
        self._smooth_s = 0.0
        self._at_s = 0.0
        self._rose_from_s = 0.0
        self._told: Hashable = None

    def update(self, estimate_s: float | None, now_s: float, why: Callable[[], str]) -> None:
        """Takes an estimate.

        Args:
            estimate_s: seconds that are left; None where nothing is known yet.
            now_s: when, monotonic.
            why: asked where more is shown than before: what has made it longer.
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
