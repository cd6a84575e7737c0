"""Reads and checks sweep files.

`load_sweep` passes YAML and `--set` overrides through one validator; the resulting sweep can be run as it is.
Whether the datasets exist and have what the models need is checked later, by `sweep/plan.py`.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from crowdsweep.data import catalogue
from crowdsweep.data.computed.kinds import kind_of
from crowdsweep.errors import (
    BadInput,
    DataError,
    Mistakes,
    SweepFileError,
    UnknownName,
    Where,
    error_words,
    plain,
    shortened,
    shown,
    suggestion,
)
from crowdsweep.files.located import read_yaml
from crowdsweep.metrics.metric_table import check_metric_name
from crowdsweep.metrics.wording import goal_of
from crowdsweep.models import registered
from crowdsweep.paths import is_file
from crowdsweep.registry import discovery
from crowdsweep.resources import Resources
from crowdsweep.search.space import Space
from crowdsweep.sweepfile.across_keys import check_grid, check_published, check_register, check_several, check_shares
from crowdsweep.sweepfile.checked import field_types, list_of, mapping_of, named_entries, text, typed
from crowdsweep.sweepfile.extends import EXTENDS, extended
from crowdsweep.sweepfile.overrides import as_mapping, with_overrides
from crowdsweep.sweepfile.records import DatasetEntry, EarlyStop, Metric, ModelEntry, Notify, StudyEntry, SweepConfig
from crowdsweep.sweepfile.warm_start import sampler_of
from crowdsweep.units import listed

MOST_DATASETS = 10_000  # of one entry: the product of its lists
SWEEP_KEYS = tuple(key for key in field_types(SweepConfig) if key != "source")
_NEEDED = ("name", "datasets", "models")
MODEL_KEYS = ("name", "label", "params", "search", "datasets", "resources")
METRIC_KEYS = tuple(field_types(Metric))
RESOURCE_KEYS = tuple(field_types(Resources))
SWEEP_NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
"""Regular expression of a sweep's name, which is also the name of a folder."""


def load_sweep(path: str | Path, overrides: Iterable[str] = ()) -> SweepConfig:
    """Reads and checks a sweep file.

    Args:
        path: the YAML file; relative paths of dataset folders and files of spaces start from its folder.
        overrides: `a.b=c` as `--set` takes them: a key path (list positions are numbers) and a YAML value; relative
            paths in them start from the working directory.

    Raises:
        SweepFileError, SpaceError, UnknownName: something in the file cannot be used; the message says where, what was
            expected, what was given, and the nearest known name. Several mistakes are told together.
    """
    return sweep_of(*read_yaml(Path(path)), overrides, source=str(path))


def sweep_of(value: Any, where: Where, overrides: Iterable[str] = (), *, source: str = "") -> SweepConfig:
    """Checks the content of a sweep file, merged with what it extends and with overrides.

    Args:
        where: files and lines of the values.
        source: path of the file.

    Raises:
        SweepFileError, SpaceError, UnknownName: as in `load_sweep`.
    """
    value, where = with_overrides(*extended(value, where), tuple(overrides))
    config = parse_sweep(value, source, where)
    check_shares(config, where)
    return config


def parse_sweep(mapping: Any, source: str = "", where: Where | None = None) -> SweepConfig:
    """Checks the content of a sweep file that extends no other, such as `config_to_mapping` returns.

    Args:
        source: path of the file; relative paths inside start from its folder, where `where` does not say otherwise.
        where: files and lines of the values.

    Raises:
        SweepFileError, SpaceError, UnknownName: as in `load_sweep`.
    """
    where = where or Where({(): source} if source else {}, files={(): source})
    read: dict[str, Any] = {"source": source}
    with Mistakes() as mistakes:
        given = dict(mapping_of(_not_text(mapping, where), where, (*SWEEP_KEYS, EXTENDS), mistakes))
        if EXTENDS in given:
            raise SweepFileError(where.at(EXTENDS).says("expected in the sweep file: `extends` is read before --set"))
        lacks = [key for key in _NEEDED if given.get(key) is None]
        misspelt = " ".join(map(str, mistakes.found))
        if missing := [key for key in lacks if f"{key!r}?" not in misspelt]:
            are = "is" if len(missing) == 1 else "are"
            told = f"a sweep needs name, datasets and models; {listed(missing)} {are} missing"
            mistakes.keep(SweepFileError(where.says(told)))
        if "name" not in lacks:
            with mistakes.apart():
                read["name"] = _sweep_name(given["name"], where.at("name"))
        if "datasets" not in lacks:
            with mistakes.apart():
                read["datasets"] = tuple(_datasets(given["datasets"], where.at("datasets"), mistakes))
        for key in ("metric", "study"):  # null is their default, as it is that of `protocol`
            if given.get(key) is None:
                given.pop(key, None)
        names = None if mistakes.found else [entry.name for entry in read["datasets"]]
        with mistakes.apart():
            read["resources"] = _resources(given.get("resources", {}), where.at("resources"), {})
        models: list[ModelEntry] = []
        if "models" not in lacks:
            shared = read.get("resources", Resources())
            with mistakes.apart():
                models += _models(given["models"], where.at("models"), names, shared, mistakes)
        read["models"] = tuple(models)
        for key in (key for key in given if key not in (*_NEEDED, "resources")):
            with mistakes.apart():
                read[key] = _section(key, as_mapping(given[key], (key,)), where.at(key), models)
    config = SweepConfig(**read)
    with Mistakes() as mistakes:
        for check in (check_published, check_grid, check_several, check_register):
            with mistakes.apart():
                check(config, where)
    return config


def _not_text(given: Any, where: Where) -> Any:
    """Returns the content of a file, after a check that it is not one text, as files of other formats may be."""
    if given is None:
        raise SweepFileError(where.says("expected a sweep, got an empty file; `crowdsweep init FOLDER` writes one"))
    if not isinstance(given, str):
        return given
    first = given.split()[0] if given.split() else ""
    if re.match(r"[A-Za-z_]\w*\s*=", given):
        told = "this looks like TOML or Python; in YAML it is `key: value`"
    elif re.match(r"[a-z_]+:\S", given):
        told = f"a colon needs a space after it: {shortened(first.replace(':', ': ', 1))}"
    else:
        told = "is this the right file? `crowdsweep sweeps quickstart` prints an example"
    raise SweepFileError(where.says(f"expected lines such as `name: my-sweep`, got the text {shown(given)}; {told}"))


def _section(key: str, given: Any, where: Where, models: Sequence[ModelEntry]) -> Any:
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


def config_to_mapping(config: SweepConfig) -> dict[str, Any]:
    """Returns the JSON-able content of a sweep file with every default written out; `parse_sweep` returns the same
    sweep for it, given the same `source`."""
    mapping = {key: value for key, value in _jsonable(asdict(config)).items() if key != "source" and value is not None}
    for key in ("budget", "tracking"):  # their settings may be None
        mapping[key] = {name: value for name, value in mapping[key].items() if value is not None}
    if config.metric is not None and not config.metric.further:
        del mapping["metric"]["further"]
    if config.early_stop.kind != "median":
        mapping["early_stop"] = {"kind": config.early_stop.kind}
    mapping["datasets"] = [{"name": entry["name"], **entry["params"]} for entry in mapping["datasets"]]
    for entry, model in zip(mapping["models"], config.models, strict=True):
        del entry["space"], entry["place"]
        entry["search"] = _jsonable(model.space.to_mapping())
        for key in ("search", "datasets", "resources"):
            if not entry[key]:
                del entry[key]
    if config.study is not None:
        mapping["study"] = {"template": mapping["study"]["template"], **mapping["study"]["knobs"]}
    return mapping


def _jsonable(value: Any) -> Any:
    """Returns a value with its mappings as dicts and its sequences as lists, the types that JSON has."""
    if isinstance(value, Mapping):
        return {key: _jsonable(part) for key, part in value.items()}
    return [_jsonable(part) for part in value] if isinstance(value, list | tuple) else value


def _datasets(given: Any, where: Where, mistakes: Mistakes) -> Iterator[DatasetEntry]:
    seen: dict[tuple[str, ...], Where] = {}
    for place, entry in named_entries(given, where, "dataset", mistakes):
        with mistakes.apart():
            yield from _of_entry(entry, place, seen)


def _of_entry(entry: Mapping[str, Any], place: Where, seen: dict[tuple[str, ...], Where]) -> Iterator[DatasetEntry]:
    """Yields the datasets of one entry: all combinations of the values of its axes."""
    if "features" in entry:
        entry = {**entry, "features": _features(entry["features"], place.at("features"))}
    for key, value in entry.items():
        _check_axis(value, place.at(key))
    axes = [value if isinstance(value, list) else [value] for value in entry.values()]
    if (n_datasets := prod(map(len, axes))) > MOST_DATASETS:
        raise SweepFileError(place.says(f"expected at most {MOST_DATASETS} datasets of one entry, got {n_datasets}"))
    for values in product(*axes):
        params = dict(zip(entry, values, strict=True))
        name = text(params.pop("name"), place.at("name"))
        dataset = DatasetEntry(name=_resolved(name, place.at("name")), params=params, place=str(place))
        key = (dataset.name, *sorted(f"{param} {value!r}" for param, value in params.items()))
        if key in seen:
            raise SweepFileError(place.says(f"this dataset is already at {seen[key]}, with the same parameters"))
        seen[key] = place
        yield dataset


def _features(given: Any, where: Where) -> Any:
    """Returns the value of `features`; computed features (`{text: tfidf}`) become the text that stands for them."""
    try:
        if isinstance(given, list):
            return [kind_of(part, where.at(index)) for index, part in enumerate(given)]
        return kind_of(given, where)
    except DataError as error:
        raise SweepFileError(str(error)) from None


def _check_axis(value: Any, where: Where) -> None:
    values: list[Any] = value if isinstance(value, list) else [value]
    if not values:
        raise SweepFileError(where.says("expected a value, or a list of at least one; got an empty list"))
    for index, part in enumerate(values):
        inner = where.at(index) if isinstance(value, list) else where
        if not isinstance(part, str | int | float | bool | None):
            told = f"expected text, a number, true, false or null; got {shortened(repr(part))}"
            if isinstance(part, Mapping):
                within = where.path[-1] in ("params", "parameters")
                told += "; write parameters beside `name`" if within else "; write a list of values for an axis"
            raise SweepFileError(inner.says(told))


def _resolved(name: str, where: Where) -> str:
    """Returns a catalogue name as it is, and a folder's path as an absolute path, from the folder of the sweep file."""
    looks_like_path = os.sep in name or "/" in name or name.startswith((".", "~"))
    try:
        path = where.folder / Path(name).expanduser()
        if looks_like_path or (path.is_dir() and name not in catalogue.names()):
            return str(path.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, an unknown home
        raise SweepFileError(where.says(f"no folder can be {shortened(name)!r}: {error_words(error)}")) from None
    return name


def _resources(given: Any, where: Where, shared: Mapping[str, Any]) -> Resources:
    """Reads the resources of slots; settings that a model leaves out are those of the sweep (`shared`)."""
    resources: Resources = typed(Resources, {**shared, **mapping_of(given, where, RESOURCE_KEYS)}, where)
    if own := {"CPU", "GPU", "memory", "object_store_memory"} & resources.custom.keys():
        name = min(own)
        raise SweepFileError(where.at("custom", name).says("expected a custom resource; say cpu and gpu for Ray's own"))
    return resources


def _models(
    given: Any, where: Where, datasets: Sequence[str] | None, shared: Resources, mistakes: Mistakes
) -> Iterator[ModelEntry]:
    seen: dict[str, Where] = {}
    for place, entry in named_entries(given, where, "model", mistakes):
        with mistakes.apart():
            model = _model(entry, place, datasets, shared)
            if model.label in seen:
                told = f"{model.label!r} is already at {seen[model.label]}; give one of them a `label`"
                raise SweepFileError(place.says(told))
            seen[model.label] = place
            yield model


def _model(entry: Mapping[str, Any], place: Where, datasets: Sequence[str] | None, shared: Resources) -> ModelEntry:
    with Mistakes() as mistakes:
        name = text(entry["name"], place.at("name"))
        if name not in (known := registered.model_names()):
            mapping_of(entry, place, MODEL_KEYS, mistakes)
            raise UnknownName("model", name, known, str(place.at("name")))
        own = {parameter.name for parameter, _ in registered.every_parameter(name)}
        for key in entry.keys() & (own - {*MODEL_KEYS}):
            told = f"{key!r} is a hyper-parameter: write params: {{{key}: …}}, or search: {{{key}: …}} for a range"
            mistakes.keep(SweepFileError(place.at(key).says(told)))
        entry = {key: value for key, value in entry.items() if key in MODEL_KEYS or key not in own}
        entry = mapping_of(entry, place, MODEL_KEYS, mistakes)
        label = name
        with mistakes.apart():
            label = text(entry.get("label", name), place.at("label"))
            if label != plain(label):
                raise SweepFileError(place.at("label").says(f"expected a label that can be printed, got {label!r}"))
        params: Mapping[str, Any] = {}
        with mistakes.apart():
            given = mapping_of(entry.get("params", {}), place.at("params"))
            params = given
            params = _checked_params(name, given, place.at("params"), mistakes)
        space = Space({})
        if "search" in entry:
            with mistakes.apart():
                space = _space(name, params, entry["search"], place.at("search"))
                space.check_fits(name, params, place.at("search"))
        only: tuple[str, ...] = ()
        if "datasets" in entry:
            with mistakes.apart():
                only = tuple(_only(entry["datasets"], place.at("datasets"), datasets))
        resources = None
        if "resources" in entry:
            with mistakes.apart():
                resources = _resources(entry["resources"], place.at("resources"), vars(shared))
    return ModelEntry(
        name=name, params=params, space=space, label=label, datasets=only, resources=resources, place=str(place)
    )


def _only(given: Any, where: Where, datasets: Sequence[str] | None) -> Iterator[str]:
    """Yields the datasets that a model is limited to; each must be a dataset of the sweep, if these are known."""
    for index, part in enumerate(list_of(given, where, "dataset of this sweep")):
        name = _resolved(text(part, where.at(index)), where.at(index))
        if datasets is not None and name not in datasets:
            raise UnknownName("dataset of this sweep", name, datasets, str(where.at(index)))
        yield name


def _space(model: str, params: Mapping[str, Any], given: Any, where: Where) -> Space:
    """Reads `search`: a mapping, `default`, or a file of spaces. Hyper-parameters that `params` fixes are removed from
    the latter two, so that one file serves many sweeps."""
    if isinstance(given, Mapping):
        return Space.parse(given, where)
    if not isinstance(given, str):
        told = "expected `default`, a file of spaces, or a mapping of hyper-parameters to ranges"
        instead = "write `default` for the model's own space" if given is True else "leave it out to search nothing"
        raise SweepFileError(where.says(f"{told}; got {shortened(repr(given))}; {instead}"))
    if given == "default":
        shapes = registered.model_info(model).space
        if not shapes:
            raise SweepFileError(where.says(f"nothing can be searched in {model!r}; leave `search` out"))
        return Space.parse(shapes, f"default space of {model}").fixing(registered.with_steps(model, params))
    folder = where.folder
    tried = [folder / part / f"{given}{suffix}" for part in ("", "spaces") for suffix in ("", ".yaml")]
    path = next((path for path in tried if is_file(path)), None)
    if path is None:
        names = ["default", *(known.stem for known in (folder / "spaces").glob("*.yaml"))]
        raise SweepFileError(where.says(f"there is no file of spaces {shortened(given)!r}; {suggestion(given, names)}"))
    shapes, inside = read_yaml(path, cite=False)
    if not isinstance(shapes, Mapping) or not all(isinstance(shape, Mapping) for shape in shapes.values()):
        # Not quoted: a sweep file from elsewhere may name any file, and its owner may pass the message on.
        raise SweepFileError(
            where.says(
                f"expected a file of spaces, a mapping of hyper-parameters to ranges, got another: {path}; "
                f"`crowdsweep models {model} --space` prints one"
            )
        )
    space = Space.parse(shapes, inside)
    space.fixing(params).check_fits(model, params, inside)
    return space.fixing(params)


def _checked_params(model: str, params: Mapping[str, Any], where: Where, mistakes: Mistakes) -> Mapping[str, Any]:
    """Returns the fixed hyper-parameters that the model accepts; the message of another one has its line.

    Raises:
        SweepFileError: the hyper-parameters do not go together.
    """
    accepted = dict(params)
    while True:
        try:
            registered.build_model(model, accepted)
        except BadInput as error:
            guilty = [key for key in accepted if f"parameter {key!r}" in str(error)]
            wrong = SweepFileError(where.at(*guilty[:1]).says(f"{error}{_as_range(guilty, accepted)}"))
            if not guilty:
                raise wrong from None
            mistakes.keep(wrong)
            del accepted[guilty[0]]
        else:
            return accepted


def _as_range(guilty: Sequence[str], params: Mapping[str, Any]) -> str:
    """Returns how to search a hyper-parameter that is given as a range or a list of values."""
    value = params[guilty[0]] if guilty else None
    if isinstance(value, Mapping):
        return f"; ranges belong under `search`: search: {{{guilty[0]}: {{…}}}}"
    if isinstance(value, list) and len(value) > 1:  # pyright: ignore[reportUnknownArgumentType]: it comes from YAML
        return f"; to try each of them write search: {{{guilty[0]}: {{values: {shortened(str(value))}}}}}"  # pyright: ignore[reportUnknownArgumentType]: as above
    return ""


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


def _sweep_name(given: Any, where: Where) -> str:
    name = text(given, where)
    if not re.fullmatch(SWEEP_NAME, name):
        raise SweepFileError(
            where.says(
                f"expected letters, digits, `-`, `_`, `.`, at most 200 (it names a folder); got {shortened(name)!r}"
            )
        )
    return name
