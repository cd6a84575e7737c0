"""Where values stand on the axes of figures, what is written there, and that no paper swallows a shade."""

import re
from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.figure import Figure

from crowdsweep.analysis.searches import SearchedPoints
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.studies.axis import log_spaced
from crowdsweep.studies.contract import Curve, CurveLine
from crowdsweep.views.figures.bars import Bar, means_with_intervals
from crowdsweep.views.figures.curves import curve
from crowdsweep.views.figures.drawing import ACCENT, margin_of, to_svg
from crowdsweep.views.figures.scales import log_ticks, number_text, placed
from crowdsweep.views.figures.searches import parallel_coordinates, search_curve, slices

SEARCHED = SearchedPoints(
    numbers=[0, 1, 2, 3],
    values=[0.5, 0.6, 0.7, 0.8],
    params={
        "rate": dict(enumerate([1e-5, 1e-3, 1e-1, 1e-4])),
        "batch": dict(enumerate([256, 32, 64, 32])),
        "width": dict(enumerate([0.5, 1.0, 2.0, 4.0])),
    },
    log=frozenset({"rate"}),
    choices={"batch": [32, 64, 128, 256]},
)


def test_values_of_a_log_range_stand_by_their_powers() -> None:
    rate = placed([1e-5, 1e-3, 1e-1], log=True)
    np.testing.assert_allclose(rate.places, [-5, -3, -1])
    assert [text for _, text in rate.ticks] == ["10⁻⁵", "0.001", "0.1"]
    assert rate.ends == ("10⁻⁵", "0.1")


def test_listed_numbers_stand_at_equal_distances_by_size() -> None:
    """Lists of numbers are mostly 0.01, 0.1, 1: by size they would be one blot and a dot."""
    smoothing = placed([1, 0.01, 0, 0.1], choices=[1, 0, 0.01, 0.1])
    assert smoothing.places == [3, 1, 0, 2]
    assert [text for _, text in smoothing.ticks] == ["0", "0.01", "0.1", "1"]
    assert placed([256, 32], choices=[32, 64, 128, 256]).places == [3, 0]  # those between have their places


def test_listed_things_stand_as_they_were_listed() -> None:
    hidden = placed([[64], [16], [128, 64]], choices=[[16], [64], [128, 64]])
    assert hidden.places == [1, 0, 2]
    assert hidden.ends == ("[16]", "[128, 64]")
    many = placed([0, 19], choices=list(range(20)))
    assert [place for place, _ in many.ticks] == [0, 3, 6, 9, 12, 15, 18]


def test_numbers_of_an_even_range_stand_by_size() -> None:
    share = placed([0.1, 0.5, 0.25])
    assert share.places == [0.1, 0.5, 0.25]
    assert not share.ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1e-7, 1e-2, ["10⁻⁷", "10⁻⁵", "0.001"]),
        (0.02, 3.0, ["0.1", "1"]),
        (0.9, 11.0, ["1", "10"]),
        (0.2, 0.9, ["0.2", "0.5"]),
        (0.3, 0.4, ["0.3", "0.4"]),
        (1, 1_000_000, ["1", "100", "10000", "10⁶"]),
    ],
)
def test_ticks_of_a_log_axis_are_round(low: float, high: float, ticks: list[str]) -> None:
    found = log_ticks(low, high)
    assert [text for _, text in found] == ticks
    assert all(np.log10(low) - 1e-9 <= place <= np.log10(high) + 1e-9 for place, _ in found)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.03, "0.03"), (123.0, "120"), (1e-5, "10⁻⁵"), (3.2e-7, "3.2·10⁻⁷"), (-0.5, "-0.5"), (2e6, "2·10⁶")],
)
def test_numbers_on_an_axis(value: float, text: str) -> None:
    assert number_text(value) == text


def test_searched_values_are_drawn_where_they_stand() -> None:
    panels = {axes.get_xlabel(): axes for axes in slices(SEARCHED, "dev_accuracy").axes}
    assert np.asarray(panels["rate"].collections[0].get_offsets())[:, 0].tolist() == [-5, -3, -1, -4]
    assert np.asarray(panels["batch"].collections[0].get_offsets())[:, 0].tolist() == [3, 0, 1, 0]
    assert [text.get_text() for text in panels["batch"].get_xticklabels()] == ["32", "64", "128", "256"]
    assert np.asarray(panels["width"].collections[0].get_offsets())[:, 0].tolist() == [0.5, 1, 2, 4]
    ends = [text.get_text() for text in parallel_coordinates(SEARCHED, "maximize", "dev_accuracy").axes[0].texts]
    assert ends[:4] == ["10⁻⁵", "0.1", "32", "256"]


def _sums_beside_axes(figure: Figure) -> list[str]:
    figure.draw_without_rendering()
    axes = [axis for one in figure.axes for axis in (one.xaxis, one.yaxis)]
    return [text for axis in axes if (text := axis.get_offset_text().get_text())]


def test_no_axis_is_labelled_by_a_sum_or_a_factor() -> None:
    """matplotlib writes `1e-5-8.7e-1` at the end of an axis whose values are nearly the same."""
    near = {0: -0.87, 1: -0.87001, 2: -0.869995}
    assert not _sums_beside_axes(search_curve(near, "maximize", "heldout_loglik"))
    assert not _sums_beside_axes(search_curve({0: 1e-5, 1: 2e-5}, "minimize", "dev_kl"))
    estimate = Estimate(n=2, mean=-0.87, sd=1e-6, low=-0.870001, high=-0.869999)
    assert not _sums_beside_axes(means_with_intervals([Bar(label="a", estimate=estimate)], "heldout_loglik"))


def test_values_that_differ_by_rounding_alone_are_drawn_as_the_same() -> None:
    figure = search_curve({0: -0.87, 1: -0.87 - 1e-12}, "maximize", "heldout_loglik")
    figure.draw_without_rendering()
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert len(set(labels)) == len(labels) > 1
    assert margin_of(0.0, 0.0, 0.1) > 0
    assert margin_of(0.5, 0.7, 0.1) == pytest.approx(0.02)


def test_shades_are_the_pages_accent_and_let_its_paper_through() -> None:
    """Shades from pale to dark have an end that a dark page swallows."""
    for figure in (slices(SEARCHED, "dev_accuracy"), parallel_coordinates(SEARCHED, "maximize", "dev_accuracy")):
        svg = to_svg(figure, "f", "a figure")
        assert f"var(--accent, {ACCENT})" in svg
        assert len(set(re.findall(r"(?:fill|stroke)-opacity: ([\d.]+)", svg))) > 1
        assert set(re.findall(r"(?:fill|stroke): (#\w+)", svg)) <= {"#ffffff"}


def _contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """Contrast ratio of two sRGB colours, as WCAG 2 defines it."""
    linear = [
        np.where((c := np.asarray(own)) <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for own in (one, other)
    ]
    dark, light = sorted(0.05 + float(np.dot((0.2126, 0.7152, 0.0722), own)) for own in linear)
    return light / dark


@pytest.mark.parametrize(("accent", "paper"), [("#0a6299", "#fbfbfa"), ("#6cb8ea", "#14171a")])
def test_the_line_of_the_worst_point_is_seen_on_either_paper(accent: str, paper: str) -> None:
    """WCAG 2 asks 3 : 1 of graphics; the colours are the page's."""
    page = files("crowdsweep.views.page").joinpath("page.css").read_text()
    assert f"--accent: {accent}" in page
    assert f"--paper: {paper}" in page
    lines = parallel_coordinates(SEARCHED, "maximize", "dev_accuracy").axes[0].lines[:4]
    opacities = [to_rgba(line.get_color())[3] for line in lines]
    assert opacities == sorted(opacities)  # the better, the stronger
    assert opacities[0] < opacities[-1] == 1
    for opacity in opacities:
        shown = opacity * np.asarray(to_rgb(accent)) + (1 - opacity) * np.asarray(to_rgb(paper))
        assert _contrast(shown.tolist(), to_rgb(paper)) >= 3


def test_the_axis_of_a_study_is_drawn_on_a_log_scale_where_its_values_crowd() -> None:
    assert log_spaced([1, 2, 5, 10, 20, 50])
    assert log_spaced([1, 10, 100])
    assert not log_spaced([1, 2, 3, 5, 7, 10])
    assert not log_spaced([1, 5, 10, 15, 20, 25, 30])
    assert not log_spaced([1, 100])
    assert not log_spaced([0, 1, 10, 100])
    line = CurveLine(label="a", x=[1.0, 10.0, 150.0], y=[0.5, 0.6, 0.7], low=[None] * 3, high=[None] * 3)
    ticks = {1.0: "1", 10.0: "10", 150.0: "all"}
    axes = curve(Curve(title="t", x_label="x", y_label="y", lines=[line], log_x=True, x_ticks=ticks)).axes[0]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "10", "all"]


def test_ticks_of_a_log_axis_do_not_touch() -> None:
    """100 to 10,000 annotators: of the crowded end the last is named."""
    sizes = [100.0, 500.0, 1500.0, 3500.0, 6000.0, 10000.0]
    ends: list[float | None] = [None] * len(sizes)
    line = CurveLine(label="a", x=sizes, y=[0.5] * len(sizes), low=ends, high=ends)
    figure = curve(Curve(title="t", x_label="x", y_label="y", lines=[line], log_x=True))
    figure.draw_without_rendering()
    labels = figure.axes[0].get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    assert [label.get_text() for label in (labels[0], labels[-1])] == ["100", "10,000"]
    assert len(labels) >= 4
    assert all(before.x1 + 2 < after.x0 for before, after in pairwise(boxes))
