"""The points of a search by its first two objectives, with the Pareto front."""

from collections.abc import Callable, Sequence
from math import log10

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crowdsweep.analysis.trade_offs import TradeOffPoint, TradeOffs
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.metric_table import COSTS
from crowdsweep.metrics.shown import show_score
from crowdsweep.metrics.wording import is_share, readable, words
from crowdsweep.record.naming import show_point
from crowdsweep.views.figures.drawing import ACCENT, WIDTH, grid, legend, margin_of, new_figure, round_ticks, scale_of
from crowdsweep.views.figures.scales import log_ticks

_PALE = 0.45  # opacity of points that others dominate
_Place = Callable[[float], float]


def trade_off(found: TradeOffs) -> Figure:
    """Draws the first objective over the second, with 95 % intervals over the search seeds. The Pareto front of these
    two is filled and joined by steps; other points are pale and hollow. Costs have a log scale; points far off the
    others are cut off.
    """
    front = sorted((point for point in found.points if point.on_plane), key=lambda point: point.values[1].mean)
    rest = [point for point in found.points if not point.on_plane]
    with new_figure(WIDTH, 2.8) as (figure, axes):
        across, up = _x_axis(axes, found), _y_axis(axes, found)
        axes.step(
            [across(point.values[1].mean) for point in front],
            [up(point.values[0].mean) for point in front],
            where="post" if found.goals[1] == "minimize" else "pre",
            color=ACCENT,
            linewidth=0.9,
            alpha=0.6,
        )
        for points, label, face, alpha in ((rest, "other points", "none", _PALE), (front, "on the front", ACCENT, 1.0)):
            for point in points:
                second, first = point.values[1], point.values[0]
                x, y = across(second.mean), up(first.mean)
                axes.plot(_ends(second, across), [y, y], color=ACCENT, linewidth=0.8, alpha=0.4 * alpha)
                axes.plot([x, x], _ends(first, up), color=ACCENT, linewidth=0.8, alpha=0.4 * alpha)
                figure.tell(axes, [x], [y], [_words(point, found)])
            if points:
                xs = [across(point.values[1].mean) for point in points]
                ys = [up(point.values[0].mean) for point in points]
                axes.plot(xs, ys, "o", markersize=4.5, color=ACCENT, markerfacecolor=face, alpha=alpha, label=label)
        grid(axes, "both")
        legend(axes)
    return figure


def _x_axis(axes: Axes, found: TradeOffs) -> _Place:
    """Sets up the axis of the second objective and returns the function that places its values."""
    name, values = found.objectives[1], [point.values[1] for point in found.points]
    axes.set_xlabel(readable(name))
    least = min(value.mean for value in values)
    if name not in COSTS or least <= 0:
        place = _linear(name)
        axes.set_xlim(_limits(values, place))
        axes.xaxis.set_major_locator(round_ticks())
        return place
    most = max(value.mean for value in values)
    ticks = log_ticks(least, most)
    axes.set_xticks([place for place, _ in ticks], [text for _, text in ticks])
    margin = max(0.06 * log10(most / least), 0.02)
    axes.set_xlim(log10(least) - margin, log10(most) + margin)
    return lambda value: log10(max(value, least / 1e3))


def _y_axis(axes: Axes, found: TradeOffs) -> _Place:
    """Sets up the axis of the first objective and returns the function that places its values."""
    place = _linear(found.objectives[0])
    axes.set_ylabel(readable(found.objectives[0]))
    axes.set_ylim(_limits([point.values[0] for point in found.points], place))
    axes.yaxis.set_major_locator(round_ticks())
    return place


def _linear(name: str) -> _Place:
    scale = 100.0 if is_share(name) else 1.0
    return lambda value: scale * value


def _limits(values: Sequence[Estimate], place: _Place) -> tuple[float, float]:
    low, high = scale_of([place(value.mean) for value in values], [])
    margin = margin_of(low, high, 0.1)
    return low - margin, high + margin


def _ends(value: Estimate, place: _Place) -> list[float]:
    """Returns the ends of a value's interval on the axis; the value's own position twice where it has no interval."""
    low, high = (value.mean if end is None else end for end in (value.low, value.high))
    return [place(low), place(high)]


def _words(point: TradeOffPoint, found: TradeOffs) -> str:
    lines = [
        f"{words(name)} {show_score(value, name)}" for name, value in zip(found.objectives, point.values, strict=True)
    ]
    return "\n".join([f"point {point.number}", *lines, show_point(point.point)])
