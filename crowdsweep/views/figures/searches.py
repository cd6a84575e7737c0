"""Figures of a search: its history, the importance of hyper-parameters, values over each of them, and fits that were
stopped early."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from crowdsweep.analysis.searches import SearchedPoints
from crowdsweep.analysis.sections.stopped_early import StoppedFits
from crowdsweep.metrics.shown import score_words
from crowdsweep.metrics.wording import is_share, readable
from crowdsweep.record.naming import show_point
from crowdsweep.views.figures.drawing import (
    ACCENT,
    INK,
    PALETTE,
    WIDTH,
    grid,
    legend,
    margin_of,
    new_figure,
    round_ticks,
    scale_of,
    style,
)
from crowdsweep.views.figures.hover import HoverFigure
from crowdsweep.views.figures.scales import Placed, placed

_FAINTEST = 0.3  # opacity of the first point; the page shows through it, within a darker edge
_FAINTEST_LINE = 0.7  # the same of a line, which has no edge: its contrast with a light or dark page is 3 : 1
_MOST_AXES = 6  # side by side, which a phone still shows


def search_curve(
    values: Mapping[int, float | None], goal: str, metric: str, points: Mapping[int, Mapping[str, Any]] | None = None
) -> Figure:
    """Draws the value of every point of a search by its number, and the best so far. Failed points are crosses at the
    bottom; points far off the others are arrows at the edge. Tooltips have each point's settings, if `points` has
    them."""
    scale = 100.0 if is_share(metric) else 1.0
    known = {number: scale * value for number, value in sorted(values.items()) if value is not None}
    failed = [number for number, value in values.items() if value is None]
    numbers, scores = list(known), np.array(list(known.values()))
    with new_figure(WIDTH, 2.3) as (figure, axes):
        figure.zooms(axes)
        if numbers:
            best = np.maximum.accumulate(scores) if goal == "maximize" else np.minimum.accumulate(scores)
            axes.step(numbers, best, where="post", color=PALETTE[1], linewidth=2, label="best so far")
            axes.plot(numbers, scores, "o", color=ACCENT, markersize=4, label="point")
            _cut_off(axes, numbers, scores)
            settings = points or {}
            hover_texts = [_point_words(n, values[n], metric, settings.get(n, {})) for n in numbers]
            figure.tell(axes, numbers, scores.tolist(), hover_texts)
        if failed:
            bottom = axes.get_xaxis_transform()
            axes.plot(failed, [0.03] * len(failed), "x", color=INK, transform=bottom, label="failed", clip_on=False)
        axes.set_xlabel("point")
        axes.set_ylabel(readable(metric))
        axes.xaxis.set_major_locator(round_ticks(8, whole=True))
        axes.yaxis.set_major_locator(round_ticks())
        grid(axes, "y")
        legend(axes)
    return figure


def importances(shares: Mapping[str, float]) -> Figure:
    """Draws the share of the variance that each hyper-parameter explains, largest on top."""
    order = sorted(shares, key=lambda name: shares[name])
    with new_figure(WIDTH, 0.8 + 0.26 * len(order)) as (figure, axes):
        axes.barh(range(len(order)), [100 * shares[name] for name in order], height=0.6, color=ACCENT)
        for height, name in enumerate(order):
            axes.text(1.03, height, f"{100 * shares[name]:.0f} %", transform=axes.get_yaxis_transform(), va="center")
        axes.set_yticks(range(len(order)), order)
        axes.tick_params(axis="y", length=0)
        axes.set_xlim(0, 100)
        axes.set_xlabel("share of the variance explained, %")
        grid(axes, "x")
    return figure


def slices(points: SearchedPoints, metric: str) -> Figure:
    """Draws the value of every point over each hyper-parameter, in a panel each; later points have a stronger
    colour."""
    scale = 100.0 if is_share(metric) else 1.0
    scores = scale * np.asarray(points.values)
    names = list(points.params)
    across = min(2, len(names))
    down = -(-len(names) // across)
    hover_texts = _words_of(points, metric)
    with style():
        figure = HoverFigure(figsize=(WIDTH + 0.6, 0.7 + 1.7 * down), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False, sharey=True)
        for number, axes in enumerate(panels.flat):
            if number >= len(names):
                axes.set_axis_off()
                continue
            name = names[number]
            has, where = list(points.params[name]), _placed(points, name)
            shades = [to_rgba(ACCENT, _strength(place / max(len(scores) - 1, 1), _FAINTEST)) for place in has]
            axes.scatter(where.places, scores[has], c=shades, s=16, edgecolors=ACCENT, linewidths=0.6)
            figure.tell(axes, where.places, scores[has].tolist(), [hover_texts[place] for place in has])
            _tick(axes, where)
            axes.set_xlabel(name)
            axes.yaxis.set_major_locator(round_ticks())
            grid(axes, "y")
        low, high = scale_of(scores.tolist(), [])
        margin = margin_of(low, high, 0.06)
        panels[0, 0].set_ylim(low - margin, high + margin)
        figure.supylabel(readable(metric), fontsize=9)
    return figure


def parallel_coordinates(points: SearchedPoints, goal: str, metric: str) -> Figure:
    """Draws every point as a line through its first six hyper-parameters to its value. Better points have stronger
    lines, and lie on top."""
    values = np.asarray(points.values, dtype=np.float64)
    rank = np.argsort(np.argsort(values if goal == "maximize" else -values, kind="stable"), kind="stable")
    names = list(points.params)[:_MOST_AXES]
    n_points = len(values)
    heights, ends = _heights(points, names)
    scale = 100.0 if is_share(metric) else 1.0
    low, high = scale_of(values.tolist(), [])
    extent = (high - low) or 1.0
    heights.append(list(np.clip((values - low) / extent, 0.0, 1.0)))
    ends.append((f"{scale * low:.4g}", f"{scale * high:.4g}"))
    hover_texts = _words_of(points, metric)
    with new_figure(max(WIDTH, 0.95 * (len(names) + 1)), 2.6) as (figure, axes):
        for place in np.argsort(rank, kind="stable").tolist():
            share = float(rank[place]) / max(n_points - 1, 1)
            own = [column[place] for column in heights]
            color, width = to_rgba(ACCENT, _strength(share, _FAINTEST_LINE)), 0.8 + 1.6 * share
            path = [math.nan if height is None else height for height in own]
            axes.plot(list(range(len(own))), path, marker="o", markersize=2.5, color=color, linewidth=width)
            known = {at: height for at, height in enumerate(own) if height is not None}
            figure.tell(axes, list(known), list(known.values()), [hover_texts[place]] * len(known))
        for place, (bottom, top) in enumerate(ends):
            axes.axvline(place, color=INK, linewidth=0.8, alpha=0.5, zorder=0)
            axes.text(place, -0.04, bottom, ha="center", va="top", fontsize=8)
            axes.text(place, 1.04, top, ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(len(ends)), [*names, readable(metric)], rotation=20, ha="right", rotation_mode="anchor")
        axes.tick_params(length=0, pad=14)
        axes.set_ylim(0, 1)
        axes.set_yticks([])
        axes.spines[:].set_visible(False)
    return figure


def _cut_off(axes: Axes, numbers: Sequence[int], scores: np.ndarray) -> None:
    """Limits the axis to the values that are not far off; arrows at the edge point to the others."""
    low, high = scale_of(scores.tolist(), [])
    margin = margin_of(low, high, 0.08)
    axes.set_ylim(low - margin, high + margin)
    for edge, marker, beyond in ((0.0, "v", scores < low), (1.0, "^", scores > high)):
        far = [number for number, is_far in zip(numbers, beyond.tolist(), strict=True) if is_far]
        if far:
            place = axes.get_xaxis_transform()
            axes.plot(far, [edge] * len(far), marker, color=ACCENT, transform=place, clip_on=False, label="far off")


def _words_of(points: SearchedPoints, metric: str) -> list[str]:
    """Returns the tooltip of each point."""
    return [
        _point_words(n, value, metric, {name: own[place] for name, own in points.params.items() if place in own})
        for place, (n, value) in enumerate(zip(points.numbers, points.values, strict=True))
    ]


def _point_words(number: int, value: float | None, metric: str, settings: Mapping[str, Any]) -> str:
    shown = "failed" if value is None else score_words(value, metric)
    return "\n".join([f"point {number}", shown, *([show_point(settings)] if settings else [])])


def _strength(share: float, faintest: float) -> float:
    """Returns the opacity of a point by the share of the other points that it comes after."""
    return faintest + (1.0 - faintest) * share


def _tick(axes: Axes, where: Placed) -> None:
    if not where.ticks:
        axes.xaxis.set_major_locator(round_ticks(4))
        return
    places, names = zip(*where.ticks, strict=True)
    turned = 30 if sum(map(len, names)) > 16 else 0
    axes.set_xticks(places, names, rotation=turned, ha="right" if turned else "center", rotation_mode="anchor")


def _heights(points: SearchedPoints, names: Sequence[str]) -> tuple[list[list[float | None]], list[tuple[str, str]]]:
    """Returns for each hyper-parameter the height of each point in [0, 1], None for a point without it, and the texts
    at both ends of its axis."""
    heights: list[list[float | None]] = []
    ends: list[tuple[str, str]] = []
    for name in names:
        where = _placed(points, name)
        low, high = min(where.places), max(where.places)
        scaled = [(place - low) / (high - low) if high > low else 0.5 for place in where.places]
        own = dict(zip(points.params[name], scaled, strict=True))
        heights.append([own.get(point) for point in range(len(points.values))])
        ends.append(where.ends)
    return heights, ends


def _placed(points: SearchedPoints, name: str) -> Placed:
    """Returns the positions of a hyper-parameter's values on its axis."""
    return placed(list(points.params[name].values()), log=name in points.log, choices=points.choices.get(name, ()))


def stopped_curves(fits: StoppedFits) -> Figure:
    """Draws the curve of every fit; those of fits that were stopped early end in a cross. Scores far off the others,
    such as those of first steps, are cut off."""
    scale = 100.0 if is_share(fits.metric) else 1.0
    kinds = ((fits.whole, ACCENT, "to its end", ""), (fits.stopped, PALETTE[1], "stopped early", "x"))
    with new_figure(WIDTH, 2.6) as (figure, axes):
        figure.zooms(axes)
        for curves, color, label, marker in kinds:
            for place, curve in enumerate(curves):
                steps, scores = zip(*curve, strict=True)
                heights = [scale * score for score in scores]
                named = label if not place else None
                hover_texts = [f"{label}\nstep {step:,}\n{score_words(score, fits.metric)}" for step, score in curve]
                figure.tell(axes, steps, heights, hover_texts)
                axes.plot(steps, heights, color=color, linewidth=0.9, alpha=0.6, label=named)
                axes.plot(steps[-1:], heights[-1:], color=color, marker=marker or None, markersize=5, linestyle="")
        heights = [scale * score for curve in (*fits.whole, *fits.stopped) for _, score in curve]
        low, high = scale_of(heights, [])
        margin = margin_of(low, high, 0.06)
        axes.set_ylim(low - margin, high + margin)
        axes.set_xlabel("step")
        axes.set_ylabel(readable(fits.metric))
        axes.xaxis.set_major_locator(round_ticks(whole=True))
        axes.yaxis.set_major_locator(round_ticks())
        grid(axes, "y")
        legend(axes)
    return figure
