"""Reads and checks sweep files.

`load_sweep` passes YAML and `--set` overrides through one validator; the resulting sweep can be run as it is.
Whether the datasets exist and have what the models need is checked later, by `sweep/plan.py`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from crowdsweep.errors import Mistakes, SweepFileError, Where, shortened, shown
from crowdsweep.files.located import read_yaml
from crowdsweep.resources import Resources
from crowdsweep.sweepfile.across_keys import check_grid, check_published, check_register, check_several, check_shares
from crowdsweep.sweepfile.checked import field_types, mapping_of, text
from crowdsweep.sweepfile.dataset_entries import dataset_entries
from crowdsweep.sweepfile.extends import EXTENDS, extended
from crowdsweep.sweepfile.model_entries import model_entries, resources_of
from crowdsweep.sweepfile.overrides import as_mapping, with_overrides
from crowdsweep.sweepfile.records import ModelEntry, SweepConfig
from crowdsweep.sweepfile.sections import section
from crowdsweep.units import listed

SWEEP_KEYS = tuple(key for key in field_types(SweepConfig) if key != "source")
_NEEDED = ("name", "datasets", "models")
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
                read["datasets"] = tuple(dataset_entries(given["datasets"], where.at("datasets"), mistakes))
        for key in ("metric", "study"):  # null is their default, as it is that of `protocol`
            if given.get(key) is None:
                given.pop(key, None)
        names = None if mistakes.found else [entry.name for entry in read["datasets"]]
        with mistakes.apart():
            read["resources"] = resources_of(given.get("resources", {}), where.at("resources"), {})
        models: list[ModelEntry] = []
        if "models" not in lacks:
            shared = read.get("resources", Resources())
            with mistakes.apart():
                models += model_entries(given["models"], where.at("models"), names, shared, mistakes)
        read["models"] = tuple(models)
        for key in (key for key in given if key not in (*_NEEDED, "resources")):
            with mistakes.apart():
                read[key] = section(key, as_mapping(given[key], (key,)), where.at(key), models)
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


def _sweep_name(given: Any, where: Where) -> str:
    name = text(given, where)
    if not re.fullmatch(SWEEP_NAME, name):
        near = re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-._")
        written = f"; write {near}" if re.fullmatch(SWEEP_NAME, near) else ""
        raise SweepFileError(
            where.says(
                f"expected letters, digits, `-`, `_`, `.`, at most 200 (it names a folder); got {shortened(name)!r}"
                f"{written}"
            )
        )
    return name
