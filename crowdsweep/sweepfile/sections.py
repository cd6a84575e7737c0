"""The sections of a sweep file beside its datasets, models and resources: metric, study, early_stop, notify, …"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from crowdsweep.errors import SweepFileError, UnknownName, Where, plain
from crowdsweep.metrics.metric_table import check_metric_name
from crowdsweep.metrics.wording import goal_of
from crowdsweep.registry import discovery
from crowdsweep.sweepfile.checked import field_types, list_of, mapping_of, text, typed
from crowdsweep.sweepfile.records import EarlyStop, Metric, ModelEntry, Notify, StudyEntry, SweepConfig
from crowdsweep.sweepfile.warm_start import sampler_of

METRIC_KEYS = tuple(field_types(Metric))


def section(key: str, given: Any, where: Where, models: Sequence[ModelEntry]) -> Any:
    """Reads the value of a top-level key other than the name, datasets, models and resources."""
    match key:
        case "metric":
            return _metric(given, where, models)
        case "study":
            return _study(given, where)
        case "early_stop":
            return _early_stop(given, where)
        case "sampler":
            return sampler_of(given, where)
        case "notify":
            return _notify(given, where)
        case _:
            return typed(field_types(SweepConfig)[key], given, where)


def _metric(given: Any, where: Where, models: Sequence[ModelEntry]) -> Metric:
    """Reads the objectives of searches: one name, a list of names, or a mapping with a first name and further ones."""
    if isinstance(given, list):
        names = list_of(given, where, "metric")
        places = [where.at(number) for number in range(len(names))]
        given = {"name": names[0], "further": names[1:]}
    else:
        given = {"name": given} if isinstance(given, str) else mapping_of(given, where, METRIC_KEYS)
        if "name" not in given:
            raise SweepFileError(where.says("expected name, for example {name: dev_accuracy}"))
        further = list_of(given.get("further", []), where.at("further"))
        names = [given["name"], *further]
        places = [where.at("name"), *(where.at("further", number) for number in range(len(further)))]
    for number, (name, place) in enumerate(zip(names, places, strict=True)):
        _check_objective(text(name, place), place, names[:number], models)
    metric: Metric = typed(Metric, {"goal": goal_of(names[0]), **given}, where)
    if metric.goal != (right := goal_of(metric.name)):
        reason = f"a {'higher' if right == 'maximize' else 'lower'} {metric.name} is better"
        raise SweepFileError(where.at("goal").says(f"expected {right}, since {reason}; got {metric.goal}"))
    return replace(metric, further=tuple(metric.further))


def _check_objective(name: str, where: Where, before: Sequence[str], models: Sequence[ModelEntry]) -> None:
    if before and name in ("labels", "n_annotations"):
        says = "all points of a search are fitted to the same labels; `study: {template: redundancy}` varies these"
        raise SweepFileError(where.says(f"expected a metric, seconds or memory, got {name!r}: {says}"))
    check_metric_name(name, str(where), beside=bool(before))
    if name in before:
        raise SweepFileError(where.says(f"expected each objective once, got {name!r} again"))
    if name.startswith("test_") and any(entry.space.dimensions for entry in models):
        near = name.replace("test_", "dev_", 1)
        raise SweepFileError(where.says(f"a search must not see test scores; write {near}, or heldout_loglik"))


def _early_stop(given: Any, where: Where) -> EarlyStop:
    rule: EarlyStop = typed(EarlyStop, given, where)
    for key in ("quantile", "grace"):
        if key in given and rule.kind != "median":
            raise SweepFileError(where.at(key).says(f"expected it only with kind: median, got kind: {rule.kind}"))
    return rule


def _notify(given: Any, where: Where) -> Notify:
    if isinstance(given, Mapping) and "command" in given:
        raise SweepFileError(
            where.at("command").says(
                "a sweep file may not run commands; give this one to `crowdsweep run --notify-command`"
            )
        )
    notify: Notify = typed(Notify, given, where)
    try:
        parts = urlsplit(notify.url)
        sound = not notify.url or (parts.scheme in ("http", "https") and parts.hostname and parts.port != 0)
    except ValueError:  # no port, no address
        sound = False
    if not sound or notify.url != plain(notify.url) or " " in notify.url:
        raise SweepFileError(where.at("url").says("expected http://… or https://… with a host; it is not shown here"))
    return notify


def _study(given: Any, where: Where) -> StudyEntry:
    knobs = dict(mapping_of(given, where))
    known = discovery.names("template")
    if "template" not in knobs:
        raise SweepFileError(where.says(f"expected template, one of {', '.join(known)}"))
    for key in ("knobs", "settings", "params"):
        if isinstance(knobs.get(key), Mapping):
            raise SweepFileError(where.at(key).says("expected settings beside `template`, not inside of a key"))
    template = text(knobs.pop("template"), where.at("template"))
    if template not in known:
        raise UnknownName("study template", template, known, str(where.at("template")))
    return StudyEntry(template=template, knobs=knobs, place=str(where))
