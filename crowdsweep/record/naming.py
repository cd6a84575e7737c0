"""Short texts for datasets and points, in the words of the sweep file: `labelme individual`, `groups 3`."""

import json
from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from crowdsweep.data.dataset import LEAVES_OUT
from crowdsweep.record.spec import canonical_json
from crowdsweep.units import counted

SPEAKS_FOR_ITSELF = "scenario"
"""The dataset parameter whose value is shown without its name."""


def dataset_words(dataset: str, params: Mapping[str, Any], among: Collection[str] = ()) -> str:
    """Returns a short text for a dataset with its parameters: `labelme individual (annotators 3)`.

    Args:
        dataset: as in `TrialSpec`: a name, or the full path of a folder, of which the end is shown.
        among: all datasets that are shown together; enough of a folder's path is shown to tell it from the others.
    """
    inside = ", ".join(f"{name} {_value(value)}" for name, value in params.items() if name != SPEAKS_FOR_ITSELF)
    words = [short_name(dataset, among), *([str(params[SPEAKS_FOR_ITSELF])] if SPEAKS_FOR_ITSELF in params else [])]
    return " ".join([*words, *([f"({inside})"] if inside else [])])


def short_name(dataset: str, among: Collection[str] = ()) -> str:
    """Returns a dataset's name; for a folder, the shortest end of its path that no other dataset in `among` has."""
    parts = PurePath(dataset).parts if dataset.startswith("/") else ()
    if len(parts) < 2:
        return dataset
    others = [PurePath(other).parts for other in among if other != dataset]
    for length in range(1, len(parts)):
        if not any(other[-length:] == parts[-length:] for other in others):
            return "/".join(parts[-length:])
    return dataset


def describe_dataset(dataset: str, dataset_params: str, among: Collection[str]) -> str:
    """Returns a text for a dataset with its named parameters: `labelme (scenario: global)`.

    Args:
        dataset_params: as in `TrialSpec`, but as canonical JSON.
        among: all datasets of the sweep, as for `short_name`.
    """
    name = short_name(dataset, among)
    params = json.loads(dataset_params)
    inside = ", ".join(f"{name}: {value}" for name, value in params.items())
    return f"{name} ({inside})" if inside else name


def is_thinned(dataset_params: str) -> bool:
    """Whether a dataset's parameters, in canonical JSON, leave out some of the training annotations."""
    return not json.loads(dataset_params).keys().isdisjoint(LEAVES_OUT)


def told_words(counts: Mapping[str, int]) -> str:
    """Returns a text with the number of points that a search was told from each earlier sweep; empty for none."""
    parts = [f"{counted(n, 'point')} taken from {source}" for source, n in counts.items()]
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
