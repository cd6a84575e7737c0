"""Figures: the numbers in them, and that they fit where they are put."""

import io
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.text import Annotation

from crowdsweep.analysis.maps import annotator_points
from crowdsweep.analysis.ranks import CriticalDifference
from crowdsweep.analysis.searches import SearchedPoints
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.studies.contract import Curve, CurveLine
from crowdsweep.views.figures.bars import Bar, mean_ranks, means_with_intervals
from crowdsweep.views.figures.curves import curve, training_curves
from crowdsweep.views.figures.drawing import spread_out, style, to_file, to_png, to_svg
from crowdsweep.views.figures.maps import annotator_map, cluster_labels, heat_map, item_map
from crowdsweep.views.figures.searches import importances, parallel_coordinates, search_curve, slices


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


def test_a_curve_on_a_log_axis_has_every_line_named_at_its_end_and_every_interval() -> None:
    drawn = Curve(
        title="t", x_label="annotators", y_label="accuracy", lines=[_line("a"), _line("ideal", True)], log_x=True
    )
    axes = curve(drawn).axes[0]
    assert axes.get_xscale() == "log"
    drawn_lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert [line.get_label() for line in drawn_lines] == ["a", "ideal"]
    intervals = [list(line.get_ydata()) for line in axes.lines if line not in drawn_lines]
    assert intervals == [[0.8, 0.95], [0.6, 0.8]] * 2  # none where there is no interval
    assert [text.get_text() for text in axes.get_xticklabels()] == ["100", "1,000", "10,000"]
    samples = {round(float(sample.get_ydata()[0]), 6): sample for sample in axes.figure.artists}
    beside = {text.get_text(): samples[round(text.get_position()[1], 6)] for text in axes.texts}
    assert {name: sample.get_color() for name, sample in beside.items()} == {
        line.get_label(): line.get_color() for line in drawn_lines
    }
    assert len({sample.get_color() for sample in beside.values()}) == 2
    assert all(min(sample.get_xdata()) > 1.0 for sample in beside.values())  # beside the axes, nowhere in them
    assert not [child for child in axes.get_children() if isinstance(child, Annotation)]  # nothing leads to a name
    assert axes.get_legend() is None


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
        "import sys; from crowdsweep.views.figures.drawing import to_svg; "
        "from crowdsweep.views.figures.maps import heat_map; to_svg(heat_map([[1, 0], [0, 1]]), 'a', 'b');"
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_map_of_annotators_keeps_neighbours_near_and_leaves_out_who_said_nothing() -> None:
    rng = np.random.default_rng(0)
    group = np.arange(40) % 2
    vectors = (rng.normal(0, 0.1, (40, 8)) + 5.0 * group[:, None]).astype(np.float32)
    errors = np.where(np.arange(40) < 4, np.nan, 0.1 + 0.5 * group)
    drawn = annotator_points(vectors, errors)
    assert drawn is not None
    points, shares = drawn
    assert points.shape == (36, 2)
    np.testing.assert_array_equal(shares, errors[4:])
    again = annotator_points(vectors, errors)
    assert again is not None
    np.testing.assert_array_equal(points, again[0])
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(36)
    assert (group[4:][distance.argmin(axis=1)] == group[4:]).mean() > 0.9
    assert annotator_points(vectors[:6], errors[:6]) is None
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


def test_a_model_far_off_leaves_the_scale_to_the_others_and_is_named() -> None:
    bars = [_bar(name, mean) for name, mean in (("a", 0.90), ("b", 0.88), ("c", 0.87), ("stray", 0.10))]
    axes = means_with_intervals(bars, "test_accuracy").axes[0]
    low, high = axes.get_xlim()
    assert 80 < low < 86
    assert 91 < high < 95
    assert axes.get_xlabel() == "test accuracy, %\noff the scale: stray"
    near = means_with_intervals(bars[:3], "test_accuracy").axes[0]
    assert near.get_xlabel() == "test accuracy, %"


def test_a_line_far_off_leaves_the_scale_to_the_others_and_is_named() -> None:
    def flat(label: str, y: float) -> CurveLine:
        return CurveLine(label=label, x=[1.0, 2.0], y=[y, y], low=[None] * 2, high=[None] * 2)

    lines = [flat("a", 0.90), flat("b", 0.88), flat("c", 0.89), flat("stray", 0.10)]
    axes = curve(Curve(title="t", x_label="labels", y_label="accuracy", lines=lines)).axes[0]
    assert axes.get_ylim()[0] > 0.8
    assert axes.get_xlabel() == "labels\noff the scale: stray"
    assert [text.get_text() for text in axes.texts] == ["b", "c", "a"]


@pytest.mark.parametrize("log", [False, True])
def test_texts_of_ticks_do_not_touch(log: bool) -> None:
    at = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0]
    line = CurveLine(label="a", x=at, y=[0.5] * 8, low=[None] * 8, high=[None] * 8)
    texts = {**{x: f"{x:.0f}" for x in at}, 15.0: "all (about 15.0)"}
    drawn = curve(Curve(title="t", x_label="labels", y_label="accuracy", lines=[line], x_ticks=texts, log_x=log))
    drawn.canvas.draw()
    ticks = drawn.axes[0].get_xticklabels()
    assert {"1", "7", "all (about 15.0)"} <= {tick.get_text() for tick in ticks}
    for before, after in pairwise(ticks):
        assert before.get_window_extent().x1 < after.get_window_extent().x0


def test_intervals_of_several_lines_stand_beside_each_other() -> None:
    drawn = Curve(title="t", x_label="x", y_label="y", lines=[_line(name) for name in "abc"])
    axes = curve(drawn).axes[0]
    firsts = [float(np.asarray(line.get_xdata())[0]) for line in axes.lines if line.get_label() in ("a", "b", "c")]
    assert firsts == sorted(set(firsts))
    assert max(abs(x - 100.0) for x in firsts) < 0.15 * 900


def test_names_that_would_touch_are_moved_apart_no_farther_than_needed() -> None:
    assert spread_out([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread_out([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    assert spread_out([0.1, 0.48, 0.52, 0.9], 0.1) == pytest.approx([0.1, 0.45, 0.55, 0.9])
    assert spread_out([], 0.1) == []


def test_ticks_stand_at_round_numbers() -> None:
    axes = means_with_intervals([_bar("a", 0.7231), _bar("b", 0.6087)], "test_accuracy").axes[0]
    steps = set(np.diff(axes.get_xticks()).round(9).tolist())
    assert len(steps) == 1
    assert steps.pop() in (1.0, 2.0, 5.0, 10.0)


def test_ranks_are_drawn_with_their_mean() -> None:
    axes = mean_ranks({"a": [1.0, 2.0], "b": [2.0, 1.5]}).axes[0]
    assert [text.get_text() for text in axes.texts] == ["1.8", "1.5"]  # from below
    assert [text.get_text() for text in axes.get_yticklabels()] == ["b", "a"]


SEARCHED = SearchedPoints(
    numbers=[0, 1, 3],
    values=[0.5, 0.7, 0.6],
    params={
        "groups": {0: 1, 1: 3, 2: 2},
        "patience": {0: None, 1: 2, 2: 2},
        "rate": {0: 0.001, 1: 0.1, 2: 0.01},
        "only": {1: "x"},
    },
    log=frozenset({"rate"}),
)


def test_a_slice_has_the_points_that_have_the_setting() -> None:
    panels = slices(SEARCHED, "dev_accuracy").axes
    drawn = {axes.get_xlabel(): np.asarray(axes.collections[0].get_offsets()).tolist() for axes in panels}
    assert drawn["groups"] == [[1, 50], [3, 70], [2, 60]]
    assert drawn["only"] == [[0, 70]]
    assert drawn["patience"] == [[1, 50], [0, 70], [0, 60]]
    assert drawn["rate"] == [[-3, 50], [-1, 70], [-2, 60]]
    patience = next(axes for axes in panels if axes.get_xlabel() == "patience")
    assert [text.get_text() for text in patience.get_xticklabels()] == ["2", "null"]


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_parallel_coordinates_draw_the_best_last(goal: str) -> None:
    axes = parallel_coordinates(SEARCHED, goal, "dev_accuracy").axes[0]
    lines = [np.asarray(line.get_ydata(), dtype=float).tolist() for line in axes.lines if len(line.get_ydata()) == 5]
    best = {"maximize": [1.0, 0.0, 1.0, 0.5, 1.0], "minimize": [0.0, 1.0, 0.0, float("nan"), 0.0]}[goal]
    np.testing.assert_allclose(lines[-1], best)
    assert [text.get_text() for text in axes.get_xticklabels()] == [*SEARCHED.params, "dev accuracy, %"]


def test_training_curves_have_a_line_for_every_fit_and_one_name_a_model() -> None:
    fits = {"a": [[(1, 0.5), (2, 0.6)], [(1, 0.4), (2, 0.7)]], "b": [[(1, 0.2), (3, 0.3)]]}
    axes = training_curves(fits, "dev_accuracy").axes[0]
    assert [np.asarray(line.get_ydata()).round(6).tolist() for line in axes.lines] == [[50, 60], [40, 70], [20, 30]]
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b"]


@pytest.mark.filterwarnings("error")
def test_names_in_scripts_that_no_font_here_has_are_written_as_texts() -> None:
    names = ["très bien", "\U00013000 unknown", "maybe"]  # a hieroglyph
    matrix = heat_map([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], names)
    svg = ET.fromstring(to_svg(matrix, "m", "a matrix"))
    texts = [text for text in svg.iter() if text.tag.endswith("text")]
    assert [text.text for text in texts] == [names[1]] * 2  # below and beside; the others are outlines
    assert all("sans-serif" in text.attrib["style"] for text in texts)
    map_of_items = item_map(np.eye(2), np.asarray([0, 1]), names)
    assert names[1] in to_svg(map_of_items, "i", "a map")
    assert _png_width(to_png(map_of_items)) > 100


def test_importances_are_drawn_largest_on_top() -> None:
    axes = importances({"a": 0.2, "b": 0.7, "c": 0.1}).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["c", "a", "b"]
    assert [text.get_text() for text in axes.texts] == ["10 %", "20 %", "70 %"]


def test_a_matrix_carries_the_names_of_its_classes() -> None:
    axes = heat_map([[0.9, 0.1], [0.2, 0.8]], ["yes", "a name of a class that is longer than that"]).axes[0]
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[0] == "yes"
    assert names[1].startswith("a name of a class")
    assert names[1].endswith("…")


def _shapes(svg: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """The box of a picture, and the coordinates of each of its paths."""
    root = ET.fromstring(svg)
    paths = [path.get("d", "") for path in root.iter("{http://www.w3.org/2000/svg}path")]
    return np.array(root.get("viewBox", "").split(), dtype=float), [
        np.array(re.findall(r"-?[\d.]+", path), dtype=float) for path in paths
    ]


DRAWN = {
    "ranks": lambda: mean_ranks(
        {name: [float(place), place + 1.0] for place, name in enumerate("abcd")},
        CriticalDifference(difference=1.5, joined=[(0, 2), (1, 3)]),
    ),
    "means": lambda: means_with_intervals([_bar("a", 0.9, text="90 ± 2"), _bar("b", 0.8)], "test_accuracy"),
    "curve": lambda: curve(Curve(title="t", x_label="x", y_label="y", lines=[_line("a"), _line("b")], log_x=True)),
    "search": lambda: search_curve({0: 0.5, 1: 0.4, 2: None, 3: 0.7}, "maximize", "dev_kl"),
    "slices": lambda: slices(SEARCHED, "dev_accuracy"),
    "points": lambda: parallel_coordinates(SEARCHED, "maximize", "dev_accuracy"),
    "training": lambda: training_curves({"a": [[(1, 0.5), (2, 0.6)]], "b": [[(1, 0.2), (2, 0.3)]]}, "dev_accuracy"),
    "importances": lambda: importances({"a": 0.2, "b": 0.7, "c": 0.1}),
    "matrix": lambda: heat_map([[0.9, 0.1], [0.2, 0.8]], ["yes", "no"]),
    "items": lambda: item_map(np.arange(24.0).reshape(12, 2), np.arange(12) % 3, ["zero", "one"]),
    "clusters": lambda: cluster_labels(
        np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 4)), np.array([7.0, 2.5, 1.0]), np.arange(4.0) + 1
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_once_it_is_what_matplotlib_saves(name: str) -> None:
    """Each line, letter and mark stands where `savefig` puts it, which draws every figure twice to cut its margins;
    also beside the figure's canvas, where matplotlib's renderer leaves lines out."""
    buffer, figure = io.BytesIO(), DRAWN[name]()
    with style():
        figure.savefig(buffer, format="svg", bbox_inches="tight")
    (box, expected), (own_box, found) = (
        _shapes(buffer.getvalue().decode()),
        _shapes(to_file(DRAWN[name](), "svg").decode()),
    )
    np.testing.assert_allclose(own_box[2:], box[2:], atol=0.02)
    corner = own_box[:2]
    for before, now in list(zip(expected, found, strict=True))[1:]:  # the first is the canvas
        assert len(before) == len(now)
        moved = now.reshape(-1, 2) - before.reshape(-1, 2) if len(now) % 2 == 0 else np.zeros((1, 2))
        assert np.abs(moved).max(initial=0.0) < 0.02 or np.abs(moved - corner).max() < 0.02
