"""Datasets and points as the person called them who wrote the sweep file: `labelme individual`, `groups 3`."""

import json
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from crowdsweep.data.dataset import LEAVES_OUT
from crowdsweep.record.spec import canonical_json
from crowdsweep.units import counted

SPEAKS_FOR_ITSELF = "scenario"
"""The parameter whose values need no name before them."""


def dataset_words(dataset: str, params: Mapping[str, Any], among: Collection[str] = ()) -> str:
    """Returns a dataset with its parameters, in a few words.

    Args:
        dataset: as in `TrialSpec`: a name, or a folder's whole path, of which the end is enough.
        params: of the dataset, as given.
        among: all datasets that stand beside it; of a folder so much of the path is shown that no other ends so.
    """
    inside = ", ".join(f"{name} {_value(value)}" for name, value in params.items() if name != SPEAKS_FOR_ITSELF)
    words = [short_name(dataset, among), *([str(params[SPEAKS_FOR_ITSELF])] if SPEAKS_FOR_ITSELF in params else [])]
    return " ".join([*words, *([f"({inside})"] if inside else [])])


def short_name(dataset: str, among: Collection[str] = ()) -> str:
    """Returns a dataset's name, of a folder's whole path so much of the end that none of the others ends so."""
    parts = PurePath(dataset).parts if dataset.startswith("/") else ()
    if len(parts) < 2:
        return dataset
    others = [PurePath(other).parts for other in among if other != dataset]
    for length in range(1, len(parts)):
        if not any(other[-length:] == parts[-length:] for other in others):
            return "/".join(parts[-length:])
    return dataset


def describe_dataset(dataset: str, dataset_params: str, among: Collection[str]) -> str:
    """Returns `labelme (scenario: global)`: a dataset with its parameters in canonical JSON, a folder by its name.

    Args:
        dataset, dataset_params: as in `TrialSpec`.
        among: all datasets of the sweep, among which a folder's name is to differ.
    """
    name = short_name(dataset, among)
    params = json.loads(dataset_params)
    inside = ", ".join(f"{name}: {value}" for name, value in params.items())
    return f"{name} ({inside})" if inside else name


def is_thinned(dataset_params: str) -> bool:
    """Whether models train on less than all annotations of a dataset, by its parameters in canonical JSON."""
    return not json.loads(dataset_params).keys().isdisjoint(LEAVES_OUT)


def told_words(counts: Mapping[str, int]) -> str:
    """Returns how many points a search was told from which earlier sweeps; empty for none."""
    parts = [f"{counted(n, 'point')} told from {source}" for source, n in counts.items()]
    return ", ".join(parts)


def show_point(point: str | Mapping[str, Any]) -> str:
    """Returns a point as `groups 3, smoothing 0.1`; a dash for the defaults."""
    values: Mapping[str, Any] = json.loads(point) if isinstance(point, str) else point
    return ", ".join(f"{name} {show_value(value)}" for name, value in values.items()) or "–"


def show_value(value: Any) -> str:
    """Returns a hyper-parameter's value: fractions with three significant digits, the rest as JSON without quotes."""
    if isinstance(value, float):
        return f"{value:.3g}"
    return value if isinstance(value, str) else canonical_json(value).replace(",", ", ").replace('"', "")


def _value(value: Any) -> str:
    return {True: "yes", False: "no", None: "none"}[value] if value is None or isinstance(value, bool) else str(value)
