"""Reads tables with a row per answer: any CSV by named columns (`csv`), and crowd-kit's with its own (`crowd-kit`).

picture,user,answer,expert        data import csv FILE --item picture --annotator user --label answer --gold expert
p1,ann,cat,cat
p1,bob,dog,cat
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from crowdsweep.errors import DataError, shortened
from crowdsweep.importing.delimited import header_of, records
from crowdsweep.importing.features import FeaturesOfItems
from crowdsweep.importing.gold import GoldClasses, gold_file
from crowdsweep.importing.image_names import ImagesOfItems
from crowdsweep.importing.measures import check_no_measures
from crowdsweep.importing.rows import FileOptions, ImportedRows, RowCollector, note_chose_nothing
from crowdsweep.importing.several import without_lists
from crowdsweep.importing.whole_columns import is_positive, read_whole_columns


def read_csv(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads a table whose columns the user names; gold is in one of its columns or in a file of its own.

    Raises:
        DataError: a column is not named, does not exist, or lacks a required value in some row; gold contradicts
            itself.
    """
    named = {"--item": asked.item, "--annotator": asked.annotator, "--label": asked.label}
    if None in named.values():
        lacking = ", ".join(f"{option} COLUMN" for option, column in named.items() if column is None)
        header = shortened(", ".join(header_of(path)), 500) or "an empty file"
        raise DataError(f"{path}: expected {lacking}; the columns are {header}")
    return _read(path, asked)


def read_crowd_kit(path: Path, asked: FileOptions) -> ImportedRows:
    """Reads a table with the columns task, worker, label; an answer without a label is left out."""
    return _read(path, FileOptions(item="task", annotator="worker", label="label", missing=asked.missing))


def _read(path: Path, asked: FileOptions) -> ImportedRows:
    imported = read_whole_columns(path, asked) or _read_row_by_row(path, asked)
    imported = without_lists(imported, multilabel=asked.scale == "multilabel")
    rows = imported.coded
    times = np.bincount(rows.label, minlength=len(rows.labels)).tolist()
    check_no_measures(path, {label: n for given, n in zip(rows.labels, times, strict=True) for label in given})
    return imported


def _read_row_by_row(path: Path, asked: FileOptions) -> ImportedRows:
    gathered, gold = RowCollector(path, asked.missing), GoldClasses(asked.missing)
    file = gold_file(asked.gold, header_of(path), path)
    inside = [asked.gold] if asked.gold is not None and file is None else []
    given = (asked.item, asked.annotator, asked.label, asked.weight, asked.text, asked.image)
    named = [name for name in (*given, *inside, *(asked.features or ())) if name is not None]
    images = ImagesOfItems(path, asked.image, asked.missing)
    features = FeaturesOfItems(asked.features or (), asked.missing)
    chose_nothing = 0
    for where, record in records(path, named, gathered.leave_out):
        text = None if asked.text is None else record[asked.text]
        item = gathered.item(record[str(asked.item)], f"{where}, column {asked.item}", text)
        features.add(item, record, where)
        images.add(item, record, where)
        weight = "" if asked.weight is None else record[asked.weight].strip()
        weight = "" if asked.missing(weight) else weight
        if weight and not is_positive(weight):
            raise DataError(f"{where}, column {asked.weight}: expected a positive finite number, got {weight!r}")
        label = record[str(asked.label)]
        chose_nothing += (nothing := asked.chose_nothing(label))
        gathered.answer(
            item,
            record[str(asked.annotator)],
            [] if nothing else [label],
            where,
            key=f"column {asked.label}",
            weight=weight,
        )
        if inside:
            gold.add(item, record[str(asked.gold)], f"{where}, column {asked.gold}")
    if file is not None:
        gold.add_file(gathered, file, str(asked.item), str(asked.label))
    gold.note(gathered)
    images.note(gathered)
    gathered.notes += note_chose_nothing(chose_nothing)
    imported = gathered.imported(multilabel=asked.scale == "multilabel", gold=gold.found)
    return replace(
        imported, multilabel=False, features=features.found, feature_names=features.columns, image=images.found
    )
