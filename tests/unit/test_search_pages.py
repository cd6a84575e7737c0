"""What the report shows of searches and of training."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from journals import folded, made_up_search, made_up_sweep, made_up_trials

from crowdsweep.analysis.searches import FEWEST_FOR_IMPORTANCES, SearchShown, searches
from crowdsweep.analysis.sections.training import training_curves
from crowdsweep.analysis.sweep import comparison_of
from crowdsweep.record.events import Event, TrialFinished
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord
from crowdsweep.record.shown import shown_trials
from crowdsweep.views.report_files import write_report

MODELS: list[dict[str, Any]] = [
    {
        "name": "cmm",
        "label": "cmm",
        "params": {},
        "search": {
            "groups": {"min": 1, "max": 20},
            "smoothing": {"distribution": "log_uniform_values", "min": 0.01, "max": 1.0},
        },
    }
]
SEARCH = CellRecord(key="s", label="cmm", dataset="d", metric="dev_accuracy", goal="maximize", points=30)


def searched(n: int) -> list[Event]:
    points = [{"groups": 1 + place, "smoothing": 10.0 ** -(place % 3)} for place in range(n)]
    values = [None if place == 1 else 0.5 + 0.02 * place for place in range(n)]
    events = made_up_search("s", "cmm", "d", points, values, [n - 1])
    events += made_up_trials("cmm", "d", [{"test_accuracy": 0.8}] * 2, point=points[-1], search="s")
    return made_up_sweep(events, models=MODELS, searches=[SEARCH])


def shown(n: int) -> SearchShown:
    state = folded(searched(n))
    (only,) = searches(state, comparison_of(state))
    return only


def page(folder: Path, events: Sequence[Event]) -> str:
    journal = Journal(folder)
    journal.handle_many(events)
    journal.close()
    return write_report(folder).read_text()


def test_importances_are_judged_from_enough_points_that_have_a_value() -> None:
    assert shown(FEWEST_FOR_IMPORTANCES).importances == {}  # one of them failed
    found = shown(FEWEST_FOR_IMPORTANCES + 5)
    assert found.importances["groups"] > found.importances["smoothing"]
    assert found.ends == {"groups": (1, 20), "smoothing": (0.01, 1.0)}
    assert found.log == {"smoothing"}


def test_figures_take_the_points_that_have_a_value_most_important_first() -> None:
    points = shown(FEWEST_FOR_IMPORTANCES + 5).scored
    assert points.numbers == [0, *range(2, FEWEST_FOR_IMPORTANCES + 5)]
    assert list(points.params) == ["groups", "smoothing"]
    assert dict(points.params["groups"]) == {place: 1 + number for place, number in enumerate(points.numbers)}


def test_a_space_that_the_record_does_not_hold_leaves_importances_out() -> None:
    state = folded(searched(20))
    state = replace(state, config={**state.config, "models": [{"name": "cmm", "search": {"groups": {"odd": 1}}}]})
    (found,) = searches(state, comparison_of(state))
    assert (found.importances, found.ends) == ({}, {})


def test_the_page_has_every_figure_of_a_search_of_a_dozen_points(tmp_path: Path) -> None:
    html = page(tmp_path, searched(12))
    section = html[html.index('<section id="search">') : html.index('<section id="cost">')]
    for caption in ("in the order of the search", "functional ANOVA", "over each setting", "Each line is a point"):
        assert caption in section
    assert section.count("<svg") == 4


def test_scores_while_models_train_are_drawn_where_they_were_kept(tmp_path: Path) -> None:
    events = made_up_trials("cmm", "d", [{"test_accuracy": 0.8}] * 2)
    curve = ((1, 0.5), (2, 0.6))
    with_curves = [
        TrialFinished(result=replace(event.result, curve=curve, watched="dev_accuracy"))
        if isinstance(event, TrialFinished)
        else event
        for event in events
    ]
    found = training_curves(state := folded(made_up_sweep(with_curves, models=MODELS)), shown_trials(state))
    assert found == {("d", "{}"): {"dev_accuracy": {"cmm": [curve, curve]}}}
    assert "Scores while they train" in page(tmp_path / "with", made_up_sweep(with_curves, models=MODELS))
    assert "Scores while they train" not in page(tmp_path / "without", made_up_sweep(events, models=MODELS))
