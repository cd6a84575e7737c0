"""Learning curves of a search with the places where fits were stopped early."""

from matplotlib.figure import Figure

from crowdsweep.analysis.sections.stopped_early import StoppedFits
from crowdsweep.metrics.shown import score_words
from crowdsweep.metrics.wording import is_share, readable
from crowdsweep.views.figures.drawing import (
    ACCENT,
    PALETTE,
    WIDTH,
    grid,
    legend,
    margin_of,
    round_ticks,
    scale_of,
    style,
)
from crowdsweep.views.figures.told import TellingFigure


def stopped_curves(fits: StoppedFits) -> Figure:
    """Draws the curve of every fit, those that were stopped early with a cross at their end. Scores far off the others,
    as of first steps, are cut off."""
    scale = 100.0 if is_share(fits.metric) else 1.0
    kinds = ((fits.whole, ACCENT, "to its end", ""), (fits.stopped, PALETTE[1], "stopped early", "x"))
    with style():
        figure = TellingFigure(figsize=(WIDTH, 2.6))
        axes = figure.subplots()
        figure.zooms(axes)
        for curves, color, label, marker in kinds:
            for place, curve in enumerate(curves):
                steps, scores = zip(*curve, strict=True)
                heights = [scale * score for score in scores]
                named = label if not place else None
                told = [f"{label}\nstep {step:,}\n{score_words(score, fits.metric)}" for step, score in curve]
                figure.tell(axes, steps, heights, told)
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
