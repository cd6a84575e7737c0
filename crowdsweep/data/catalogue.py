"""Finds a dataset by its name or folder, and loads it.

A built-in dataset is a file of `data/sources/`, a file on the search path `CROWDSWEEP_PLUGINS`, or an entry point
`crowdsweep.datasets` (see `discovery`). Its name takes precedence over a folder of that name on the search path
(`search_path`); a folder can always be given by its path. A built-in source is a module with a constant
`SOURCE = Source(...)`.
"""

import math
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from crowdsweep.data.computed.features import FITTED, with_computed
from crowdsweep.data.computed.kinds import computed, is_computed
from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.on_disk.folder import is_dataset_folder, read_folder
from crowdsweep.data.public import PUBLIC_DATASETS
from crowdsweep.data.search_path import SEARCH_PATH, search_path
from crowdsweep.errors import BadInput, DataError, UnknownName
from crowdsweep.meant import instead
from crowdsweep.paths import expand_home, is_file, is_folder, names_in
from crowdsweep.registry import discovery, parameters
from crowdsweep.seeds import SeedStream

CrowdName = Literal["setup1", "cifar", "bad-votes"]
"""A crowd that can be simulated over gold (`data.crowds_over_gold`)."""


@dataclass(frozen=True, kw_only=True)
class CommonParams:
    """Parameters that every dataset takes (`check_params` reads them, `splits.prepare` applies them).

    Attributes:
        scenario: whether annotators are known; in `global` every label has an annotator of its own.
        training: `split`: train items only, the default if there are any; `all`: every annotated item.
        redundancy: the most labels of each training item, drawn by the trial's seed.
        allocation: `adaptive`: `redundancy` labels per item on average, where they are most informative; else evenly.
        annotator_dropout: share of the annotators who are left out of training.
        crowd: the simulated crowd that answers the items with gold, in place of the real crowd.
        labels_per_item: the mean number of labels per item of a simulated crowd.
        annotators: the number of annotators: those of a real crowd are each split into several who share the answers;
            of a simulated crowd it is the size.
        folds: number of folds of cross-validation, instead of the dataset's splits: one fold tests, the next is dev.
    """

    scenario: Literal["individual", "global"] | None = None
    training: Literal["split", "all"] | None = None
    redundancy: Annotated[int, Ge(1)] | None = None
    allocation: Literal["even", "adaptive"] | None = None
    annotator_dropout: Annotated[float, Ge(0), Lt(1)] | None = None
    crowd: CrowdName | None = None
    labels_per_item: Annotated[float, Gt(0)] | None = None
    annotators: Annotated[int, Ge(1)] | None = None
    folds: Annotated[int, Ge(3)] | None = None


@dataclass(frozen=True, kw_only=True)
class FolderParams:
    """Parameters that every dataset folder takes in addition.

    Attributes:
        features: NAME of the file `features-NAME.npz`; computed features, `{text: tfidf}`, `{image: timm/NAME}`; or a
            condition on annotations, `platform=mt`, whose answers become features.
        where: condition on the annotations to read, `platform=f8`.
        annotator_features: NAME of the file `annotator-features-NAME.npz`; `annotators` for the columns of
            annotators.csv; `none` for no features.
    """

    features: str | None = None
    where: str | None = None
    annotator_features: str | None = None


COMMON_PARAMS = tuple(field.name for field in fields(CommonParams))
_NO_FOLDERS = {
    r"\b[a-z][a-z0-9]+:/": "data are read from folders; `crowdsweep init FILE` makes one of a file that was downloaded",
    r"[*?]": "patterns are not expanded; name each folder",
    r"\$\w|\$\{": "variables are not replaced; write the path, or put the folder above it on CROWDSWEEP_DATA",
    r"\\": "folders are separated by /",
    r"\.(csv|tsv|jsonl?|xlsx|parquet|txt)$": "`crowdsweep init FILE` makes a dataset's folder of a file",
}
"""What may have been meant by a path that leads nowhere, by its form."""
FOLDER_PARAMS = tuple(field.name for field in fields(FolderParams))


@dataclass(frozen=True, kw_only=True)
class Source:
    """A built-in dataset.

    Attributes:
        name: name of the dataset in a sweep file.
        defaults: the dataset's own parameters with their defaults (`{"annotators": 100, "feature_seed": 0}`); the
            common ones (`scenario`, `training`, `redundancy`) need not be listed.
        base: makes the part that no trial's seed changes (features, gold, splits) from the full parameters. Called
            once, in the driver.
        draw: adds the part that depends on the trial's seed (a simulated crowd) to that base; None if there is no such
            part. Called in the actor with `SeedStream(trial seed).child("crowd")`, so every model gets the same crowd.
        version: raised when the same parameters give other numbers; part of the fingerprint through
            `CrowdDataset.params`.
    """

    name: str
    title: str
    defaults: Mapping[str, Scalar]
    base: Callable[[Mapping[str, Scalar]], CrowdDataset]
    draw: Callable[[CrowdDataset, SeedStream], CrowdDataset] | None = None
    version: int = 1


def names() -> list[str]:
    """Returns the names of the built-in datasets and of the folders on the search path, sorted; imports no source."""
    return sorted({*discovery.find("dataset"), *_folders()})


def source(name: str) -> Source | None:
    """Returns the built-in dataset of that name, or None; imports only that one."""
    place = discovery.get("dataset", name)
    return None if place is None else discovery.load(place)


def load(name: str, params: Mapping[str, Scalar]) -> CrowdDataset:
    """Loads the base dataset: everything that no trial's seed changes.

    Args:
        name: a built-in dataset, a folder on the search path `CROWDSWEEP_DATA`, or a folder's path.
        params: dataset parameters. A built-in dataset takes its own. A folder takes `features` (a features file, or
            computed features such as `text:tfidf`), `annotator_features` (features of annotators) and `where` (a
            filter such as `platform=f8`). The common ones are checked here and applied by `splits.prepare`.

    Raises:
        UnknownName: the dataset or a parameter is not known.
        DataError: a parameter's value or the folder cannot be used.
    """
    found = source(name)
    own = FOLDER_PARAMS if found is None else tuple(found.defaults)
    folder = None if found is not None else find_folder(name)
    check_params(params, own, f"dataset {name}")
    if found is not None:
        full = {key: _as_default(params.get(key, default), default) for key, default in found.defaults.items()}
        base = found.base(full)
        return replace(base, params={**full, "version": found.version})
    assert folder is not None  # noqa: S101 - `find_folder` raised otherwise
    asked = asdict(_record_of(FolderParams, FOLDER_PARAMS, params, f"dataset {name}"))
    kind = asked["features"]
    if kind is None or not is_computed(kind):
        base = read_folder(folder, **asked)
    else:
        base = with_computed(read_folder(folder, **{**asked, "features": "none"}), kind)
    return replace(base, params={key: params[key] for key in FOLDER_PARAMS if params.get(key) is not None})


def of_base(name: str, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Returns the dataset parameters that affect `load`: all but those that `splits.prepare` applies."""
    found = source(name)
    own = () if found is None else tuple(found.defaults)
    return {key: value for key, value in params.items() if key not in COMMON_PARAMS or key in own}


def check_params(params: Mapping[str, Scalar], own: tuple[str, ...], where: str) -> CommonParams:
    """Checks the names of dataset parameters, and the values of the common ones, which it returns.

    Args:
        own: names that this dataset takes in addition to the common ones.

    Raises:
        UnknownName: a parameter is not known.
        DataError: a common parameter has an invalid value.
    """
    for key in params:
        if key not in (*COMMON_PARAMS, *own):
            raise UnknownName("dataset parameter", key, (*COMMON_PARAMS, *own), where)
    asked: CommonParams = _record_of(CommonParams, COMMON_PARAMS, params, where)
    if asked.allocation == "adaptive" and asked.redundancy is None:
        raise DataError(
            f"{where}, parameter allocation: expected redundancy with adaptive, which sets how many labels an item "
            f"has on average; got none"
        )
    simulated = asked.crowd is not None or "labels_per_item" in own
    if asked.annotators is not None and asked.scenario == "global" and not simulated:
        raise DataError(f"{where}: scenario global makes every label an annotator of its own; leave annotators out")
    if asked.folds is not None:
        _check_fitted(params.get("features"), where)
    return asked


def _check_fitted(features: Scalar, where: str) -> None:
    """Refuses features that are fitted to training items, since with folds each seed has other training items."""
    if isinstance(features, str) and is_computed(features) and computed(features).method in FITTED:
        raise DataError(
            f"{where}, parameter folds: expected features that no training item decides, got {features}: each fold "
            f"trains on other items, and would have been read by the words of all; leave folds out, or take the "
            f"features of an encoder ({{text: sentence-transformers/NAME}})"
        )


def number_param(
    params: Mapping[str, Scalar],
    name: str,
    *,
    at_least: int | float = -math.inf,
    at_most: int | float = math.inf,
    above: int | float = -math.inf,
    below: int | float = math.inf,
) -> float:
    """Returns a numeric dataset parameter after a check of its range.

    Raises:
        DataError: the value is not a number, or outside its range.
    """
    value: Any = params[name]
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("at least", at_least), ("above", above), ("at most", at_most), ("below", below))
        if math.isfinite(bound)
    ]
    expected = " ".join(["a number", " and ".join(bounds)]).strip()

    def fits(other: Any) -> bool:
        is_number = isinstance(other, int | float) and not isinstance(other, bool)
        return is_number and at_least <= other <= at_most and above < other < below

    if not fits(value) or not math.isfinite(value):
        written = instead(value, fits) or _as_list([value])
        raise DataError(f"dataset parameter {name}: expected {expected}, got {value!r}{written}")
    return float(value)


def _as_default(value: Scalar, default: Scalar) -> Scalar:
    """Returns 5 as 5.0 if the default is a float, so that both give one dataset with one fingerprint."""
    return float(value) if isinstance(default, float) and type(value) is int else value


def whole_param(params: Mapping[str, Scalar], name: str, *, at_least: int) -> int:
    """Returns a dataset parameter after a check that it is a whole number in its range.

    Raises:
        DataError: the value is not a whole number, or too small.
    """
    value = number_param(params, name, at_least=at_least)
    if not value.is_integer():
        raise DataError(f"dataset parameter {name}: expected a whole number, got {params[name]!r}")
    return int(value)


def _record_of(record: type[Any], names: tuple[str, ...], params: Mapping[str, Scalar], where: str) -> Any:
    """Returns a record of these parameters, of which null is the same as none given."""
    given = {key: params[key] for key in names if params.get(key) is not None}
    try:
        return parameters.build(record, given, where)
    except BadInput as error:
        raise DataError(f"{error}{_as_list(given.values())}") from None


def _as_list(values: Iterable[Scalar]) -> str:
    """Returns how several values of a dataset parameter are written, if somebody wrote `1,3`; else nothing."""
    several = [value for value in values if isinstance(value, str) and "," in value]
    return f"; write [{several[0]}] for one dataset each" if several else ""


def _folders() -> list[str]:
    return [
        folder.name
        for place in search_path()
        for folder in (place / name for name in names_in(place))
        if is_dataset_folder(folder)
    ]


def find_folder(name: str) -> Path:
    """Returns the folder that a name or path means; a name is only ever joined with entries of the search path.

    Raises:
        DataError: a path leads to no folder or to a file, or the name is that of a public dataset that is not fetched.
        UnknownName: no folder of that name is found.
    """
    path = expand_home(name)
    if len(path.parts) == 1 and name not in (".", ".."):
        for place in search_path():
            if is_dataset_folder(place / name):
                return place / name
    if is_folder(path):
        return path
    if is_file(path):
        raise DataError(
            f"{name}: expected a dataset's folder, got a file; `crowdsweep init {shlex.quote(name)}` makes one of it"
        )
    if len(path.parts) > 1 or "\\" in name:
        told = next((f"; {told}" for pattern, told in _NO_FOLDERS.items() if re.search(pattern, name)), "")
        raise DataError(
            f"dataset {name}: expected a folder with annotations.csv or votes.csv, found no such folder{told}"
        )
    places = ", ".join(map(str, search_path())) or "nothing"
    where = f"no folder of that name here or in {SEARCH_PATH} ({places})"
    if name in PUBLIC_DATASETS:
        raise DataError(f"dataset {name}: {where}; `crowdsweep fetch {name}` gets it")
    raise UnknownName("dataset", name, names(), where)
