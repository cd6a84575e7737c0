"""Writes imported rows as a dataset folder: whole and checked, or not at all."""

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from crowdsweep.data.bounds import MOST_CLASSES
from crowdsweep.data.class_order import in_order
from crowdsweep.data.dataset import CrowdDataset, Scale
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.on_disk.folder_checks import spelled_otherwise
from crowdsweep.data.on_disk.folder_files import JOIN
from crowdsweep.data.on_disk.new_folder import written_whole
from crowdsweep.data.on_disk.shown import SHOWN_FILE, write_shown
from crowdsweep.data.on_disk.tables import Names
from crowdsweep.errors import DataError
from crowdsweep.files import csv_files
from crowdsweep.importing.coded_rows import CodedRows
from crowdsweep.importing.rows import ImportedRows


def write_rows(imported: ImportedRows, folder: Path, title: str = "", *, scale: Scale | None = None) -> CrowdDataset:
    """Writes a dataset folder as `written_rows` does, and returns the dataset."""
    with written_rows(imported, folder, title, scale=scale) as (dataset, _):
        return dataset


@contextmanager
def written_rows(
    imported: ImportedRows, folder: Path, title: str = "", *, scale: Scale | None = None
) -> Generator[tuple[CrowdDataset, Path]]:
    """Writes a dataset folder; yields the dataset that is read back from it, and a folder for further files.

    These files come with the others: `folder` is complete when the `with` block ends, or does not exist.

    The files are annotations.csv, items.csv, classes.csv and dataset.yaml; annotators.csv if annotators have
    attributes, `features-default.npz` if items have features, and `shown.jsonl` if the rows have such data.

    Args:
        imported: the rows.
        folder: the folder to write.
        title: title of the dataset; the folder's name by default.
        scale: scale of the labels, if the user said it and an answer has one class.

    Raises:
        DataError: the folder exists and is not empty, it cannot be written, or the rows make no valid dataset. Nothing
            is left behind then.
    """
    classes = _classes(imported)
    if len(classes) < 2 and not imported.multilabel:
        raise DataError(
            f"{imported.source}: expected labels of at least two classes, got only {classes[0]!r}; with one class "
            f"there is nothing to choose: is this the intended column or question, and is the file complete?"
        )
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"{imported.source}: expected at most {MOST_CLASSES:,} classes, got {len(classes):,}, such as "
            f"{classes[-1]!r}; is this the column or question of the labels?"
        )
    if scale not in (None, "multilabel") and imported.multilabel:
        raise DataError(
            f"{imported.source}: expected answers of one class each for a scale that is {scale}, got answers of "
            f"several; leave --scale out"
        )
    _check_gold(imported)
    token = _tokens(classes) if imported.multilabel else {label: label for label in classes}
    with written_whole(folder) as place:
        csv_files.write_columns(place / "annotations.csv", _annotations(imported.coded, token))
        columns = _items(imported, token)
        csv_files.write_columns(place / "items.csv", {name: Names.of(texts).array for name, texts in columns.items()})
        if imported.shown:
            write_shown(place / SHOWN_FILE, imported.items, imported.shown)
        if imported.attributes:
            names = dict.fromkeys(name for own in imported.attributes.values() for name in own if name != "annotator")
            people = ([who, *(own.get(name, "") for name in names)] for who, own in imported.attributes.items())
            csv_files.write_rows(place / "annotators.csv", ["annotator", *names], people)
        if imported.features:
            _write_features(place / "features-default.npz", imported)
        named = ((token[label], label) for label in classes)
        csv_files.write_rows(place / "classes.csv", ("label", "name"), named)
        text = yaml.safe_dump(_about(imported, folder, title, scale), sort_keys=False, allow_unicode=True)
        (place / "dataset.yaml").write_text(text, encoding="utf-8")
        yield read_folder(place), place


def _items(imported: ImportedRows, token: dict[str, str]) -> dict[str, Sequence[str]]:
    """Returns the columns of the items file."""
    said = {"split": imported.split, "text": imported.text, "text_b": imported.text_b, "image": imported.image}
    columns: dict[str, Sequence[str]] = {"item": imported.items}
    columns |= {name: [known.get(item, "") for item in imported.items] for name, known in said.items() if known}
    if imported.gold:
        columns["gold"] = [_joined(imported.gold.get(item, ()), token) for item in imported.items]
    return columns


def _about(imported: ImportedRows, folder: Path, title: str, scale: Scale | None) -> dict[str, Any]:
    """Returns the content of dataset.yaml."""
    name = folder.resolve().name
    about: dict[str, Any] = {
        "name": name,
        "title": title or name,
        "scale": "multilabel" if imported.multilabel else scale or ("ordinal" if imported.ordinal else "nominal"),
        "missing": sorted(imported.missing.words) if imported.missing.told else None,
        "images": os.path.relpath(imported.source.resolve().parent, folder.resolve()) if imported.image else None,
        "form": imported.form,
        "question": imported.question,
        "about": imported.about,
        "numbers": imported.numbers,
    }
    return {key: told for key, told in about.items() if told or told == []}


def _write_features(path: Path, imported: ImportedRows) -> None:
    lacking = [item for item in imported.items if item not in imported.features]
    if lacking:
        raise DataError(
            f"{imported.source}: expected features of every item, {len(lacking)} have none, such as {lacking[0]!r}; "
            f"leave items without an answer out of the gold, or --features out"
        )
    features = np.array([imported.features[item] for item in imported.items], dtype=np.float64)
    np.savez(path, features=features, item=np.array(list(imported.items)), name=np.array(imported.feature_names))


def _classes(imported: ImportedRows) -> list[str]:
    """Returns the classes that occur or are declared, in the order of `in_order`."""
    used = {*imported.classes, *(label for labels in imported.coded.labels for label in labels)}
    used |= {label for given in imported.gold.values() for label in given}
    return in_order(used)


def _check_gold(imported: ImportedRows) -> None:
    """Refuses gold that no label can agree with: gold of other items, or gold with the classes in another spelling."""
    if imported.gold and imported.gold.keys().isdisjoint(imported.coded.item.texts):
        raise DataError(
            f"{imported.source}: expected gold of items that have answers, got gold of {next(iter(imported.gold))!r}, "
            f"… and answers to {imported.rows[0].item!r}, …; correct the ids, or merge spellings with --normalise"
        )
    used = {label for labels in imported.coded.labels for label in labels}
    clashes = spelled_otherwise(used, (label for given in imported.gold.values() for label in given))
    if clashes:
        raise DataError(
            f"{imported.source}: expected gold spelled as the labels are, got {clashes}; correct one of them, or merge "
            f"them with --normalise"
        )


def _tokens(classes: Sequence[str]) -> dict[str, str]:
    """Returns the label to write for each class in multi-label answers: its name, without the joining character."""
    tokens = {label: label for label in classes if JOIN not in label}
    taken = set(tokens)
    for label in classes:
        if JOIN in label:
            token = label.replace(JOIN, "/")
            while token in taken:
                token += "/"
            tokens[label] = token
            taken.add(token)
    return tokens


def _joined(labels: Iterable[str], token: dict[str, str]) -> str:
    return JOIN.join(token[label] for label in labels)


def _annotations(rows: CodedRows, token: dict[str, str]) -> Mapping[str, Any]:
    """Returns the columns of annotations.csv, as coded texts."""
    texts = Names.of([_joined(labels, token) for labels in rows.labels])
    codes: Any = pa.array(rows.label)
    label = pa.DictionaryArray.from_arrays(codes, texts.array)
    weight = {} if rows.weight is None else {"weight": rows.weight.array}
    return {"item": rows.item.array, "annotator": rows.annotator.array, "label": label, **weight}
