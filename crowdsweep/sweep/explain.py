"""Explanations of sweep-file keys, metrics and models, one text each, and the JSON Schema of sweep files.

The texts are made from what the validator, the table of metrics and the models' files say themselves.
"""

from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from json import dumps
from textwrap import fill
from typing import Any, get_args

from crowdsweep.data import catalogue
from crowdsweep.errors import BadInput, plain, shortened
from crowdsweep.metrics.metric_table import (
    ANSWER_PLACES,
    METRICS,
    NAMES_WITH_A_GOAL,
    SPLITS,
    AnswerMetric,
    ItemMetric,
    MetricInfo,
    info_of,
)
from crowdsweep.metrics.wording import words
from crowdsweep.models import registered
from crowdsweep.registry import discovery
from crowdsweep.registry.parameters import describe_type, lines_of
from crowdsweep.studies.contract import find_template, template_names
from crowdsweep.sweepfile import extends
from crowdsweep.sweepfile.checked import field_types
from crowdsweep.sweepfile.look_up import COLUMNS, model_in_words
from crowdsweep.sweepfile.records import ModelEntry, SweepConfig
from crowdsweep.sweepfile.schema import Schema, sweep_schema

_NEAREST = 3
_CALLED = {"space": "search"}  # field of a record → its name in a sweep file
_NOT_KEYS = ("source", "knobs")
_READ_APART = ("datasets", "models", "models.search", "models.resources")  # written otherwise, or like the sweep's own


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key of a sweep file.

    Attributes:
        about: its description in one line.
        takes: the values that it takes, in words; empty for a key that holds other keys.
        default: as JSON; empty where there is none, or for a key that holds other keys.
    """

    about: str
    takes: str = ""
    default: str = ""


def explain(name: str) -> str:
    """Returns the explanation of a name that occurs in a sweep file or a report.

    Args:
        name: a key (`budget.points`, or `points` alone), a metric (`kl`, `test_accuracy`) or a model.

    Raises:
        BadInput: there is no such name; the message offers the nearest ones.
    """
    found = [*_of_keys(name), *_of_metric(name), *_of_model(name)]
    if not found:
        known = {*keys(), *(key.rpartition(".")[2] for key in keys()), *METRICS, *NAMES_WITH_A_GOAL}
        near = get_close_matches(name[:100], sorted({*known, *registered.model_names()}), n=_NEAREST)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "expected a name as in a sweep file;"
        raise BadInput(
            f"{plain(shortened(name))!r} is not a key of sweep files, a metric or a model; {hint} `crowdsweep models` "
            f"lists the models, `crowdsweep models NAME` the hyper-parameters of one, `crowdsweep schema` all keys "
            f"and metrics"
        )
    return "\n\n".join(found)


def keys() -> dict[str, Key]:
    """Returns the keys of sweep files by their paths, such as `budget.points`.

    Keys of the entries of datasets and models have paths such as `datasets.scenario` and `models.params`.
    """
    found = dict(_keys_of(SweepConfig, ""))
    found[extends.EXTENDS] = Key(about=extends.ABOUT, takes="text")
    found |= dict(_keys_of(ModelEntry, "models."))
    for record in (catalogue.CommonParams, catalogue.FolderParams):
        found |= dict(_keys_of(record, "datasets."))
    for template in template_names():
        for knob, known in find_template(template).knobs.items():
            about = f"of a {template} study: {known.about}"
            found[f"study.{knob}"] = Key(about=about, default=dumps(known.default))
    return found


def _keys_of(record: type[Any], above: str) -> Iterator[tuple[str, Key]]:
    about, types = lines_of(record), field_types(record)
    for member in fields(record):
        if member.name in _NOT_KEYS:
            continue
        name, hint = above + _CALLED.get(member.name, member.name), types[member.name]
        held = [part for part in (hint, *get_args(hint)) if isinstance(part, type) and is_dataclass(part)]
        if not held:
            default = member.default if member.default_factory is MISSING else member.default_factory()
            written = "" if default is MISSING or default is None else dumps(default, default=str)
            yield name, Key(about=about[member.name], takes=_takes(hint), default=written)
            continue
        yield name, Key(about=about[member.name])
        if name not in _READ_APART:
            yield from (entry for part in held for entry in _keys_of(part, f"{name}."))


def _takes(hint: Any) -> str:
    return "a mapping" if Any in get_args(hint) else describe_type(hint)


def _of_keys(name: str) -> Iterator[str]:
    known = keys()
    for key in [key for key in known if name in (key, key.rpartition(".")[2])]:
        inside = {inner: found for inner, found in known.items() if inner.startswith(f"{key}.")}
        lines = [_filled(f"{key}, a key of sweep files: {known[key].about.rstrip('.')}.")]
        if facts := _facts(known[key]):
            lines.append(_filled(f"It takes {facts}."))
        for inner, found in inside.items():
            facts = _facts(found)
            lines.append(_filled(f"{inner}: {found.about.rstrip('.')}{facts and f' ({facts})'}", "  "))
        yield "\n".join(lines)


def _facts(key: Key) -> str:
    return "; ".join(filter(None, [key.takes, key.default and f"default {key.default}"]))


def _of_metric(name: str) -> Iterator[str]:
    info = info_of(name)
    if info is None or (name not in METRICS and name.partition(".")[0] not in _full_names(info)):
        return
    lines = [_filled(f"{name}, a metric ({words(name)}): {info.about}.")]
    better = {"maximize": "higher is better", "minimize": "lower is better", None: "neither way is better"}[info.goal]
    ends = [
        f"at least {info.low:g}" if info.low > -float("inf") else "",
        f"at most {info.high:g}" if info.high < float("inf") else "",
    ]
    unit = "a share, shown in percent" if info.is_share else info.unit and f"in {info.unit}"
    facts = [unit, ", ".join(filter(None, ends)), better]
    lines.append(_filled(f"Values: {', '.join(filter(None, facts))}. For labels that are {' or '.join(info.scales)}."))
    if isinstance(info, ItemMetric):
        stands = ", ".join(f"{split}_{info.name}" for split in SPLITS)
        lines.append(_filled(f"Scores items; its name starts with their split: {stands}."))
    if isinstance(info, AnswerMetric):
        stands = ", ".join(f"{place}_{info.name}" for place in ANSWER_PLACES)
        lines.append(_filled(f"Scores answers to dev and test items, or held-out answers: {stands}."))
    yield "\n".join(lines)


def _full_names(info: MetricInfo) -> set[str]:
    if isinstance(info, AnswerMetric):
        return {f"{place}_{info.name}" for place in ANSWER_PLACES}
    return {f"{split}_{info.name}" for split in SPLITS} if isinstance(info, ItemMetric) else {info.name}


def _of_model(name: str) -> Iterator[str]:
    place = discovery.get("model", name)
    if place is None:
        return
    head, _, facts = model_in_words(name).partition("\n\n")
    _, _, idea = discovery.docstring(place).partition("\n")
    yield "\n\n".join(filter(None, [head.replace(f"{name}:", f"{name}, a model:", 1), _reflowed(idea), facts]))


def _reflowed(text: str) -> str:
    """Returns a docstring with its paragraphs wrapped for a terminal.

    Tables and formulas, which are indented, stay as they are.
    """
    parts = [part for part in text.strip("\n").split("\n\n") if part.strip()]
    return "\n\n".join(
        part if any(line.startswith(" ") for line in part.splitlines()) else _filled(" ".join(part.split()))
        for part in parts
    )


def _filled(text: str, indent: str = "") -> str:
    return fill(
        text, COLUMNS, initial_indent=indent, subsequent_indent=f"{indent}  " if indent else "", break_on_hyphens=False
    )


def whole_schema() -> Schema:
    """Returns the JSON Schema of sweep files as JSON-able data.

    The models, datasets and templates in it are those that a sweep file can name here.
    """
    return sweep_schema({name: find_template(name).knobs for name in template_names()})
