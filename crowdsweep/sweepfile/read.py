"""A sweep file, read and checked.

`load_sweep` reads YAML and `--set` overrides through one validator; what comes out can be run as it stands.
Whether the datasets exist and bring what the models need is seen later, by `sweep/plan.py`.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import product
from pathlib import Path
from typing import Any, Literal

from crowdsweep.data import catalogue
from crowdsweep.errors import BadInput, SweepFileError, UnknownName, Where, suggestion
from crowdsweep.metrics.known import check_metric_name
from crowdsweep.metrics.wording import goal_of
from crowdsweep.models import registered
from crowdsweep.registry import discovery
from crowdsweep.search.contract import Goal, Sampler
from crowdsweep.search.space import Space
from crowdsweep.sweepfile.checked import field_types, jsonable, mapping_of, named_entries, record, text, typed
from crowdsweep.sweepfile.located import read_yaml, with_overrides
from crowdsweep.sweepfile.records import (
    Budget,
    DatasetEntry,
    Heldout,
    Metric,
    ModelEntry,
    Published,
    PublishedValue,
    Resources,
    Seeds,
    StudyEntry,
    SweepConfig,
    Tracking,
)


def load_sweep(path: str | Path, overrides: Iterable[str] = ()) -> SweepConfig:
    """Reads and checks a sweep file.

    Args:
        path: the YAML file; relative folders of datasets and files of spaces are looked up beside it.
        overrides: `a.b=c` as `--set` takes them: a key path (list positions are numbers) and a YAML value.

    Raises:
        SweepFileError, SpaceError, UnknownName: something in it cannot be used; the message says where, what was
            expected, what came, and the nearest known name.
    """
    value, where = read_yaml(Path(path))
    value, where = with_overrides(value, where, tuple(overrides))
    return parse_sweep(value, str(path), where)


def parse_sweep(mapping: Any, source: str = "", where: Where | None = None) -> SweepConfig:
    """Checks a sweep that has been read, or made by `config_to_mapping`.

    Args:
        mapping: the sweep file's form.
        source: its path; relative paths inside are looked up beside it.
        where: knows the lines of its values, for messages.

    Raises:
        SweepFileError, SpaceError, UnknownName: as `load_sweep`.
    """
    where = where or Where.of(source)
    given = mapping_of(mapping, where, _SWEEP_KEYS)
    for key in ("name", "datasets", "models"):
        if given.get(key) is None:
            raise SweepFileError(where.says(f"a sweep needs name, datasets and models; {key} is missing"))
    name = _sweep_name(given["name"], where.at("name"))
    folder = Path(source).parent
    datasets = tuple(_datasets(given["datasets"], where.at("datasets"), folder))
    models = tuple(_models(given["models"], where.at("models"), folder, [entry.name for entry in datasets]))
    sections: dict[str, Any] = {
        key: record(cls, given[key], where.at(key)) for key, cls in _SECTIONS.items() if key in given
    }
    for key in ("engine", "protocol", "pack"):
        if key in given:
            sections[key] = typed(field_types(SweepConfig)[key], given[key], where.at(key))
    config = SweepConfig(
        name=name,
        datasets=datasets,
        models=models,
        metric=_metric(given["metric"], where.at("metric"), models) if "metric" in given else None,
        early_stop=_early_stop(given["early_stop"], where.at("early_stop")) if "early_stop" in given else "none",
        study=_study(given["study"], where.at("study")) if "study" in given else None,
        published=_published(given.get("published", {}), where.at("published"), datasets, models),
        source=source,
        **sections,
    )
    _check_grid(config, where)
    return config


def config_to_mapping(config: SweepConfig) -> dict[str, Any]:
    """Returns the sweep file's form with every default written out, JSON-able; `parse_sweep` gives the same sweep
    back, given the same `source`."""
    mapping: dict[str, Any] = {
        "name": config.name,
        "datasets": [{"name": entry.name, **entry.params} for entry in config.datasets],
        "models": [
            {
                "name": entry.name,
                "label": entry.label,
                "params": jsonable(entry.params),
                **({"search": jsonable(entry.space)} if entry.space else {}),
                **({"datasets": list(entry.datasets)} if entry.datasets else {}),
            }
            for entry in config.models
        ],
        "early_stop": {"kind": config.early_stop},
        "engine": config.engine,
        "pack": config.pack,
        "published": jsonable(asdict(config.published)),
    }
    for key in _SECTIONS:
        mapping[key] = {name: value for name, value in asdict(getattr(config, key)).items() if value is not None}
    if config.metric is not None:
        mapping["metric"] = asdict(config.metric)
    if config.protocol is not None:
        mapping["protocol"] = config.protocol
    if config.study is not None:
        mapping["study"] = {"template": config.study.template, **jsonable(config.study.knobs)}
    return mapping


_SECTIONS: dict[str, type[Any]] = {
    "budget": Budget,
    "seeds": Seeds,
    "sampler": Sampler,
    "resources": Resources,
    "tracking": Tracking,
    "heldout": Heldout,
}
_SWEEP_KEYS = tuple(key.name for key in fields(SweepConfig) if key.name != "source")
_DatasetKey = tuple[str | tuple[str, str], ...]


def _datasets(given: Any, where: Where, folder: Path) -> Iterator[DatasetEntry]:
    seen: dict[_DatasetKey, Where] = {}
    for place, entry in named_entries(given, where, "dataset"):
        for key, value in entry.items():
            _check_axis(value, place.at(key))
        axes = [value if isinstance(value, list) else [value] for value in entry.values()]
        for values in product(*axes):
            params = dict(zip(entry, values, strict=True))
            name = text(params.pop("name"), place.at("name"))
            dataset = DatasetEntry(name=_resolved(name, folder), params=params)
            key = (dataset.name, *sorted((param, repr(value)) for param, value in params.items()))
            if key in seen:
                raise SweepFileError(
                    place.says(f"this dataset stands at {seen[key]} already, with the same parameters")
                )
            seen[key] = place
            yield dataset


def _check_axis(value: Any, where: Where) -> None:
    values: list[Any] = value if isinstance(value, list) else [value]
    if not values:
        raise SweepFileError(where.says("expected a value, or a list of at least one; got an empty list"))
    for index, part in enumerate(values):
        inner = where.at(index) if isinstance(value, list) else where
        if not isinstance(part, str | int | float | bool | None):
            raise SweepFileError(inner.says(f"expected text, a number, true, false or null; got {part!r}"))


def _resolved(name: str, folder: Path) -> str:
    """Returns a catalogue name as it is, and a folder's path made absolute from the sweep file's folder."""
    looks_like_path = os.sep in name or "/" in name or name.startswith((".", "~"))
    path = folder / Path(name).expanduser()
    if looks_like_path or (path.is_dir() and name not in catalogue.names()):
        return str(path.resolve())
    return name


def _models(given: Any, where: Where, folder: Path, datasets: Sequence[str]) -> Iterator[ModelEntry]:
    seen: dict[str, Where] = {}
    for place, entry in named_entries(given, where, "model"):
        mapping_of(entry, place, ("name", "label", "params", "search", "datasets"))
        name = text(entry["name"], place.at("name"))
        if name not in registered.model_names():
            raise UnknownName("model", name, registered.model_names(), str(place.at("name")))
        params = mapping_of(entry.get("params", {}), place.at("params"))
        label = text(entry.get("label", name), place.at("label"))
        if label in seen:
            raise SweepFileError(place.says(f"{label!r} stands at {seen[label]} already; give one of them a `label`"))
        seen[label] = place
        space = _space(name, params, entry["search"], place.at("search"), folder) if "search" in entry else Space({})
        _check_params(name, params, place.at("params"))
        space.check_fits(name, params, place.at("search"))
        only = tuple(_only(entry["datasets"], place.at("datasets"), folder, datasets)) if "datasets" in entry else ()
        yield ModelEntry(name=name, params=params, space=space.to_mapping(), label=label, datasets=only)


def _only(given: Any, where: Where, folder: Path, datasets: Sequence[str]) -> Iterator[str]:
    """Yields the datasets that a model is limited to, each one of the sweep's."""
    if not isinstance(given, list) or not given:
        raise SweepFileError(where.says(f"expected a list of datasets of this sweep, got {given!r}"))
    for index, part in enumerate(given):
        name = _resolved(text(part, where.at(index)), folder)
        if name not in datasets:
            raise UnknownName("dataset of this sweep", name, datasets, str(where.at(index)))
        yield name


def _space(model: str, params: Mapping[str, Any], given: Any, where: Where, folder: Path) -> Space:
    """Reads `search`: a mapping, `default`, or a file of spaces. From the latter two, what `params` fixes is taken out,
    so that one file serves many sweeps."""
    if isinstance(given, Mapping):
        return Space.parse(given, where)
    if not isinstance(given, str):
        raise SweepFileError(where.says(f"expected `default`, a file of spaces, or a mapping; got {given!r}"))
    if given == "default":
        shapes = registered.model_info(model).space
        if not shapes:
            raise SweepFileError(where.says(f"there is nothing to search in {model!r}; leave `search` out"))
        return Space.parse(shapes, f"default space of {model}").fixing(params)
    tried = [folder / part / f"{given}{suffix}" for part in ("", "spaces") for suffix in ("", ".yaml")]
    path = next((path for path in tried if path.is_file()), None)
    if path is None:
        names = ["default", *(known.stem for known in (folder / "spaces").glob("*.yaml"))]
        raise SweepFileError(where.says(f"there is no file of spaces {given!r}; {suggestion(given, names)}"))
    shapes, inside = read_yaml(path)
    space = Space.parse(shapes, inside)
    space.fixing(params).check_fits(model, params, inside)
    return space.fixing(params)


def _check_params(model: str, params: Mapping[str, Any], where: Where) -> None:
    """Checks fixed hyper-parameters, each alone first, so that a message names the line of the one that is wrong."""
    for guilty, part in [*((where.at(key), {key: value}) for key, value in params.items()), (where, params)]:
        try:
            registered.build_model(model, part)
        except UnknownName as error:
            raise SweepFileError(guilty.says(str(error))) from None
        except BadInput as error:
            if part is params or len(params) == 1 or _alone_to_blame(model, params, part):
                raise SweepFileError(guilty.says(str(error))) from None


def _alone_to_blame(model: str, params: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Says whether a parameter is wrong also in company: some are right only together with another."""
    try:
        registered.build_model(model, params)
    except BadInput as error:
        return any(f"parameter {key!r}" in str(error) for key in part)
    return False


def _metric(given: Any, where: Where, models: Sequence[ModelEntry]) -> Metric:
    if isinstance(given, str):
        given = {"name": given}
    given = mapping_of(given, where, ("name", "goal"))
    if "name" not in given:
        raise SweepFileError(where.says("expected name, for example {name: dev_accuracy}"))
    name = text(given["name"], where.at("name"))
    check_metric_name(name, str(where.at("name")))
    goal: Goal = typed(Goal, given.get("goal", goal_of(name)), where.at("goal"))
    if goal != goal_of(name):
        raise SweepFileError(where.at("goal").says(f"expected {goal_of(name)}, as {name} is better so; got {goal}"))
    if name.startswith("test_") and any(entry.space for entry in models):
        near = name.replace("test_", "dev_", 1)
        raise SweepFileError(
            where.at("name").says(f"a search that sees test scores proves nothing; write {near}, or heldout_loglik")
        )
    return Metric(name=name, goal=goal)


def _early_stop(given: Any, where: Where) -> Literal["none", "wilcoxon"]:
    kind = mapping_of(given, where, ("kind",)).get("kind", "none")
    return typed(field_types(SweepConfig)["early_stop"], kind, where.at("kind"))


def _study(given: Any, where: Where) -> StudyEntry:
    knobs = dict(mapping_of(given, where))
    if "template" not in knobs:
        raise SweepFileError(where.says(f"expected template, one of {', '.join(discovery.names('template'))}"))
    template = text(knobs.pop("template"), where.at("template"))
    if template not in discovery.names("template"):
        raise UnknownName("study template", template, discovery.names("template"), str(where.at("template")))
    return StudyEntry(template=template, knobs=knobs)


def _published(given: Any, where: Where, datasets: Sequence[DatasetEntry], models: Sequence[ModelEntry]) -> Published:
    given = mapping_of(given, where, ("table", "values"))
    known_models = {*registered.model_names(), *(entry.label for entry in models)}
    known_datasets = {*catalogue.names(), *(entry.name for entry in datasets)}
    # A list that `--set` replaces may leave out what the sweep file has printed numbers of.
    replaced = {key for key in ("models", "datasets") if where.origins.get((key,), "").startswith("--set")}
    values: list[PublishedValue] = []
    listed = given.get("values", [])
    if not isinstance(listed, list):
        raise SweepFileError(where.at("values").says(f"expected a list, got {listed!r}"))
    for index, part in enumerate(listed):
        inner = where.at("values", index)
        value = record(PublishedValue, part, inner)
        if value.model not in known_models and "models" not in replaced:
            raise UnknownName("model", value.model, known_models, str(inner.at("model")))
        if value.dataset not in known_datasets and "datasets" not in replaced:
            raise UnknownName("dataset", value.dataset, known_datasets, str(inner.at("dataset")))
        check_metric_name(value.metric, str(inner.at("metric")))
        values.append(value)
    return Published(table=text(given.get("table", ""), where.at("table")), values=tuple(values))


def _check_grid(config: SweepConfig, where: Where) -> None:
    if config.sampler.kind != "grid":
        return
    for index, entry in enumerate(config.models):
        size, inner = Space.parse(entry.space).size, where.at("models", index, "search")
        if size is None:
            raise SweepFileError(
                inner.says("a grid has no end here: give values or q_uniform, or take another sampler")
            )
        if size > config.budget.points:
            raise SweepFileError(inner.says(f"the grid has {size} points, budget.points is {config.budget.points}"))


def _sweep_name(given: Any, where: Where) -> str:
    name = text(given, where)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise SweepFileError(where.says(f"expected letters, digits, `-`, `_`, `.` (it names a folder); got {name!r}"))
    return name
