"""Every figure, drawn with matplotlib's objects: nothing here touches pyplot or its global list of figures.

A figure is drawn once and written as SVG for the page, where ink takes the page's text colour (light or dark), or as
PNG on white for a tracking server. Colours are Okabe and Ito's, told apart by colour-blind readers; markers and dashes
say the same again.
"""

import html
import io
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.wording import is_share, readable
from crowdsweep.studies.contract import Curve

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", "-.", ":")
_INK = "#1d2125"  # becomes `currentColor` in SVG
_STYLE: Any = {
    "svg.fonttype": "path",  # letters as outlines: no font of the reader's can make a label overflow
    "svg.hashsalt": "crowdsweep",
    "font.size": 10,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "text.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.parse_math": False,  # names are names, whatever dollars they hold
}
_HEAT = LinearSegmentedColormap.from_list("heat", ["#e8f1f8", "#0072B2", "#00314f"])


@contextmanager
def _style() -> Generator[None]:
    """Draws by our own settings alone: matplotlib reads a `matplotlibrc` of the folder that a person stands in, which
    may have it run LaTeX."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One line of a mean-with-interval plot; `apart` for models that saw gold, which are drawn hollow."""

    label: str
    estimate: Estimate
    values: Sequence[float] = ()
    apart: bool = False
    printed: float | None = None


def means_with_intervals(bars: Sequence[Bar], metric: str) -> Figure:
    """Draws one line a model, first on top: dot at the mean, 95 % interval, printed value as a tick where given, and
    beneath, small and pale, the value of every seed where they differ."""
    scale = 100.0 if is_share(metric) else 1.0
    with _style():
        figure = Figure(figsize=(6.8, 0.9 + 0.34 * len(bars)))
        axes = figure.subplots()
        for height, bar in enumerate(reversed(bars)):
            found = bar.estimate
            if found.low is not None and found.high is not None:
                axes.plot(
                    [scale * found.low, scale * found.high],
                    [height, height],
                    color=PALETTE[0],
                    linewidth=2,
                    solid_capstyle="butt",
                )
            if not found.constant and len(bar.values) > 1:
                points = [scale * value for value in bar.values]
                below = [height - 0.24] * len(points)
                axes.plot(points, below, "o", markersize=3, color=PALETTE[0], alpha=0.45, markeredgewidth=0)
            face = "none" if bar.apart else PALETTE[0]
            axes.plot([scale * found.mean], [height], "o", markersize=6.5, color=PALETTE[0], markerfacecolor=face)
            if bar.printed is not None:
                axes.plot([scale * bar.printed], [height], "|", markersize=13, markeredgewidth=2, color=PALETTE[1])
        axes.set_yticks(range(len(bars)), [bar.label for bar in reversed(bars)])
        axes.set_ylim(-0.6, len(bars) - 0.4)
        axes.set_xlabel(readable(metric))
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.tick_params(axis="y", length=0)
        _grid(axes, "x")
    return figure


def search_curve(values: Mapping[int, float | None], goal: str, metric: str) -> Figure:
    """Draws the value of every point of a search by its number, and the best so far; failed points as crosses below."""
    scale = 100.0 if is_share(metric) else 1.0
    known = {number: scale * value for number, value in sorted(values.items()) if value is not None}
    failed = [number for number, value in values.items() if value is None]
    numbers, scores = list(known), np.array(list(known.values()))
    with _style():
        figure = Figure(figsize=(6.8, 2.6))
        axes = figure.subplots()
        if numbers:
            best = np.maximum.accumulate(scores) if goal == "maximize" else np.minimum.accumulate(scores)
            axes.step(numbers, best, where="post", color=PALETTE[1], linewidth=2, label="best so far")
            axes.plot(numbers, scores, "o", color=PALETTE[0], markersize=4.5, alpha=0.8, label="point")
        if failed:
            bottom = axes.get_xaxis_transform()
            axes.plot(failed, [0.03] * len(failed), "x", color=_INK, transform=bottom, label="failed", clip_on=False)
        axes.set_xlabel("point")
        axes.set_ylabel(readable(metric))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        _grid(axes, "y")
        _legend(axes)
    return figure


def curve(drawn: Curve) -> Figure:
    """Draws the lines of a study over its axis with their intervals as bands; upper bounds that saw gold in ink."""
    scale = 100.0 if drawn.percent else 1.0
    with _style():
        figure = Figure(figsize=(6.8, 3.6))
        axes = figure.subplots()
        own = [line for line in drawn.lines if not line.reference]
        for line in drawn.lines:
            style = _reference_style() if line.reference else _line_style(own.index(line))
            axes.fill_between(
                line.x,
                [scale * (y if low is None else low) for y, low in zip(line.y, line.low, strict=True)],
                [scale * (y if high is None else high) for y, high in zip(line.y, line.high, strict=True)],
                color=style["color"],
                alpha=0.16,
                linewidth=0,
            )
            axes.plot(line.x, [scale * y for y in line.y], label=line.label, linewidth=1.8, markersize=5, **style)
        _label_axis(axes, drawn)
        axes.set_ylabel(drawn.y_label)
        _grid(axes, "both")
        _legend(axes)
    return figure


def heat_map(matrix: Sequence[Sequence[float]], class_names: Sequence[str] = ()) -> Figure:
    """Draws a confusion matrix [true][observed], its numbers in the cells while they fit."""
    cells = np.asarray(matrix, dtype=np.float64)
    n_classes = len(cells)
    names = list(class_names) or [str(code) for code in range(n_classes)]
    side = min(6.4, 1.6 + 0.5 * n_classes)
    with _style():
        figure = Figure(figsize=(side + 0.6, side))
        axes = figure.subplots()
        image = axes.imshow(cells, cmap=_HEAT, vmin=0.0, vmax=1.0)
        if n_classes <= 12:
            for true, observed in np.ndindex(*cells.shape):
                value = float(cells[true, observed])
                ink = "#ffffff" if value > 0.4 else "#10202b"
                text = f"{value:.2f}".removeprefix("0") if value < 0.995 else "1"
                axes.text(observed, true, text, ha="center", va="center", color=ink, fontsize=8)
        ticks = range(0, n_classes, max(1, n_classes // 24))
        turned = 90 if max(map(len, names)) > 3 else 0
        axes.set_xticks(ticks, [names[code] for code in ticks], rotation=turned)
        axes.set_yticks(ticks, [names[code] for code in ticks])
        axes.set_xlabel("observed")
        axes.set_ylabel("true")
        axes.tick_params(length=0)
        bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.04)
        bar.outline.set_visible(False)
    return figure


def annotator_map(points: np.ndarray, errors: np.ndarray) -> Figure:
    """Draws annotators as points of a plane [annotators, 2], darker the larger their share of wrong answers."""
    with _style():
        figure = Figure(figsize=(5.2, 4.2))
        axes = figure.subplots()
        drawn = axes.scatter(
            points[:, 0], points[:, 1], c=errors, cmap=_HEAT, vmin=0.0, vmax=1.0, s=22, edgecolors=_INK, linewidths=0.3
        )
        axes.set_xticks([])
        axes.set_yticks([])
        bar = figure.colorbar(drawn, ax=axes, fraction=0.046, pad=0.04, label="share of wrong answers")
        bar.outline.set_visible(False)
    return figure


def item_map(points: np.ndarray, classes: np.ndarray, class_names: Sequence[str] = ()) -> Figure:
    """Draws items as points of a plane [items, 2], each class in its colour and marker, the most frequent first."""
    codes, sizes = np.unique(classes, return_counts=True)
    with _style():
        figure = Figure(figsize=(5.2, 4.2))
        axes = figure.subplots()
        for place, code in enumerate(codes[np.argsort(-sizes, kind="stable")].tolist()):
            mine = points[classes == code]
            axes.plot(
                mine[:, 0],
                mine[:, 1],
                linestyle="none",
                color=PALETTE[place % len(PALETTE)],
                marker=_MARKERS[place % len(_MARKERS)],
                markersize=4.5,
                markeredgewidth=0,
                alpha=0.8,
                label=f"{_class_name(class_names, code)} ({len(mine)})",
            )
        axes.set_axis_off()
        _legend(axes)
    return figure


def cluster_labels(
    labels: np.ndarray, item_sizes: np.ndarray, annotator_sizes: np.ndarray, class_names: Sequence[str] = ()
) -> Figure:
    """Draws the label distributions of clusters [clusters, annotator_clusters, classes].

    One panel a class, clusters of items down, of annotators across, each labelled with its size: what an annotator of
    that kind says of an item of that kind reads off one cell in all panels. With one cluster of annotators, classes
    stand across one panel.
    """
    n_classes = labels.shape[2]
    names = [_class_name(class_names, code) for code in range(n_classes)]
    down, across = ([f"{size:.0f}" for size in sizes] for sizes in (item_sizes, annotator_sizes))
    if labels.shape[1] == 1:
        panels, titles, across, cell = [labels[:, 0]], [""], [_cut(name, 24) for name in names], 0.26
    else:
        panels, titles, cell = [labels[:, :, code] for code in range(n_classes)], names, 0.17
    tall, wide = panels[0].shape
    width, height = max(1.1, cell * wide), cell * tall
    beside = min(len(panels), max(1, int(8.4 / (width + 0.25))))
    stacked = -(-len(panels) // beside)
    below = 0.3 + 0.075 * max(map(len, across))
    with _style():
        size = (1.7 + beside * (width + 0.25), below + stacked * (height + 0.35))
        figure = Figure(figsize=size, layout="constrained")
        drawn = figure.subplots(stacked, beside, squeeze=False)
        for number, axes in enumerate(drawn.flat):
            if number >= len(panels):
                axes.set_axis_off()
                continue
            axes.imshow(panels[number], cmap=_HEAT, vmin=0.0, vmax=1.0, aspect="auto")
            axes.set_title(_cut(titles[number], int(width / 0.07)), fontsize=8, pad=3)
            left, lowest = number % beside == 0, number + beside >= len(panels)
            axes.set_yticks(range(tall), down if left else [""] * tall, fontsize=7)
            axes.set_xticks(range(wide), across if lowest else [""] * wide, fontsize=7, rotation=90)
            axes.tick_params(length=0, pad=2)
            axes.spines[:].set_visible(False)
        figure.supylabel("items in each cluster", fontsize=9)
        figure.supxlabel("annotators in each cluster" if annotator_sizes.size else "class", fontsize=9)
        image = drawn[0, 0].images[0]
        bar = figure.colorbar(image, ax=drawn.ravel().tolist(), aspect=30, shrink=0.8, pad=0.02, label="probability")
        bar.outline.set_visible(False)
    return figure


def _cut(name: str, length: int) -> str:
    return name if len(name) <= length else name[: max(1, length - 1)] + "…"


def _class_name(class_names: Sequence[str], code: int) -> str:
    return class_names[code] if code < len(class_names) else f"class {code}"


def to_png(figure: Figure) -> bytes:
    """Returns a figure as PNG on white, 144 dots an inch."""
    buffer = io.BytesIO()
    with _style():
        figure.savefig(buffer, format="png", dpi=144, bbox_inches="tight", facecolor="white")
    return buffer.getvalue()


def to_svg(figure: Figure, name: str, description: str) -> str:
    """Returns a figure as an `<svg>` element for a page.

    Args:
        name: makes the element's ids unique on its page; letters, digits and dashes.
        description: what a screen reader says.
    """
    buffer = io.StringIO()
    with _style():
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg).replace("url(#", f"url(#{name}-")
    svg = svg.replace(_INK, "currentColor")
    width = re.search(r'viewBox="[\d.]+ [\d.]+ ([\d.]+)', svg)
    if width is None:
        raise ValueError("expected matplotlib's SVG to have a viewBox")
    label = html.escape(description, quote=True)
    head = f'<svg role="img" aria-label="{label}" style="max-width:{float(width[1]) * 4 / 3:.0f}px"'
    svg = re.sub(r'(<svg[^>]*?) width="[\d.]+pt"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[\d.]+pt"', r"\1", svg, count=1)
    return svg.replace("<svg", head, 1).strip()


def _line_style(place: int) -> dict[str, Any]:
    return {
        "color": PALETTE[place % len(PALETTE)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "linestyle": _DASHES[(place // len(PALETTE)) % len(_DASHES)],
    }


def _reference_style() -> dict[str, Any]:
    return {"color": _INK, "marker": "", "linestyle": (0, (2, 2))}


def _label_axis(axes: Axes, drawn: Curve) -> None:
    axes.set_xlabel(drawn.x_label)
    if drawn.log_x:
        axes.set_xscale("log")
        ticks = _apart(sorted({x for line in drawn.lines for x in line.x}))
        axes.set_xticks(ticks, [f"{x:,.0f}" for x in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif drawn.x_ticks:
        axes.set_xticks(list(drawn.x_ticks), list(drawn.x_ticks.values()))
    axes.yaxis.set_major_locator(MaxNLocator(6))


def _apart(values: Sequence[float], ratio: float = 1.45) -> list[float]:
    """Returns the values, without those whose labels would touch the one before on a log axis."""
    kept: list[float] = []
    for value in values:
        if not kept or value >= ratio * kept[-1]:
            kept.append(value)
    return kept


def _grid(axes: Axes, which: Any) -> None:
    axes.grid(visible=True, axis=which, color=_INK, alpha=0.13, linewidth=0.8)
    axes.set_axisbelow(True)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=2.4)
