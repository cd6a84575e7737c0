"""How long a sweep still takes: a number that falls, and where it must rise, says why.

What is left is the sum over the trials that are still to be run. A trial is taken to last as long as those of its model
on its dataset that have finished here; of a model that has not been met there, as long as the others on that dataset
do, else as all do. That work is divided by how many trials were done side by side so far.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

SMOOTH_S = 20.0
"""How long a new estimate takes to count for two thirds."""
FAR_OFF, FAR_OFF_S = 1.3, 15.0
"""A new estimate is shown though it is longer where it is so many times the shown one, and by so many seconds."""

Cell = tuple[str, str]
"""A model's label and a dataset."""


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
    all: _Sum = field(default_factory=_Sum)

    def add(self, cell: Cell, seconds: float) -> None:
        """Takes a trial that has finished here."""
        for sums in (
            self.by_cell.setdefault(cell, _Sum()),
            self.by_dataset.setdefault(cell[1], _Sum()),
            self.all,
        ):
            sums.add(seconds)

    def seconds_of(self, cell: Cell) -> float:
        """Returns how long a trial is taken to last; something must have finished."""
        for known in (self.by_cell.get(cell), self.by_dataset.get(cell[1])):
            if known is not None:
                return known.seconds / known.trials
        return self.all.seconds / self.all.trials

    def left_s(self, to_go: Mapping[Cell, int], gone_s: float) -> float | None:
        """Returns the seconds that trials still take; None before the first has finished.

        As far as models are left that have not been met, it is no less than by the mere number of trials: what is
        quick comes first in most sweeps.

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
        self._smooth_s = before_s + (estimate_s - before_s) * min(1.0, gone_s / SMOOTH_S)
        if self._smooth_s > FAR_OFF * self.shown_s + FAR_OFF_S:
            if not self.why:
                self._rose_from_s = self.shown_s
            self.shown_s, self.why = self._smooth_s, why()
        self.shown_s = min(self.shown_s, self._smooth_s)
        if self.why and self.shown_s <= self._rose_from_s:
            self.why = ""
