"""Maps of what models learned, and matrices: heat maps of confusion matrices, points in the plane, label
distributions."""

from collections.abc import Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from crowdsweep.views.figures.drawing import INK, MARKERS, PALETTE, WIDTH, legend, new_figure, style
from crowdsweep.views.figures.hover import HoverFigure

_HEAT = LinearSegmentedColormap.from_list("heat", ["#e8f1f8", "#0072B2", "#00314f"])
_WRONG = LinearSegmentedColormap.from_list("wrong", ["#56B4E9", "#8a8a8a", "#B34700"])


def heat_map(matrix: Sequence[Sequence[float]], class_names: Sequence[str] = ()) -> Figure:
    """Draws a confusion matrix [true][observed], with numbers in the cells if there are at most 12 classes."""
    cells = np.asarray(matrix, dtype=np.float64)
    n_classes = len(cells)
    names = [_cut(_class_name(class_names, code), 24) for code in range(n_classes)]
    side = min(5.4, 1.4 + 0.42 * n_classes)
    with new_figure(side + 0.6, side) as (figure, axes):
        image = axes.imshow(cells, cmap=_HEAT, vmin=0.0, vmax=1.0)
        if n_classes <= 12:
            for true, observed in np.ndindex(*cells.shape):
                value = float(cells[true, observed])
                ink = "#ffffff" if value > 0.4 else "#10202b"
                text = f"{value:.2f}" if value < 0.995 else "1"
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
    """Draws annotators as points in the plane [annotators, 2], coloured from blue to orange by their share of wrong
    answers. The colours are visible on light and dark paper, and darken steadily for print in grey."""
    with new_figure(WIDTH, 3.4) as (figure, axes):
        drawn = axes.scatter(
            points[:, 0], points[:, 1], c=errors, cmap=_WRONG, vmin=0.0, vmax=1.0, s=22, edgecolors=INK, linewidths=0.3
        )
        axes.set_xticks([])
        axes.set_yticks([])
        bar = figure.colorbar(drawn, ax=axes, fraction=0.046, pad=0.04, label="share of wrong answers")
        bar.outline.set_visible(False)
    return figure


def item_map(points: np.ndarray, classes: np.ndarray, class_names: Sequence[str] = ()) -> Figure:
    """Draws items as points in the plane [items, 2], each class with its colour and marker, the most frequent class
    first."""
    codes, sizes = np.unique(classes, return_counts=True)
    with new_figure(WIDTH, 3.4) as (figure, axes):
        for place, code in enumerate(codes[np.argsort(-sizes, kind="stable")].tolist()):
            mine = points[classes == code]
            axes.plot(
                mine[:, 0],
                mine[:, 1],
                linestyle="none",
                color=PALETTE[place % len(PALETTE)],
                marker=MARKERS[place % len(MARKERS)],
                markersize=4.5,
                markeredgewidth=0,
                alpha=0.8,
                label=f"{_class_name(class_names, code)} ({len(mine)})",
            )
        axes.set_axis_off()
        legend(axes)
    return figure


def cluster_labels(
    labels: np.ndarray, item_sizes: np.ndarray, annotator_sizes: np.ndarray, class_names: Sequence[str] = ()
) -> Figure:
    """Draws the label distributions of clusters [clusters, annotator_clusters, classes].

    There is a panel for each class, with clusters of items down and clusters of annotators across, each labelled with
    its size. The same cell in all panels shows how an annotator of one cluster labels an item of another. With one
    cluster of annotators, there is one panel, with classes across.
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
    with style():
        size = (1.7 + beside * (width + 0.25), below + stacked * (height + 0.35))
        figure = HoverFigure(figsize=size, layout="constrained")
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
