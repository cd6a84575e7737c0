"""Comparisons of models: means with their intervals, and ranks over datasets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crowdsweep.analysis.ranks import CriticalDifference
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.shown import score_words, show_score
from crowdsweep.metrics.wording import is_share, readable, words
from crowdsweep.views.figures.drawing import (
    ACCENT,
    INK,
    PALETTE,
    WIDTH,
    grid,
    margin_of,
    new_figure,
    round_ticks,
    scale_of,
)
from crowdsweep.views.figures.hover import HoverFigure

_BELOW = 0.24  # distance of the seeds' values below their line


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One line of a mean-with-interval plot.

    Attributes:
        values: its value for every seed.
        apart: whether it saw gold; its dot is hollow then.
        text: the mean as text, at the right end of the line.
    """

    label: str
    estimate: Estimate
    values: Sequence[float] = ()
    apart: bool = False
    printed: float | None = None
    text: str = ""


def means_with_intervals(bars: Sequence[Bar], metric: str) -> Figure:
    """Draws one line per model, first on top: a dot at the mean, the 95 % interval, and a tick at the published value
    where there is one. Below the line, small pale dots are the values of every seed, where they differ.

    A model that is so far from the others that these would be drawn as one blot is off the scale. An arrow at the edge
    points to it, and the axis label names it.
    """
    scale = 100.0 if is_share(metric) else 1.0
    low, high = _limits(bars)
    off = [bar.label for bar in bars if not low <= bar.estimate.mean <= high]
    with new_figure(WIDTH, 0.8 + 0.3 * len(bars)) as (figure, axes):
        for height, bar in enumerate(reversed(bars)):
            _draw_bar(axes, height, bar, scale, low, high)
            _tell_bar(figure, axes, height, bar, metric)
        axes.set_yticks(range(len(bars)), [bar.label for bar in reversed(bars)])
        axes.set_ylim(-0.6, len(bars) - 0.4)
        margin = margin_of(low, high, 0.04)
        axes.set_xlim(scale * (low - margin), scale * (high + margin))
        axes.set_xlabel(readable(metric) + (f"\noff the scale: {', '.join(off)}" if off else ""))
        axes.xaxis.set_major_locator(round_ticks())
        axes.tick_params(axis="y", length=0)
        grid(axes, "x")
    return figure


def mean_ranks(ranks: Mapping[str, Sequence[float]], critical: CriticalDifference | None = None) -> Figure:
    """Draws the mean of each model's ranks over datasets as a dot, and its rank on every dataset small and pale. Models
    are in the order given, first on top.

    If a critical difference is known, a line on top has its length. Upright lines at the right then join the models
    that are not significantly different.

    Args:
        ranks: model → its rank on each dataset, best first.
        critical: the critical difference, and the groups of models that it joins.
    """
    with new_figure(WIDTH, 0.8 + 0.3 * len(ranks)) as (figure, axes):
        for height, (model, own) in enumerate(reversed(list(ranks.items()))):
            mean = sum(own) / len(own)
            figure.tell(axes, [mean], [height], [f"{model}\nmean rank {mean:.1f} on {len(own)}"])
            axes.plot(own, [height] * len(own), "o", markersize=4, color=ACCENT, alpha=0.5, markeredgewidth=0)
            axes.plot([mean], [height], "o", markersize=6.5, color=ACCENT)
            _at_the_end(axes, height, f"{mean:.1f}")
            axes.axhline(height, color=INK, alpha=0.08, linewidth=0.8, zorder=0)
        axes.set_yticks(range(len(ranks)), list(reversed(list(ranks))))
        axes.set_ylim(-0.6, len(ranks) - 0.4)
        axes.set_xlim(0.7, len(ranks) + 0.3)
        axes.set_xlabel("rank (1 is best)")
        axes.xaxis.set_major_locator(round_ticks(8, whole=True))
        axes.tick_params(axis="y", length=0)
        grid(axes, "x")
        if critical is not None:
            _join(axes, len(ranks), critical)
    return figure


def _join(axes: Axes, n_models: int, critical: CriticalDifference) -> None:
    above = n_models - 0.15
    ends = [1.0, 1.0 + critical.difference]
    axes.plot(ends, [above] * 2, "|-", color=INK, linewidth=1.2, markersize=6, clip_on=False)
    axes.text(1.0, above + 0.28, f"critical difference {critical.difference:.2f}", fontsize=8.5)
    for number, (first, last) in enumerate(critical.joined):
        heights = [n_models - 1 - first + 0.25, n_models - 1 - last - 0.25]
        place = 1.16 + 0.035 * number  # right of the means
        line = axes.get_yaxis_transform()
        axes.plot([place] * 2, heights, color=INK, linewidth=2.4, solid_capstyle="butt", transform=line, clip_on=False)


def _draw_bar(axes: Axes, height: int, bar: Bar, scale: float, low: float, high: float) -> None:
    found = bar.estimate
    if found.low is not None and found.high is not None:
        ends = [scale * found.low, scale * found.high]
        axes.plot(ends, [height, height], color=ACCENT, linewidth=2, solid_capstyle="butt")
    if not found.constant and len(bar.values) > 1:
        points = [scale * value for value in bar.values]
        below = [height - _BELOW] * len(points)
        axes.plot(points, below, "o", markersize=3, color=ACCENT, alpha=0.6, markeredgewidth=0)
    if low <= found.mean <= high:
        face = "none" if bar.apart else ACCENT
        axes.plot([scale * found.mean], [height], "o", markersize=6.5, color=ACCENT, markerfacecolor=face)
    else:
        edge, marker = (0.02, "<") if found.mean < low else (0.98, ">")  # clear of the axis and of the model's name
        place = axes.get_yaxis_transform()
        axes.plot([edge], [height], marker, markersize=7, color=ACCENT, transform=place, clip_on=False)
    if bar.printed is not None:
        axes.plot([scale * bar.printed], [height], "|", markersize=13, markeredgewidth=2, color=PALETTE[1])
    _at_the_end(axes, height, bar.text)


def _tell_bar(figure: HoverFigure, axes: Axes, height: int, bar: Bar, metric: str) -> None:
    """Adds tooltips for the mean of a line and for the value of each seed."""
    scale = 100.0 if is_share(metric) else 1.0
    mean = f"{bar.label}\n{words(metric)} {show_score(bar.estimate, metric)}"
    figure.tell(axes, [scale * bar.estimate.mean], [height], [mean])
    if not bar.estimate.constant and len(bar.values) > 1:
        hover_texts = [f"{bar.label}, one seed\n{score_words(value, metric)}" for value in bar.values]
        figure.tell(axes, [scale * value for value in bar.values], [height - _BELOW] * len(hover_texts), hover_texts)


def _at_the_end(axes: Axes, height: int, text: str) -> None:
    axes.text(1.03, height, text, transform=axes.get_yaxis_transform(), va="center", fontsize=8.5)


def _limits(bars: Sequence[Bar]) -> tuple[float, float]:
    """Returns the limits of the axis. They cover the means of the models that are not far off, and as much of their
    intervals and published values as is not far off either."""
    estimates = [bar.estimate for bar in bars]
    halves = [(one.high - one.low) / 2 for one in estimates if one.low is not None and one.high is not None]
    low, high = scale_of([one.mean for one in estimates], halves)
    near = [bar for bar in bars if low <= bar.estimate.mean <= high]
    ends = [end for bar in near for end in (bar.estimate.low, bar.estimate.high, bar.printed) if end is not None]
    return scale_of([*(bar.estimate.mean for bar in near), *ends], halves)
