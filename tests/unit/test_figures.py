"""Figures: the numbers in them, and that they fit where they are put."""

import subprocess
import sys
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.report.annotator_maps import laid_out
from crowdsweep.report.figures import (
    Bar,
    annotator_map,
    cluster_labels,
    curve,
    heat_map,
    item_map,
    means_with_intervals,
    search_curve,
    to_png,
    to_svg,
)
from crowdsweep.studies.contract import Curve, CurveLine


def _bar(label: str, mean: float, **settings: object) -> Bar:
    estimate = Estimate(n=3, mean=mean, sd=0.01, low=mean - 0.02, high=mean + 0.02)
    return Bar(label=label, estimate=estimate, **settings)  # pyright: ignore[reportArgumentType]


def _line(label: str, reference: bool = False) -> CurveLine:
    return CurveLine(
        label=label,
        x=[100.0, 1000.0, 10000.0],
        y=[0.9, 0.8, 0.7],
        low=[0.8, None, 0.6],
        high=[0.95, None, 0.8],
        reference=reference,
    )


def _png_width(data: bytes) -> int:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(data[16:20], "big")


@pytest.mark.parametrize(("goal", "best"), [("maximize", [0.5, 0.5, 0.7, 0.7]), ("minimize", [0.5, 0.4, 0.4, 0.3])])
def test_best_so_far_skips_failed_points(goal: str, best: list[float]) -> None:
    figure = search_curve({0: 0.5, 1: 0.4, 2: None, 3: 0.7, 4: 0.3}, goal, "dev_kl")
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["best so far"].get_ydata()) == best
    assert list(lines["best so far"].get_xdata()) == [0, 1, 3, 4]
    assert list(lines["failed"].get_xdata()) == [2]


def test_means_stand_top_down_in_percent_with_their_intervals() -> None:
    axes = means_with_intervals([_bar("first", 0.9), _bar("second", 0.8, printed=0.85)], "test_accuracy").axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["second", "first"]
    drawn = [np.asarray(line.get_xdata(), dtype=float).round(6).tolist() for line in axes.lines]
    assert drawn == [[78.0, 82.0], [80.0], [85.0], [88.0, 92.0], [90.0]]
    assert axes.get_xlabel() == "test accuracy, %"


def test_a_curve_on_a_log_axis_has_every_line_and_band() -> None:
    drawn = Curve(
        title="t", x_label="annotators", y_label="accuracy", lines=[_line("a"), _line("ideal", True)], log_x=True
    )
    axes = curve(drawn).axes[0]
    assert axes.get_xscale() == "log"
    assert [line.get_label() for line in axes.lines] == ["a", "ideal"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["100", "1,000", "10,000"]
    assert axes.lines[0].get_color() != axes.lines[1].get_color()
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["a", "ideal"]


def test_a_long_label_widens_the_picture_instead_of_being_cut() -> None:
    short, long = (to_png(means_with_intervals([_bar(label, 0.9)], "test_kl")) for label in ("a", "a" * 60))
    assert _png_width(long) > _png_width(short) + 300


def test_svg_is_whole_takes_the_pages_ink_and_has_ids_of_its_own() -> None:
    svg = to_svg(heat_map([[0.9, 0.1], [0.2, 0.8]], ["yes", "no"]), "f7", 'x "y" <z>')
    root = ET.fromstring(svg)
    assert root.get("aria-label") == 'x "y" <z>'
    assert root.get("width") is None  # the page decides
    assert "currentColor" in svg
    assert "<text" not in svg  # outlines: no font of the reader's can overflow
    ids = [element.get("id", "f7-") for element in root.iter()]
    assert all(name.startswith("f7-") for name in ids)
    inner = {f"#{name}" for name in ids}
    used = [value for element in root.iter() for key, value in element.attrib.items() if key.endswith("href")]
    assert used
    assert all(value in inner or value.startswith("data:image/png;") for value in used)


def test_the_same_figure_is_the_same_text() -> None:
    first, second = (to_svg(means_with_intervals([_bar("a", 0.9)], "test_kl"), "f1", "d") for _ in range(2))
    assert first == second


def test_large_matrices_and_nothing_to_draw_are_drawn() -> None:
    assert to_png(heat_map(np.eye(40).tolist()))
    assert to_png(search_curve({}, "maximize", "dev_accuracy"))
    assert to_png(curve(Curve(title="t", x_label="x", y_label="y", lines=[])))


def test_drawing_leaves_no_trace() -> None:
    before = dict(mpl.rcParams)
    to_png(means_with_intervals([_bar("a", 0.9)], "test_kl"))
    assert dict(mpl.rcParams) == before


def test_pyplot_is_never_imported() -> None:
    code = (
        "import sys; from crowdsweep.report.figures import *; to_svg(heat_map([[1, 0], [0, 1]]), 'a', 'b');"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_map_of_annotators_keeps_neighbours_near_and_leaves_out_who_said_nothing() -> None:
    rng = np.random.default_rng(0)
    group = np.arange(40) % 2
    vectors = (rng.normal(0, 0.1, (40, 8)) + 5.0 * group[:, None]).astype(np.float32)
    errors = np.where(np.arange(40) < 4, np.nan, 0.1 + 0.5 * group)
    drawn = laid_out(vectors, errors)
    assert drawn is not None
    points, shares = drawn
    assert points.shape == (36, 2)
    np.testing.assert_array_equal(shares, errors[4:])
    again = laid_out(vectors, errors)
    assert again is not None
    np.testing.assert_array_equal(points, again[0])
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(36)
    assert (group[4:][distance.argmin(axis=1)] == group[4:]).mean() > 0.9
    assert laid_out(vectors[:6], errors[:6]) is None
    assert to_png(annotator_map(points, shares)).startswith(b"\x89PNG")


def test_clusters_have_a_panel_for_each_class_labelled_with_sizes() -> None:
    labels = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 4))
    names = ["a class with a name that no panel holds", "b", "c", "d", "e"]
    figure = cluster_labels(labels, np.array([70.0, 20.5, 1.0]), np.array([9.0, 8.0, 7.0, 6.0]), names)
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in panels][1:] == names[1:]
    assert panels[0].get_title().startswith("a class")
    assert panels[0].get_title().endswith("…")
    for code, axes in enumerate(panels):
        np.testing.assert_array_equal(axes.images[0].get_array(), labels[:, :, code])
    assert [text.get_text() for text in panels[0].get_yticklabels()] == ["70", "20", "1"]
    assert [text.get_text() for text in panels[-1].get_xticklabels()] == ["9", "8", "7", "6"]
    assert to_png(figure)


def test_clusters_of_items_alone_have_one_panel_with_the_classes_across() -> None:
    labels = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 1))
    figure = cluster_labels(labels, np.array([5.0, 2.0]), np.empty(0))
    (panel,) = [axes for axes in figure.axes if axes.images]
    np.testing.assert_array_equal(panel.images[0].get_array(), labels[:, 0])
    assert [text.get_text() for text in panel.get_xticklabels()] == ["class 0", "class 1", "class 2"]


def test_items_have_the_colour_and_marker_of_their_class() -> None:
    classes = np.array([1, 1, 1, 4, 4, 0, *[7, 8, 9, 10, 11, 12]])
    figure = item_map(np.arange(24.0).reshape(12, 2), classes, ["zero", "one"])
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines][:3] == ["one (3)", "class 4 (2)", "zero (1)"]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == len(set(classes.tolist()))
