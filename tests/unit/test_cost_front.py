"""Which models no other beats for the same seconds or less."""

import pytest
from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.cost_front import CostPoint, cost_front
from crowdsweep.analysis.sweep import comparison_of
from crowdsweep.views.figures.costs import score_against_seconds
from crowdsweep.views.figures.drawing import to_svg


def points(metric: str, *models: tuple[str, float, float]) -> list[CostPoint]:
    """Returns the points of models by name, score and seconds."""
    events = [
        event
        for name, score, seconds in models
        for event in made_up_trials(name, "d", [{metric: score}, {metric: score + 0.01}], wall_s=seconds)
    ]
    (block,) = comparison_of(folded(made_up_sweep(events, models=[]))).datasets
    return list(cost_front(block))


def test_the_front_is_what_nothing_cheaper_reaches() -> None:
    found = points("test_accuracy", ("slow", 0.9, 30.0), ("dear", 0.8, 40.0), ("quick", 0.7, 1.0), ("weak", 0.6, 2.0))
    assert [(point.model, point.on_front) for point in found] == [
        ("quick", True),
        ("weak", False),
        ("slow", True),
        ("dear", False),
    ]


def test_less_is_better_where_the_metric_says_so() -> None:
    found = points("test_kl", ("a", 0.5, 1.0), ("b", 0.4, 2.0), ("c", 0.6, 3.0))
    assert [point.model for point in found if point.on_front] == ["a", "b"]


def test_who_is_as_good_for_more_seconds_is_not_on_it() -> None:
    found = points("test_accuracy", ("a", 0.8, 1.0), ("b", 0.8, 2.0), ("c", 0.9, 3.0))
    assert [point.model for point in found if point.on_front] == ["a", "c"]


def test_of_two_models_there_is_nothing_to_draw() -> None:
    assert points("test_accuracy", ("a", 0.8, 1.0), ("b", 0.8, 2.0)) == []


@pytest.mark.parametrize("n_models", [3, 30])
def test_the_figure_marks_the_front(n_models: int) -> None:
    found = points("test_accuracy", *((f"m{n}", 0.5 + 0.01 * (n % 7), 0.01 * 2.0**n) for n in range(n_models)))
    figure = score_against_seconds(found, "test_accuracy")
    (axes,) = figure.axes
    named = [text.get_text() for text in axes.texts]
    front = [point.model for point in found if point.on_front]
    assert named == (front if n_models == 30 else [point.model for point in found])
    assert to_svg(figure, "f", "costs").startswith("<svg")
