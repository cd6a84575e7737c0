"""Costs of models along a study's axis, in seconds and memory: a table, and how fast both grow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from crowdsweep.metrics.intervals import CONFIDENCE
from crowdsweep.studies.axis import AxisPoint, ModelsAlong
from crowdsweep.studies.contract import StudyTable
from crowdsweep.units import show_bytes, show_seconds

LEAST_GROWTH = 20_000_000
"""Bytes beyond what every process holds from which on memory counts as the fit's; allocators keep a few MB more or
less.
"""
FEWEST = 3
"""Smallest number of axis values for which an exponent has an interval."""


def costs_table(title: str, models: ModelsAlong, axis_name: str, axis: Sequence[int]) -> StudyTable:
    """Returns a table of the seconds of a trial and the peak memory of its batch, with a row for each axis value."""
    names = sorted(models)
    return StudyTable(
        title=title,
        columns=[axis_name, *names],
        rows=[[f"{size:,}", *(_cost(models[name].get(size)) for name in names)] for size in axis],
        note="mean of a trial's share of its batch's time, and the highest resident memory of a process that ran it",
    )


def growing(models: ModelsAlong, axis_words: str) -> list[str]:
    """Returns sentences on how seconds and memory grow with the axis, the fastest growth first.

    Memory counts above the smallest peak of all trials, which is what a process holds before it fits anything. It has
    an exponent where it is at least `LEAST_GROWTH` above that peak at three values or more.
    """
    seconds = {name: _seconds(points) for name, points in models.items()}
    peaks = {name: _peaks(points) for name, points in models.items()}
    floor = min((peak for known in peaks.values() for peak in known.values()), default=0.0)
    above = {
        name: {size: peak - floor for size, peak in known.items() if peak - floor >= LEAST_GROWTH}
        for name, known in peaks.items()
    }
    found: list[str] = []
    if told := _exponents(seconds):
        found.append(f"seconds per trial grow as the {axis_words} to the power of: {told}")
    if told := _exponents(above):
        held = show_bytes(round(floor))
        found.append(f"peak memory beyond the {held} of a process grows as the {axis_words} to the power of: {told}")
    return found


def _exponents(costs: Mapping[str, Mapping[int, float]]) -> str:
    found = {name: growth([*known], [*known.values()]) for name, known in costs.items()}
    told = sorted((-grows.exponent, f"{name} {grows}") for name, grows in found.items() if grows is not None)
    return ", ".join(words for _, words in told)


def _seconds(points: Mapping[int | None, AxisPoint]) -> dict[int, float]:
    means = {size: fmean(points[size].wall_s) for size in _sizes(points) if points[size].wall_s}
    return {size: mean for size, mean in means.items() if mean > 0}


def _peaks(points: Mapping[int | None, AxisPoint]) -> dict[int, float]:
    return {size: float(max(known)) for size in _sizes(points) if (known := points[size].peak_bytes)}


def _sizes(points: Mapping[int | None, AxisPoint]) -> list[int]:
    return sorted(size for size in points if size)


def _cost(point: AxisPoint | None) -> str | None:
    if point is None or not point.wall_s:
        return None
    peak = f", {show_bytes(max(point.peak_bytes))}" if point.peak_bytes else ""
    return show_seconds(fmean(point.wall_s)) + peak


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The growth of a cost with size: cost ∝ size ** exponent.

    Attributes:
        exponent: the slope of a straight line through the logarithms.
        low, high: its 95 % interval, from the distances of the values to that line.
    """

    exponent: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.exponent:.2f} [{self.low:.2f}, {self.high:.2f}]"


def growth(sizes: Sequence[int | float], costs: Sequence[int | float]) -> Growth | None:
    """Returns how costs grow with sizes, by least squares on logarithms; None for fewer than `FEWEST` sizes.

    Args:
        sizes: all different and above 0.
        costs: the cost of each size, above 0.
    """
    from scipy import stats  # noqa: PLC0415 - takes half a second, which describing a template must not

    if len(sizes) < FEWEST:
        return None
    found = stats.linregress(np.log(sizes), np.log(costs))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(sizes) - 2)) * found.stderr
    return Growth(exponent=found.slope, low=found.slope - half, high=found.slope + half)
