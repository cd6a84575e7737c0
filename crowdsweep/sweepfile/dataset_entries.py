"""`datasets` in a sweep file: names, folders, and mappings in which a list of values is an axis."""

import os
from collections.abc import Iterator, Mapping
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from crowdsweep.data import catalogue
from crowdsweep.data.computed.kinds import kind_of
from crowdsweep.errors import DataError, Mistakes, SweepFileError, Where, error_words, shortened
from crowdsweep.sweepfile.checked import named_entries, text
from crowdsweep.sweepfile.records import DatasetEntry

MOST_DATASETS = 10_000  # of one entry: the product of its lists


def dataset_entries(given: Any, where: Where, mistakes: Mistakes) -> Iterator[DatasetEntry]:
    """Yields the datasets of `datasets:`; entries that cannot be read go to `mistakes`."""
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
        dataset = DatasetEntry(name=resolved(name, place.at("name")), params=params, place=str(place))
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


def resolved(name: str, where: Where) -> str:
    """Returns a catalogue name as it is, and a folder's path as an absolute path, from the folder of the sweep file."""
    looks_like_path = os.sep in name or "/" in name or name.startswith((".", "~"))
    try:
        path = where.folder / Path(name).expanduser()
        if looks_like_path or (path.is_dir() and name not in catalogue.names()):
            return str(path.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null character, an unknown home
        raise SweepFileError(where.says(f"no folder can be {shortened(name)!r}: {error_words(error)}")) from None
    return name
