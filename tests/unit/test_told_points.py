"""What figures tell of their points: the right words at the right places, and text whatever is in them."""

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.studies.contract import Curve, CurveLine
from crowdsweep.views.figures.bars import Bar, means_with_intervals
from crowdsweep.views.figures.curves import curve, training_curves
from crowdsweep.views.figures.drawing import to_svg
from crowdsweep.views.figures.maps import heat_map
from crowdsweep.views.figures.searches import search_curve

SVG = "{http://www.w3.org/2000/svg}"


def told(svg: str) -> list[dict[str, Any]]:
    return json.loads(ET.fromstring(svg).get("data-told", "[]"))


def markers(svg: str) -> list[tuple[float, float]]:
    """Where matplotlib has drawn markers within axes: the oracle."""
    root = ET.fromstring(svg)
    uses = [use for group in root.iter(f"{SVG}g") if "clip-path" in group.attrib for use in group.iter(f"{SVG}use")]
    return [(float(use.attrib["x"]), float(use.attrib["y"])) for use in uses]


def test_points_are_told_where_they_are_drawn() -> None:
    values = {0: 0.5, 1: 0.62, 2: None, 3: 0.7, 4: 0.66}
    points = {number: {"groups": number + 1, "smoothing": 0.1} for number in values}
    svg = to_svg(search_curve(values, "maximize", "dev_accuracy", points), "f1", "d")
    (plot,) = told(svg)
    places = [(x, y) for x, y, _ in plot["points"]]
    np.testing.assert_allclose(places, markers(svg), atol=0.06)
    assert [words for *_, words in plot["points"]] == [
        f"point {number}\ndev accuracy {100 * value:.1f} %\ngroups {number + 1}, smoothing 0.1"
        for number, value in values.items()
        if value is not None
    ]


def test_a_value_far_off_is_told_at_the_edge() -> None:
    values: dict[int, float | None] = {number: -0.5 - 0.01 * number for number in range(20)}
    (plot,) = told(to_svg(search_curve({**values, 20: -900.0}, "maximize", "heldout_loglik"), "f1", "d"))
    (_, _), (bottom, top) = plot["frame"]
    *near, far = plot["points"]
    assert far[1] == bottom
    assert "-900.000" in far[2]
    assert all(top <= y < bottom for _, y, _ in near)


def test_ranges_are_those_of_the_frame() -> None:
    """What a page draws its own ticks by, of a part that is drawn out."""
    fits = [[(step, 0.5 + step / 1000) for step in range(1, 101, 10)]]
    figure = training_curves({"cmm": fits}, "dev_accuracy")
    (plot,) = told(to_svg(figure, "f1", "d"))
    assert plot["ranges"] == [list(figure.axes[0].get_xlim()), list(figure.axes[0].get_ylim())]
    (left, right), (bottom, top) = plot["frame"]
    (x0, x1), (y0, y1) = plot["ranges"]
    for (x, y, words), (step, score) in zip(plot["points"], fits[0], strict=True):
        assert x == pytest.approx(left + (step - x0) / (x1 - x0) * (right - left), abs=0.1)
        assert y == pytest.approx(bottom + (100 * score - y0) / (y1 - y0) * (top - bottom), abs=0.1)
        assert words == f"cmm\nstep {step}\ndev accuracy {100 * score:.1f} %"


def test_named_ticks_are_told_with_their_places() -> None:
    line = CurveLine(
        label="a", x=[100.0, 1000.0, 10000.0], y=[0.9, 0.8, 0.7], low=[0.8, None, 0.6], high=[0.95, None, 0.8]
    )
    drawn = Curve(title="t", x_label="annotators", y_label="accuracy", lines=[line], log_x=True, percent=True)
    svg = to_svg(curve(drawn), "f1", "d")
    (plot,) = told(svg)
    assert [text for _, text in plot["names"]] == ["100", "1,000", "10,000"]
    np.testing.assert_allclose([x for x, _ in plot["names"]], [x for x, _ in markers(svg)], atol=0.06)
    assert plot["points"][0][2] == "a\nannotators: 100\naccuracy: 90 [80, 95]"
    assert plot["points"][1][2] == "a\nannotators: 1,000\naccuracy: 80"


def test_words_of_strangers_stay_text() -> None:
    name = '"><script>alert(1)</script>'
    estimate = Estimate(n=3, mean=0.8, sd=0.01, low=0.7, high=0.9)
    svg = to_svg(means_with_intervals([Bar(label=name, estimate=estimate)], "test_accuracy"), "f1", "d")
    assert "<script" not in svg
    assert told(svg)[0]["points"][0][2] == f"{name}\ntest accuracy 80.0 % ± 10.0"


def test_of_very_many_points_some_are_told() -> None:
    fits = [[(step, 0.5) for step in range(1, 101)] for _ in range(60)]
    (plot,) = told(to_svg(training_curves({"a": fits}, "dev_accuracy"), "f1", "d"))
    assert 1_500 < len(plot["points"]) <= 2_000


def test_a_matrix_tells_nothing_and_a_notebook_sees_a_picture() -> None:
    figure = heat_map([[0.9, 0.1], [0.2, 0.8]])
    assert not re.search("data-told", to_svg(figure, "f1", "d"))
    assert figure._repr_png_().startswith(b"\x89PNG")  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
