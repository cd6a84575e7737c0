"""Line plots: the curves of a study, and dev scores while models train."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from crowdsweep.analysis.sections.training import Steps
from crowdsweep.metrics.shown import score_words
from crowdsweep.metrics.wording import is_share, readable
from crowdsweep.studies.contract import Curve, CurveLine
from crowdsweep.views.figures.drawing import (
    WIDTH,
    LineEnd,
    grid,
    line_style,
    margin_of,
    name_lines,
    new_figure,
    plain_line_style,
    reference_style,
    round_ticks,
    scale_of,
)

_LETTER = 5.5  # width of a tick's digit in points


def curve(drawn: Curve) -> Figure:
    """Draws the lines of a study, each named beside its end, with the 95 % interval of every point as a bar. Intervals
    of different lines are drawn side by side. Upper bounds that saw gold have the colour of text. A line whose points
    are all far from the other lines is off the scale, and the axis label names it."""
    scale = 100.0 if drawn.percent else 1.0
    lines, off = _on_the_scale(drawn.lines)
    with new_figure(WIDTH, max(2.8, 0.8 + 0.16 * len(lines))) as (figure, axes):
        figure.zooms(axes)
        own = [line for line in lines if not line.reference]
        ends: list[LineEnd] = []
        for place, line in enumerate(lines):
            looks = reference_style() if line.reference else line_style(own.index(line))
            x = _beside(line.x, place, len(lines), log=drawn.log_x)
            _draw_intervals(axes, line, x, scale, looks["color"])
            axes.plot(x, [scale * y for y in line.y], label=line.label, linewidth=1.6, markersize=4, **looks)
            figure.tell(axes, x, [scale * y for y in line.y], list(_words_of(line, drawn)))
            ends.append(LineEnd(y=scale * line.y[-1], text=line.label, looks=looks))
        _label_axis(axes, drawn)
        axes.set_ylabel(drawn.y_label)
        if off:
            axes.set_xlabel(f"{drawn.x_label}\noff the scale: {', '.join(off)}")
        if lines:
            axes.set_ylim(*(scale * end for end in _limits(lines)))
        grid(axes, "both")
        name_lines(axes, ends)
    return figure


def training_curves(curves: Mapping[str, Sequence[Steps]], metric: str) -> Figure:
    """Draws a metric of dev items over the steps of training: a pale line for every fit, named by its model."""
    scale = 100.0 if is_share(metric) else 1.0
    with new_figure(WIDTH, max(2.6, 0.8 + 0.16 * len(curves))) as (figure, axes):
        figure.zooms(axes)
        ends: list[LineEnd] = []
        for place, (label, fits) in enumerate(curves.items()):
            looks = plain_line_style(place)
            for fit in fits:
                steps, scores = zip(*fit, strict=True)
                heights = [scale * score for score in scores]
                hover_texts = [f"{label}\nstep {step:,}\n{score_words(score, metric)}" for step, score in fit]
                figure.tell(axes, steps, heights, hover_texts)
                axes.plot(steps, heights, color=looks["color"], linestyle=looks["linestyle"], linewidth=0.9, alpha=0.6)
            last = float(np.mean([fit[-1][1] for fit in fits]))
            ends.append(LineEnd(y=scale * last, text=label, looks=looks))
        axes.set_xlabel("step")
        axes.set_ylabel(readable(metric))
        axes.xaxis.set_major_locator(round_ticks(whole=True))
        axes.yaxis.set_major_locator(round_ticks())
        axes.set_ylim(axes.get_ylim())
        grid(axes, "y")
        name_lines(axes, ends)
    return figure


def _words_of(line: CurveLine, drawn: Curve) -> Iterator[str]:
    """Yields the tooltip of each point of a line."""
    scale = 100.0 if drawn.percent else 1.0
    for x, y, low, high in zip(line.x, line.y, line.low, line.high, strict=True):
        interval = "" if low is None or high is None else f" [{scale * low:.4g}, {scale * high:.4g}]"
        where = drawn.x_ticks.get(x, f"{x:,.6g}")
        yield f"{line.label}\n{drawn.x_label}: {where}\n{drawn.y_label}: {scale * y:.4g}{interval}"


def _on_the_scale(lines: Sequence[CurveLine]) -> tuple[list[CurveLine], list[str]]:
    """Returns the lines to draw, and the names of those that are far from all others."""
    if not lines:
        return [], []
    low, high = scale_of([y for line in lines for y in line.y], _half_widths(lines))
    kept = [line for line in lines if any(low <= y <= high for y in line.y)]
    return kept, [line.label for line in lines if line not in kept]


def _limits(lines: Sequence[CurveLine]) -> tuple[float, float]:
    """Returns the limits of the axis: they cover every mean, and as much of the intervals as is not far off."""
    means = [y for line in lines for y in line.y]
    ends = [end for line in lines for end in (*line.low, *line.high) if end is not None]
    low, high = scale_of([*means, *ends], _half_widths(lines))
    low, high = min(low, *means), max(high, *means)
    margin = margin_of(low, high, 0.04)
    return low - margin, high + margin


def _half_widths(lines: Sequence[CurveLine]) -> list[float]:
    return [
        (high - low) / 2
        for line in lines
        for low, high in zip(line.low, line.high, strict=True)
        if low is not None and high is not None
    ]


def _beside(x: Sequence[float], place: int, n_lines: int, *, log: bool) -> list[float]:
    """Returns the horizontal positions of a line's points, shifted so that intervals of several lines stand side by
    side. The shift is at most an eighth of the least distance between the points."""
    if n_lines < 2 or len(x) < 2:
        return list(x)
    share = 0.25 * (place / (n_lines - 1) - 0.5)
    if log:
        nearest = min(after / before for before, after in pairwise(x))
        return [value * nearest**share for value in x]
    nearest = min(after - before for before, after in pairwise(x))
    return [value + share * nearest for value in x]


def _draw_intervals(axes: Axes, line: CurveLine, x: Sequence[float], scale: float, color: Any) -> None:
    for place, low, high in zip(x, line.low, line.high, strict=True):
        if low is not None and high is not None:
            axes.plot([place, place], [scale * low, scale * high], color=color, linewidth=1.1, alpha=0.6)


def _label_axis(axes: Axes, drawn: Curve) -> None:
    axes.set_xlabel(drawn.x_label)
    width = axes.get_position().width * axes.figure.get_figwidth() * 72.0  # pyright: ignore[reportAttributeAccessIssue]
    if drawn.log_x:
        axes.set_xscale("log")
        texts = {x: drawn.x_ticks.get(x, f"{x:,.0f}") for x in sorted({x for line in drawn.lines for x in line.x})}
        axes.set_xticks(*_apart(texts, width, math.log))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif drawn.x_ticks:
        axes.set_xticks(*_apart(drawn.x_ticks, width, float))
    axes.yaxis.set_major_locator(round_ticks(6))


def _apart(texts: Mapping[float, str], width: float, scale: Callable[[float], float]) -> tuple[list[float], list[str]]:
    """Returns ticks of an axis with their texts, without those that would touch the next one to the right.

    Args:
        texts: position → text of all ticks.
        width: width of the axis in points.
        scale: of the axis.
    """
    ends = [scale(x) for x in (min(texts), max(texts))]
    per_unit = width / (ends[1] - ends[0] or 1.0)
    kept: list[float] = []
    for x in sorted(texts, reverse=True):
        if (
            not kept
            or per_unit * (scale(kept[-1]) - scale(x)) >= _LETTER * (len(texts[x]) + len(texts[kept[-1]]) + 2) / 2
        ):
            kept.append(x)
    return kept[::-1], [texts[x] for x in reversed(kept)]
