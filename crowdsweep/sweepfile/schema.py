"""The JSON Schema of a sweep file, for editors: made from the records and names that the validator itself uses.

The schema covers what can be checked in one place: which keys there are, what each takes, which hyper-parameters a
model has. Only `read.py` checks what depends on several places (a label that is used twice, a grid with too many
points). The schema is Draft 7, which editors support best.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

from crowdsweep.data import catalogue
from crowdsweep.data.computed.kinds import METHODS, pattern_of
from crowdsweep.metrics.metric_table import COSTS, ITEM_METRICS, NAMES_WITH_A_GOAL, SPLITS
from crowdsweep.models import registered
from crowdsweep.registry import discovery
from crowdsweep.registry.parameters import Parameter, adapter, lines_of, parameters_of
from crowdsweep.resources import Resources
from crowdsweep.search.contract import Sampler
from crowdsweep.search.dimensions import KEYS_OF
from crowdsweep.sweepfile.checked import field_types
from crowdsweep.sweepfile.extends import ABOUT, EXTENDS
from crowdsweep.sweepfile.model_entries import MODEL_KEYS
from crowdsweep.sweepfile.read import SWEEP_KEYS, SWEEP_NAME
from crowdsweep.sweepfile.records import (
    EarlyStop,
    Metric,
    ModelEntry,
    Published,
    PublishedValue,
    StudyEntry,
    SweepConfig,
)

Schema = dict[str, Any]
Found = Sequence[tuple[Parameter, Mapping[str, list[str]]]]
"""Hyper-parameters of a model, each with the choices that enable it."""

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_EXTENSIBLE, _REQUIRED = ("datasets", "models"), "name"
_SHAPE_KEYS: Mapping[str, Schema] = {
    "value": {"description": "the one value"},
    "values": {"description": "one of these", "type": "array", "minItems": 1},
    "min": {"description": "the lower end, itself included", **_NUMBER},
    "max": {"description": "the upper end, itself included", **_NUMBER},
    "q": {"description": "the step from one value to the next", **_NUMBER, "exclusiveMinimum": 0},
    "mu": {"description": "the mean", **_NUMBER},
    "sigma": {"description": "the standard deviation", **_NUMBER, "exclusiveMinimum": 0},
}


@runtime_checkable
class StudySetting(Protocol):
    """A setting of a study template, as the schema needs it."""

    @property
    def default(self) -> Any: ...

    @property
    def about(self) -> str: ...


def sweep_schema(templates: Mapping[str, Mapping[str, StudySetting]]) -> Schema:
    """Returns the JSON-able schema of a sweep file, with the models, datasets and templates that can be named here.

    Args:
        templates: the settings of each study template.
    """
    models = {name: registered.every_parameter(name) for name in registered.model_names()}
    kinds = {parameter.allowed: parameter.hint for found in models.values() for parameter, _ in found}
    shapes = {allowed: f"shape-{number}" for number, allowed in enumerate(kinds)}
    printed = _record(PublishedValue, {"metric": _metric_name()})
    sections = {
        "name": {**_TEXT, "pattern": f"^{SWEEP_NAME}$"},
        "datasets": _list_of(_dataset_entry()),
        "models": _list_of(_model_entry(models, shapes)),
        "metric": {"anyOf": [*_metric()["anyOf"], {"type": "null"}]},
        "study": {"anyOf": [*_or_kind(_study(templates), "template")["anyOf"], {"type": "null"}]},
        "sampler": _or_kind(_record(Sampler, {}), "kind"),
        "early_stop": _or_kind(_record(EarlyStop, {}), "kind"),
        "published": _record(Published, {"values": {"type": "array", "items": printed}}),
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A sweep of crowdsweep",
        **extensible(_record(SweepConfig, sections, only=SWEEP_KEYS)),
        "definitions": {
            "model": _named(models, discovery.titles("model")),
            "shape": _shape(),
            **{shapes[allowed]: _shape_of(allowed, hint) for allowed, hint in kinds.items()},
            **{f"params-{name}": _hyper_parameters(found) for name, found in models.items()},
        },
    }


def _record(record: Any, special: Mapping[str, Schema], *, only: Collection[str] | None = None) -> Schema:
    """Returns the schema of a record.

    Args:
        special: schemas of keys that say more than the type.
        only: fields that are keys; all by default.
    """
    about, types = lines_of(record), field_types(record)
    keys: dict[str, Schema] = {}
    needed: list[str] = []
    for member in fields(record):
        name = member.name
        if only is not None and name not in only:
            continue
        takes = special.get(name) or (_record(types[name], {}) if is_dataclass(types[name]) else _typed(types[name]))
        keys[name] = {"description": about[name], **takes}
        if member.default is MISSING and member.default_factory is MISSING:
            needed.append(name)
        elif isinstance(member.default, str | int | float):
            keys[name]["default"] = member.default
    return _mapping(keys, needed)


def _or_kind(section: Schema, key: str) -> Schema:
    """Returns the schema of a section that may be given by its kind alone: `sampler: tpe`."""
    return {"anyOf": [section, section["properties"][key]]}


def _dataset_entry() -> Schema:
    """Returns the schema of an entry of `datasets`: a name, or a mapping in which a list of values is an axis."""
    found = {name: catalogue.source(name) for name in catalogue.names()}
    sources = {name: source for name, source in found.items() if source is not None}
    common = {parameter.name: _parameter(parameter) for parameter in parameters_of(catalogue.CommonParams).values()}
    folder = {parameter.name: _parameter(parameter) for parameter in parameters_of(catalogue.FolderParams).values()}
    folder["features"] = _or_computed(folder["features"])
    simulated: dict[str, Schema] = {
        key: {"description": f"of {name}; default {default}", "type": ["string", "number", "boolean", "null"]}
        for name, source in sources.items()
        for key, default in source.defaults.items()
    }
    name = {"anyOf": [_named(list(found), discovery.titles("dataset")), {"description": "a folder", **_TEXT}]}
    entry = _mapping(
        {key: _axis(takes) for key, takes in {"name": name, **simulated, **common, **folder}.items()}, ["name"]
    )
    entry["allOf"] = [
        _if_named([name], {"propertyNames": _one_of(["name", *common, *source.defaults])})
        for name, source in sources.items()
    ]
    folders = {"properties": {"name": {**_TEXT, "not": _one_of(sources)}}}
    entry["allOf"].append({"if": folders, "then": {"propertyNames": _one_of(["name", *common, *folder])}})
    return {"anyOf": [name, entry]}


def _or_computed(file: Schema) -> Schema:
    """Returns the schema of `features`: the name of a file, or a mapping that says what they are computed from."""
    about = {key: file[key] for key in ("description", "default") if key in file}
    named = {key: value for key, value in file.items() if key not in about}
    methods: dict[str, Schema] = {of: {**_TEXT, "pattern": pattern_of(of)} for of in METHODS}
    return {**about, "anyOf": [named, {**_mapping(methods), "minProperties": 1, "maxProperties": 1}]}


def _model_entry(models: Mapping[str, Found], shapes: Mapping[str, str]) -> Schema:
    """Returns the schema of an entry of `models`: a name, or a mapping whose `params` and `search` fit its model."""
    about = lines_of(ModelEntry)
    told: dict[str, Schema] = {
        "name": _ref("model"),
        "label": {"description": about["label"], **_TEXT},
        "params": {"description": about["params"], "type": "object"},
        "search": {"description": about["space"], "type": ["string", "object"]},
        "datasets": {"description": about["datasets"], **_list_of(_TEXT)},
        "resources": {"description": about["resources"], **_record(Resources, {})},
    }
    entry = _mapping({key: told[key] for key in MODEL_KEYS}, ["name"])
    entry["allOf"] = [
        _if_named([name], {"properties": {"params": _ref(f"params-{name}"), "search": _search(name, found, shapes)}})
        for name, found in models.items()
    ]
    return {"anyOf": [_ref("model"), entry]}


def _hyper_parameters(found: Found) -> Schema:
    """Returns the schema of a model's `params`; a hyper-parameter that a choice enables needs that choice beside it."""
    known = {parameter.name: parameter for parameter, _ in found}
    needed = [name for name, parameter in known.items() if parameter.required]
    schema = _mapping({name: _parameter(parameter) for name, parameter in known.items()}, needed)
    brought: dict[str, dict[str, Any]] = {}
    for parameter, when in found:
        for choosing, choices in when.items():
            required = [] if known[choosing].default in choices else [choosing]
            brought[parameter.name] = {"properties": {choosing: _one_of(choices)}, "required": required}
    if brought:
        schema["allOf"] = [{"if": {"required": [name]}, "then": then} for name, then in brought.items()]
    return schema


def _search(model: str, found: Found, shapes: Mapping[str, str]) -> Schema:
    """Returns the schema of `search`: `default` where the model has a space, a file of spaces, or a mapping."""
    file = {"description": "a file of spaces", **_TEXT}
    default: Schema = {"description": "the model's own space", "const": "default"}
    texts = [default, file] if registered.model_info(model).space else [{**file, "not": default}]
    keys = {
        parameter.name: {"description": parameter.about, "allOf": [_ref(shapes[parameter.allowed])]}
        for parameter, _ in found
    }
    return {"anyOf": [*texts, _mapping(keys)]}


def _shape_of(allowed: str, hint: Any) -> Schema:
    """Returns the schema of a search dimension of a hyper-parameter: values and range ends have its type."""
    takes = _typed(hint)
    upper = {"anyOf": [{"required": ["q"]}, {"properties": {"max": takes}}]}  # steps need not end at max
    inner = {"properties": {"value": takes, "values": {"items": takes}, "min": takes}}
    return {"title": allowed, "allOf": [_ref("shape"), inner, upper]}


def _shape() -> Schema:
    """Returns the schema of a search dimension: a distribution with its keys, or keys that identify a distribution."""
    needed_by = {keys: [kind for kind in KEYS_OF if KEYS_OF[kind] == keys] for keys in KEYS_OF.values()}
    when = {
        "description": "values of other hyper-parameters under which this one is active",
        "type": "object",
        "minProperties": 1,
    }
    keys = {
        "distribution": _one_of(KEYS_OF),
        **{key: _SHAPE_KEYS[key] for keys in needed_by for key in keys},
        "when": when,
    }
    named = [
        {
            "if": {"properties": {"distribution": _one_of(kinds)}, "required": ["distribution"]},
            "then": {"required": list(keys), "propertyNames": _one_of(["distribution", *keys, "when"])},
        }
        for keys, kinds in needed_by.items()
    ]
    untold = [
        {"required": list(keys), "propertyNames": _one_of([*keys, "when"])}
        for keys in (KEYS_OF["constant"], KEYS_OF["categorical"], KEYS_OF["uniform"], KEYS_OF["q_uniform"])
    ]
    return {**_mapping(keys), "allOf": named, "anyOf": [{"required": ["distribution"]}, *untold]}


def _study(templates: Mapping[str, Mapping[str, StudySetting]]) -> Schema:
    """Returns the schema of `study`: a template, and the template's settings beside it."""
    about = lines_of(StudyEntry)["template"]
    knobs = {
        name: {"description": f"{template}: {knob.about}", "default": knob.default}
        for template, known in templates.items()
        for name, knob in known.items()
    }
    takes = {"description": about, **_named(list(templates), discovery.titles("template"))}
    study = _mapping({"template": takes, **knobs}, ["template"])
    study["allOf"] = [
        _if_named([template], {"propertyNames": _one_of(["template", *known])}, key="template")
        for template, known in templates.items()
    ]
    return study


def _metric() -> Schema:
    """Returns the schema of `metric`: one name, a list of names, or a mapping."""
    beside: Schema = {"anyOf": [_metric_name(), _one_of(COSTS)]}
    several: Schema = {"type": "array", "minItems": 1, "items": [_metric_name()], "additionalItems": beside}
    further: Schema = {"type": "array", "items": beside, "default": []}
    named = {**_record(Metric, {"name": _metric_name(), "further": further}), "required": ["name"]}
    return {"anyOf": [_metric_name(), several, named]}


def _metric_name() -> Schema:
    """Returns the schema of metrics that can rank; item metrics may name a test-time use of a model after a dot."""
    of_items = "|".join(metric.name for metric in ITEM_METRICS if metric.goal is not None)
    return {"anyOf": [_one_of(NAMES_WITH_A_GOAL), {**_TEXT, "pattern": rf"^({'|'.join(SPLITS)})_({of_items})\..+$"}]}


def _parameter(parameter: Parameter) -> Schema:
    default = {} if parameter.required else {"default": parameter.default}
    return {**({"description": parameter.about} if parameter.about else {}), **_typed(parameter.hint), **default}


def _typed(hint: Any) -> Schema:
    return dict(adapter(hint).json_schema())


def _ref(definition: str) -> Schema:
    return {"$ref": f"#/definitions/{definition}"}


def _mapping(keys: Mapping[str, Schema], needed: Iterable[str] = ()) -> Schema:
    needed = list(needed)
    required = {"required": needed} if needed else {}
    return {"type": "object", "properties": dict(keys), **required, "additionalProperties": False}


def _list_of(part: Schema) -> Schema:
    return {"type": "array", "minItems": 1, "items": part}


def _axis(value: Schema) -> Schema:
    return {"anyOf": [value, _list_of(value)]}


def _one_of(values: Iterable[str]) -> Schema:
    return {"enum": list(values)}


def _named(names: Iterable[str], titles: Mapping[str, str]) -> Schema:
    """Returns the schema of a choice of names; editors show the title of each."""
    names = list(names)
    return {"enum": names, "enumDescriptions": [titles.get(name, "") for name in names]}


def _if_named(names: Iterable[str], then: Schema, key: str = "name") -> Schema:
    """Returns the condition that `then` holds for a mapping whose `key` is one of the names."""
    return {"if": {"properties": {key: _one_of(names)}, "required": [key]}, "then": then}


def extensible(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a sweep file that may extend another, from that of one that stands alone; for a file that
    does not extend another, it is as strict.

    Of a file with `extends`, only a name is required; `null` removes a key of the extended file, and a mapping in place
    of the list of datasets or models changes its entries by their names.
    """
    keys: Mapping[str, dict[str, Any]] = whole["properties"]
    loose = {key: takes if key == _REQUIRED else _or_null(takes) for key, takes in keys.items()}
    for key in _EXTENSIBLE:
        loose[key] = {**keys[key], "type": ["array", "object"], "additionalProperties": {"type": ["object", "null"]}}
    strict = {key: takes for key, takes in keys.items() if key not in _EXTENSIBLE and key != _REQUIRED}
    alone = {"properties": {**strict, **{key: {"type": "array"} for key in _EXTENSIBLE}}, "required": whole["required"]}
    extends = {EXTENDS: {"description": ABOUT, "type": "string", "minLength": 1}}
    conditions = {"if": {"required": [EXTENDS]}, "else": alone}
    return {**whole, "properties": {**loose, **extends}, "required": [_REQUIRED], **conditions}


def _or_null(takes: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a key that also allows null, here and for the keys inside, none of which is required."""
    out = {name: part for name, part in takes.items() if name != "required"}
    if "properties" in out:
        out["properties"] = {key: _or_null(inner) for key, inner in out["properties"].items()}
    if "anyOf" in out:
        out["anyOf"] = [*map(_or_null, out["anyOf"]), {"type": "null"}]
    if "enum" in out:
        out["enum"] = [*out["enum"], None]
    if "type" in out:
        kinds: list[str] = out["type"] if isinstance(out["type"], list) else [out["type"]]
        out["type"] = [*dict.fromkeys([*kinds, "null"])]
    return out
