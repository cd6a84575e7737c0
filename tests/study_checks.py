"""The contract of study templates as named checks: each takes a template and raises AssertionError where it breaks it.

for check in CHECKS:
    check(template)
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.trial_table import results_table
from crowdsweep.errors import UnknownName
from crowdsweep.record.events import Event
from crowdsweep.studies.contract import StudyReport, StudyResults, StudyTemplate, check_settings
from crowdsweep.sweepfile.read import config_to_mapping
from crowdsweep.sweepfile.records import DatasetEntry, ModelEntry, StudyEntry, SweepConfig

_MODELS = ("majority-vote", "dawid-skene")


def check_defaults(template: StudyTemplate) -> None:
    """Every knob accepts its own default, and says in a line what it is."""
    knobs = check_settings(template, {})
    _require(set(knobs) == set(template.knobs), "a knob has no value")
    _require(check_settings(template, knobs) == knobs, "a checked value is not accepted again")
    for name, knob in template.knobs.items():
        _require(knob.about.strip(), f"knob {name} has no description")
        _require("\n" not in knob.about, f"knob {name} is described in more than a line")


def check_unknown_knob(template: StudyTemplate) -> None:
    """A knob that does not exist is refused."""
    try:
        check_settings(template, {"no_such_knob": 1})
    except UnknownName as error:
        _require("no_such_knob" in str(error), "the message does not name the knob")
    else:
        raise AssertionError("an unknown knob was accepted")


def check_plans_pure(template: StudyTemplate) -> None:
    """Planning gives the same sweep each time, leaves its argument alone, and never plans a cell twice."""
    config = study_config(template)
    before = json.dumps(config_to_mapping(config), sort_keys=True)
    first, second = (template.plans(check_settings(template, {}), config) for _ in range(2))
    _require(json.dumps(config_to_mapping(first)) == json.dumps(config_to_mapping(second)), "two plans differ")
    _require(json.dumps(config_to_mapping(config), sort_keys=True) == before, "the sweep was changed in place")
    cells = [(entry.name, json.dumps(dict(entry.params), sort_keys=True)) for entry in first.datasets]
    _require(cells, "nothing is planned")
    _require(len(set(cells)) == len(cells), "a dataset is planned twice with the same parameters")
    _require(replace(first, datasets=config.datasets) == config, "a template plans datasets, and nothing else")


def check_empty(template: StudyTemplate) -> None:
    """A sweep of which nothing has finished gives a report, not an error."""
    _check_report(template, [])


def check_all_failed(template: StudyTemplate) -> None:
    """A sweep in which every trial failed gives a report, not an error."""
    _check_report(template, _events(template, _all_fail))


def check_whole(template: StudyTemplate) -> None:
    """A finished sweep gives findings and a table or curve, and every model is named in it."""
    report = _check_report(template, _events(template, _rising))
    _require(report.findings, "no finding")
    _require(report.curves or report.tables, "neither curve nor table")
    text = repr(report)
    for model in _MODELS:
        _require(model in text, f"{model} is not in the report")


def check_ragged(template: StudyTemplate) -> None:
    """Cells that are missing, have one seed, or failed at some seeds leave the rest readable."""
    events = _events(template, _seed_one_fails)
    _check_report(template, events[: len(events) // 2 + 1])
    _check_report(template, events[:2])


def check_order_free(template: StudyTemplate) -> None:
    """The order in which trials finish changes nothing."""
    events = _events(template, _rising)
    pairs = [events[start : start + 2] for start in range(0, len(events), 2)]
    backwards = [event for pair in reversed(pairs) for event in pair]
    _require(
        repr(_check_report(template, events)) == repr(_check_report(template, backwards)),
        "the order of trials changes the report",
    )


CHECKS: Sequence[Callable[[StudyTemplate], None]] = (
    check_defaults,
    check_unknown_knob,
    check_plans_pure,
    check_empty,
    check_all_failed,
    check_whole,
    check_ragged,
    check_order_free,
)


def _require(kept: object, otherwise: str) -> None:
    if not kept:
        raise AssertionError(otherwise)


def _rising(place: int, seed: int) -> float:
    return 0.6 + 0.03 * place + 0.004 * seed


def _seed_one_fails(place: int, seed: int) -> float | None:
    return None if seed == 1 else _rising(place, seed)


def _all_fail(_place: int, _seed: int) -> None:
    return None


def study_config(template: StudyTemplate) -> SweepConfig:
    """Returns a small sweep that asks for the template with its defaults, on a dataset whose crowd is simulated."""
    return SweepConfig(
        name="check",
        datasets=(DatasetEntry(name="gaussians"),),
        models=tuple(ModelEntry(name=name, label=name) for name in _MODELS),
        study=StudyEntry(template=template.name),
    )


def _events(template: StudyTemplate, value: Callable[[int, int], float | None]) -> list[Event]:
    """Returns three trials of each model on every dataset that the template plans, with this accuracy."""
    planned = template.plans(check_settings(template, {}), study_config(template))
    events: list[Event] = []
    for place, entry in enumerate(planned.datasets):
        for model in _MODELS:
            scores = [value(place, seed) for seed in range(3)]
            metrics = [None if score is None else {"test_accuracy": score} for score in scores]
            events += made_up_trials(model, entry.name, metrics, dataset_params=dict(entry.params))
    return events


def _check_report(template: StudyTemplate, events: Sequence[Event]) -> StudyReport:
    models: list[dict[str, Any]] = [{"name": name, "label": name, "params": {}} for name in _MODELS]
    table = results_table(folded(made_up_sweep(events, models=models)))
    report = template.summarise(StudyResults(table=table), check_settings(template, {}))
    _require(report.title.strip(), "the report has no title")
    return report
