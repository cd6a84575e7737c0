"""Reads a dataset folder's files on its annotators: their names and features.

Features are columns of `annotators.csv`, or are in `annotator-features-KIND.npz`. A column of numbers is one feature;
its empty fields get the mean of the others, and a second feature of zeros and ones marks them. A column of words
becomes a feature of zeros and ones for each word. A column with more than `MOST_WORDS` different words names annotators
rather than describing them, and is not read.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64

from crowdsweep.arrays import AnnotatorFeatures
from crowdsweep.data import bounds
from crowdsweep.data.missing import MissingValues
from crowdsweep.data.on_disk import tables
from crowdsweep.data.on_disk.folder_files import check_names, check_present, feature_kinds, number, read_features_of
from crowdsweep.data.on_disk.tables import Column, Names
from crowdsweep.data.spelling import shared
from crowdsweep.errors import DataError

MOST_WORDS = 32
MOST_FEATURES = 4096
_TABLE = "annotators"  # kind of the features in annotators.csv, beside the kinds of .npz files
_NAME = "annotator"
_PREFIX = "annotator-features-"


def order_annotators(folder: Path, answering: Names, missing: MissingValues) -> Names:
    """Returns the ids of all annotators, declared or answering, in the order of their codes.

    Raises:
        DataError: a row of annotators.csv has no annotator id.
    """
    path = tables.find_table(folder, "annotators")
    declared: list[Names] = []
    if path is not None:
        for first, batch in tables.batches(path, [_NAME]):
            check_names(path, first, _NAME, batch[_NAME])
            check_present(path, first, _NAME, batch[_NAME], missing)
            declared.append(batch[_NAME].texts)
    names = tables.distinct([*declared, answering])
    return names.take(names.natural_order())


def kinds_of_features(folder: Path, missing: MissingValues) -> list[str]:
    """Returns the kinds of annotator features in a folder; `annotators` stands for the columns of annotators.csv."""
    return [*feature_kinds(folder, _PREFIX), *([_TABLE] if _columns(folder, missing) else [])]


def read_annotator_features(
    folder: Path, kind: str | None, names: Names, missing: MissingValues
) -> AnnotatorFeatures | None:
    """Returns the features of all annotators, float32, matched by id; rows of other annotators are ignored.

    Returns None if there are no features, or `kind` is `none`.

    Args:
        kind: kind to read; None if there is at most one; `annotators` for the columns of annotators.csv, `none` for no
            features.
        names: ids of the annotators, in the order of their codes.

    Raises:
        DataError: there are several kinds and none is chosen, an annotator has no features or several rows of them, or
            a value is not a finite number.
    """
    if kind == "none":
        return None
    kinds = feature_kinds(folder, _PREFIX)
    columns = {} if kind in kinds else _columns(folder, missing)
    known = [*kinds, *([_TABLE] if columns else [])]
    if kind is None and len(known) > 1:
        raise DataError(
            f"{folder}: several kinds of annotator features; set the dataset parameter annotator_features: "
            f"{' | '.join(known)} | none"
        )
    if kind is not None and kind not in known:  # also refuses a kind such as ../x, which leads out of the folder
        what = "columns other than annotator in annotators.csv" if kind == _TABLE else f"{_PREFIX}{kind}.npz"
        raise DataError(f"{folder}: expected {what}, found {', '.join(known) or 'no features of annotators'}")
    if not known:
        return None
    chosen = kind or known[0]
    if chosen in kinds:
        return read_features_of(folder / f"{_PREFIX}{chosen}.npz", "annotator", names, "annotator_features")
    return _coded(folder, columns, names)


def _columns(folder: Path, missing: MissingValues) -> Mapping[str, Column]:
    """Returns the columns of annotators.csv; empty if none of them is a feature."""
    path = tables.find_table(folder, "annotators")
    if path is None or set(tables.column_names(path)) <= {_NAME}:
        return {}
    parts: dict[str, tables.Stacking] = {}
    for first, batch in tables.batches(path, [_NAME, *tables.column_names(path)]):
        check_present(path, first, _NAME, batch[_NAME], missing)
        for name, column in batch.items():
            parts.setdefault(name, tables.Stacking()).add(column if name == _NAME else missing.emptied(column))
    columns = {name: found.joined() for name, found in parts.items()}
    return columns if any(name != _NAME and not _is_left(column) for name, column in columns.items()) else {}


def _coded(folder: Path, columns: Mapping[str, Column], names: Names) -> AnnotatorFeatures:
    path = tables.find_table(folder, "annotators")
    listed = Names.of(columns[_NAME].values())
    codes = columns[_NAME].codes
    for row in np.flatnonzero(np.bincount(codes, minlength=1)[codes] > 1)[1:2]:
        raise DataError(
            f"{path}, row {row + 1}, column annotator: expected distinct annotators where they have features, got "
            f"{listed[int(row)]!r} again"
        )
    place = listed.places_of(names)
    lacking = np.flatnonzero(place < 0)
    if len(lacking):
        unlisted = names.take(lacking)
        clash = next((f"; {other!r} is listed: is it meant?" for _, other in shared(unlisted, listed)), "")
        raise DataError(
            f"{path}: expected features of every annotator, {len(lacking)} are not listed, such as "
            f"{names[int(lacking[0])]!r}{clash}; add them, or set the dataset parameter annotator_features: none"
        )
    width = sum(1 if _is_numeric(column) else len(column.texts) for column in columns.values() if not _is_left(column))
    bounds.check_numbers((len(listed), width), str(path), "leave columns out")
    parts = [
        _numbers(path, name, column) if _is_numeric(column) else _words(column)
        for name, column in columns.items()
        if name != _NAME and not _is_left(column)
    ]
    if (n_features := sum(part.shape[1] for part in parts)) > MOST_FEATURES:
        raise DataError(
            f"{path}: expected at most {MOST_FEATURES} features of annotators, got {n_features}; leave columns out, or "
            f"write them as annotator-features-KIND.npz"
        )
    with np.errstate(over="ignore"):  # reported below
        features = np.concatenate(parts, axis=1)[place].astype(np.float32)
    for bad in np.flatnonzero(~np.isfinite(features).all(axis=1)):
        raise DataError(f"{path}: expected numbers that fit into 32 bits, got a larger one for {names[int(bad)]!r}")
    return features


def _is_numeric(column: Column) -> bool:
    """Returns whether all fields that are not empty, at least one, are numbers."""
    texts = [text for text in column.texts if text]
    return bool(texts) and not any(np.isnan(number(text)) for text in texts)


def _is_left(column: Column) -> bool:
    return len(column.texts) > MOST_WORDS and not _is_numeric(column)


def _numbers(path: Path | None, name: str, column: Column) -> Float64[np.ndarray, "rows features"]:
    values = np.array([number(text) if text else np.nan for text in column.texts])
    for code in np.flatnonzero(np.isinf(values)):
        row = 1 + column.first_row(int(code))
        raise DataError(f"{path}, row {row}, column {name}: expected a finite number, got {column.texts[int(code)]!r}")
    values = values[column.codes]
    missing = np.isnan(values)
    if not missing.any():
        return values[:, None]
    return np.stack([np.where(missing, values[~missing].mean(), values), missing], axis=1)


def _words(column: Column) -> Float32[np.ndarray, "rows features"]:
    """Returns a feature of zeros and ones for each word, the words in natural order."""
    rank = np.argsort(column.texts.natural_order())
    return np.eye(len(rank), dtype=np.float32)[rank[column.codes]]
