"""Scores of models against their costs."""

from collections.abc import Sequence
from math import log10

from matplotlib.figure import Figure

from crowdsweep.analysis.cost_front import CostPoint
from crowdsweep.metrics.shown import show_score
from crowdsweep.metrics.wording import is_share, readable, words
from crowdsweep.units import show_seconds
from crowdsweep.views.figures.drawing import ACCENT, INK, WIDTH, grid, margin_of, new_figure, round_ticks, scale_of
from crowdsweep.views.figures.scales import log_ticks

_MOST_NAMES = 10  # with more models, only those on the front are named


def score_against_seconds(points: Sequence[CostPoint], metric: str) -> Figure:
    """Draws each model at its seconds (log scale) and score, with its 95 % interval. Models on the Pareto front are
    filled and joined by steps, the others hollow. A score that is far from the others is cut off.

    Args:
        points: the fastest first; at least one.
        metric: the score's full name.
    """
    scale = 100.0 if is_share(metric) else 1.0
    halves = [(p.score.high - p.score.low) / 2 for p in points if p.score.low is not None and p.score.high is not None]
    low, high = scale_of([point.score.mean for point in points], halves)
    margin = margin_of(low, high, 0.12)
    front = [point for point in points if point.on_front]
    with new_figure(WIDTH, 2.6) as (figure, axes):
        axes.set_ylim(scale * (low - margin), scale * (high + margin))
        axes.step(
            [log10(point.seconds) for point in front],
            [scale * point.score.mean for point in front],
            where="post",
            color=ACCENT,
            linewidth=0.9,
            alpha=0.6,
        )
        for point in points:
            place, height = log10(point.seconds), scale * point.score.mean
            if point.score.low is not None and point.score.high is not None:
                ends = [scale * point.score.low, scale * point.score.high]
                axes.plot([place] * 2, ends, color=ACCENT, linewidth=1, alpha=0.4)
            face = ACCENT if point.on_front else "none"
            axes.plot([place], [height], "o", markersize=5.5, color=ACCENT, markerfacecolor=face)
            hover_text = f"{words(metric)} {show_score(point.score, metric)}\n{show_seconds(point.seconds)} per trial"
            figure.tell(axes, [place], [height], [f"{point.model}\n{hover_text}"])
            if point.on_front or len(points) <= _MOST_NAMES:
                axes.annotate(
                    point.model,
                    (place, height),
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=7.5,
                    color=INK,
                    annotation_clip=True,
                )
        seconds = [point.seconds for point in points]
        ticks = log_ticks(min(seconds), max(seconds))
        axes.set_xticks([place for place, _ in ticks], [text for _, text in ticks])
        axes.set_xlim(log10(min(seconds) / 1.5), log10(max(seconds) * 3))  # leaves room for names at the right
        axes.set_xlabel("seconds per trial")
        axes.set_ylabel(readable(metric))
        axes.yaxis.set_major_locator(round_ticks())
        grid(axes, "both")
    return figure
