"""Reads and writes a dataset folder.

    annotations.csv     item, annotator, label; optional weight, probability; other columns can be filtered on
    votes.csv           instead of annotations.csv if annotators are anonymous: item, label, count
    items.csv           optional: item; optional split (train, dev, test, unlabelled), gold, text, text_b, image (a file
                        in the folder `images` of dataset.yaml, else in this one); for tokens sentence (an id within a
                        split), position and token (which is their text); for multi-label items gold_CLASS (1, 0 or
                        empty) in place of gold if only some classes are known
    annotators.csv      optional: annotator; declares annotators, also those who gave no label; every other column is
                        a feature of the annotators (`annotator_files`)
    annotator-features-KIND.npz   optional: arrays `features` [n, d] and `annotator` [n]
    classes.csv         optional: label, name; the classes in order, used or not
    features-KIND.npz   optional: arrays `features` [n, d] and `item` [n]
    dataset.yaml        optional: name, title, scale (nominal, ordinal, multilabel), missing (texts that stand for a
                        missing value), images (the folder of the images)

Every .csv may be a .csv.gz or .parquet; a CSV may separate its fields by commas, semicolons, tabs or bars. Ids have no
meaning; codes follow their order (as numbers if all are whole numbers), so the order of rows never matters. A row
without a label is an answer that was not given, and is left out (`missing`). Multi-label answers join class labels by
`|`; for them an empty label is an answer that chose no class.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import yaml
from jaxtyping import Bool, Int8, Int32, Int64

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import choices_of
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Gold, Images, Items, NumberedNames
from crowdsweep.data.missing import USUAL
from crowdsweep.data.on_disk import folder_checks, folder_files, items_file, tables
from crowdsweep.data.on_disk.annotator_files import order_annotators, read_annotator_features
from crowdsweep.data.on_disk.description import read_description
from crowdsweep.data.on_disk.folder_files import Answers, Classes
from crowdsweep.data.on_disk.new_folder import written_whole
from crowdsweep.data.on_disk.tables import Names
from crowdsweep.errors import DataError
from crowdsweep.files import csv_files
from crowdsweep.paths import is_file


def is_dataset_folder(path: Path) -> bool:
    """Returns whether a folder holds annotations or votes."""
    return any(
        is_file(path / f"{stem}.{kind}") for stem in ("annotations", "votes") for kind in ("csv", "csv.gz", "parquet")
    )


def read_folder(
    path: str | Path, *, features: str | None = None, where: str | None = None, annotator_features: str | None = None
) -> CrowdDataset:
    """Reads a dataset folder. Memory grows with the number of rows, not with their width.

    Args:
        features: KIND of the `features-KIND.npz` to read; needed if there are several; `none` reads none. With
            `column=value`, the answers with that value become the features of their items (`_features_of_answers`).
        where: `column=value`: only annotations with that value in that column are read.
        annotator_features: KIND of the `annotator-features-KIND.npz` to read, or `annotators` for the columns of
            annotators.csv; needed if there are several; `none` reads none.

    Raises:
        DataError: a file, a row or a value cannot be used; the message says which.
    """
    folder = Path(path)
    folder_checks.check_files(folder)
    about = read_description(folder)
    source = folder_files.answers_path(folder)
    classes = folder_files.read_classes(folder, about.scale == "multilabel", about.missing)
    answers = folder_files.read_answers(source, classes, where)
    table, in_file = items_file.read_items(folder, classes)
    if not classes.declared:
        folder_checks.check_gold_spelling(folder, *_spelled(classes, answers.label.texts, table.get("gold", [])))
        classes = folder_files.infer_classes([*answers.label.texts, *table.get("gold", [])], classes, source)
    folder_checks.check_item_spelling(folder, answers.item.texts, Names.of(table["item"]))
    item_names, unit = _order_items(folder, answers, table)
    annotator_names = (
        None if answers.annotator is None else order_annotators(folder, answers.annotator.texts, about.missing)
    )
    answers = answers.among(item_names, annotator_names)
    annotations = _annotations(source, answers, classes)
    place = item_names.places_of(table["item"])
    return CrowdDataset(
        name=about.name,
        title=about.title,
        scale=about.scale,
        annotations=annotations,
        items=Items(
            n_items=len(item_names),
            features=folder_files.read_features(folder, features, item_names)
            if features is None or "=" not in features
            else _features_of_answers(source, features, where, classes, item_names),
            text=_placed_texts(table.get("text", table.get("token")), place, len(item_names)),
            text_b=_placed_texts(table.get("text_b"), place, len(item_names)),
            unit=unit,
        ),
        images=None
        if "image" not in table
        else Images(
            folder=folder.resolve() / about.images,
            names=_placed_texts(table["image"], place, len(item_names)) or [],
            rows=_placed_rows(in_file, place, len(item_names)),
            listed_in=tables.find_table(folder, "items") or folder,
        ),
        split=_placed_splits(table.get("split"), place, len(item_names)),
        gold=_gold(folder, table, in_file, place, classes),
        item_names=item_names,
        annotator_names=NumberedNames("vote", len(annotations)) if annotator_names is None else annotator_names,
        class_names=classes.names,
        class_labels=tuple(classes.code),
        annotator_features=None
        if annotator_names is None
        else read_annotator_features(folder, annotator_features, annotator_names, about.missing),
        left_out=answers.left_out,
        folder=str(folder.resolve()),
        unread_columns=(
            *folder_checks.unread_columns(folder),
            *(f"items: {name}" for name in items_file.gold_of_no_class(table, classes)),
        ),
    )


def _features_of_answers(
    source: Path, condition: str, where: str | None, classes: Classes, item_names: Names
) -> ItemFeatures:
    """Returns item features made from the answers that meet a condition; models learn from other answers.

    There is one feature per class: the class's share of the item's answers that meet the condition, after one more
    answer is spread evenly over the classes (multi-label: half of one more answer chooses each class). With n answers,
    of which c chose the class, it is (c + 1 / classes) / (n + 1).

    Raises:
        DataError: `where` does not exclude the answers that become features.
    """
    column, _, value = condition.partition("=")
    other, _, learned = (where or "").partition("=")
    if other != column or learned == value:
        raise DataError(
            f"dataset parameter features: {condition} makes features of answers, and no answer may be learned from as "
            f"well: expected `where: {column}=…` with another value, got {where!r}"
        )
    answers = folder_files.read_answers(source, classes, condition)
    answers = answers.keep(item_names.places_of(answers.item.texts)[answers.item.codes] >= 0)
    annotator_names = None if answers.annotator is None else answers.annotator.texts
    heard = _annotations(source, answers.among(item_names, annotator_names), classes)
    if classes.joined:
        choices = choices_of(heard)
        shares, evenly = choices.shares(), 0.5
        judged = np.bincount(choices.item, weights=choices.weight, minlength=len(item_names))
    else:
        shares, evenly, judged = heard.label_distribution(), 1.0 / heard.n_classes, heard.counts.sum(axis=1)
    return ((judged[:, None] * shares + evenly) / (judged[:, None] + 1.0)).astype(np.float32)


def _spelled(classes: Classes, *columns: Iterable[str]) -> list[list[str]]:
    """Returns the class labels in the fields of each column."""
    return [[part for text in dict.fromkeys(texts) if text for part in classes.parts(text)] for texts in columns]


def _order_items(
    folder: Path, answers: Answers, table: Mapping[str, Sequence[str]]
) -> tuple[Names, Int32[np.ndarray, " items"] | None]:
    """Returns the ids of all items in the order of their codes and, for tokens, the unit (sentence) of each."""
    listed = Names.of(table["item"])
    if "sentence" not in table:
        names = tables.distinct([listed, answers.item.texts, answers.asked])
        return names.take(names.natural_order()), None
    unlisted = np.flatnonzero(listed.places_of(answers.item.texts) < 0)
    if len(unlisted):
        name = answers.item.texts[int(unlisted[0])]
        raise DataError(f"{folder}: expected every token in the items file, got an annotation of {name!r}")
    sentence = tables.coded(table["sentence"])
    rank = np.empty(len(sentence.texts), dtype=np.int64)
    rank[sentence.texts.natural_order()] = np.arange(len(rank))
    # Sentence ids are unique only within a split: public datasets number each split's sentences from zero.
    split = [SPLITS.index(name) if name else 0 for name in table.get("split", [""] * len(listed))]
    _, unit = np.unique(np.array(split) * len(rank) + rank[sentence.codes], return_inverse=True)
    position = np.array([folder_files.number(text) for text in table.get("position", ["?"] * len(listed))])
    if np.isnan(position).any():
        raise DataError(f"{folder}: tokens with a sentence need a numeric column position in the items file")
    order = np.lexsort((position, unit))
    clash = np.flatnonzero((np.diff(unit[order]) == 0) & (np.diff(position[order]) == 0))
    if len(clash):
        names = " and ".join(repr(listed[int(order[place])]) for place in (clash[0], clash[0] + 1))
        raise DataError(f"{folder}: expected one token at each position of a sentence, got {names} at the same one")
    return listed.take(order), unit[order].astype(np.int32)


def _annotations(source: Path, answers: Answers, classes: Classes) -> Annotations:
    """Returns the rows of answers that are coded among the names of all items and annotators (`Answers.among`)."""
    rows, label = classes.rows(answers.label, source)
    probability = None if answers.probability is None else answers.probability[rows]
    empty = np.flatnonzero(answers.label.codes == answers.label.texts.find(""))
    if len(empty):  # only multi-label answers can be empty: each becomes one row that chooses nothing
        sure = np.ones(len(label)) if probability is None else probability
        probability = np.append(sure, np.zeros(len(empty)))
        rows, label = (
            np.append(cast("np.ndarray", rows), empty),
            np.append(label, np.zeros_like(label, shape=len(empty))),
        )
    item, n_items = answers.item.codes[rows], len(answers.item.texts)
    if answers.annotator is None:
        count = np.asarray(answers.count, dtype=np.int64)[rows]
        return Annotations.from_votes(
            item=item, label=label, count=count, n_items=n_items, n_classes=len(classes.names)
        )
    return Annotations.of(
        item=item,
        annotator=answers.annotator.codes[rows],
        label=label,
        weight=None if answers.weight is None else answers.weight[rows],
        probability=probability,
        n_items=n_items,
        n_annotators=len(answers.annotator.texts),
        n_classes=len(classes.names),
    )


def _gold(
    folder: Path,
    table: Mapping[str, Sequence[str]],
    in_file: Int64[np.ndarray, " rows"],
    place: np.ndarray,
    classes: Classes,
) -> Gold:
    by_class = items_file.gold_by_class(folder, table, in_file, classes)
    if by_class is None:
        rows, label = classes.rows(tables.coded(table.get("gold", [])), folder)
        applies = None
    else:
        known = {code: np.flatnonzero(column >= 0) for code, column in by_class.items()}
        rows = np.concatenate(list(known.values()))
        label = np.repeat(np.array(list(known), dtype=np.int32), [len(found) for found in known.values()])
        applies = np.concatenate([by_class[code][found] == 1 for code, found in known.items()])
    item = place[rows].astype(np.int32)
    order = np.lexsort((label, item))
    return Gold(item=item[order], label=label[order], applies=None if applies is None else applies[order])


def _placed_texts(column: Sequence[str] | None, place: np.ndarray, n_items: int) -> list[str] | None:
    if column is None:
        return None
    placed = [""] * n_items
    for code, text in zip(place.tolist(), column, strict=True):
        placed[code] = text
    return placed


def _placed_rows(rows: Int64[np.ndarray, " rows"], place: np.ndarray, n_items: int) -> list[int]:
    placed = np.zeros(n_items, dtype=np.int64)
    placed[place] = rows
    return placed.tolist()


def _placed_splits(column: Sequence[str] | None, place: np.ndarray, n_items: int) -> Int8[np.ndarray, " items"]:
    split = np.zeros(n_items, dtype=np.int8)
    if column is not None:
        split[place] = [SPLITS.index(name) if name else 0 for name in column]
    return split


def write_folder(dataset: CrowdDataset, path: str | Path) -> None:
    """Writes a dataset as a folder, from which `read_folder` reads the same dataset.

    Features of items become `features-default.npz`, those of annotators `annotator-features-default.npz`.

    Raises:
        DataError: the folder holds files already, or the dataset cannot be written (votes with weights or
            probabilities).
    """
    with written_whole(Path(path)) as folder:
        description: dict[str, object] = {"name": dataset.name, "title": dataset.title, "scale": dataset.scale}
        if any(USUAL.among(Names.of(names)).any() for names in (dataset.item_names, dataset.annotator_names)):
            description["missing"] = []  # the user declared that these are names
        if dataset.images is not None:
            description["images"] = os.path.relpath(dataset.images.folder, Path(path).resolve())
        (folder / "dataset.yaml").write_text(yaml.safe_dump(description, sort_keys=False), encoding="utf-8")
        _write(folder / "classes.csv", {"label": _labels(dataset), "name": list(dataset.class_names)})
        _write_answers(dataset, folder)
        _write_items(dataset, folder)
        if dataset.items.features is not None:
            names = np.array(list(dataset.item_names))
            np.savez_compressed(folder / "features-default.npz", features=dataset.items.features, item=names)
        if dataset.annotator_features is not None:
            names = np.array(list(dataset.annotator_names))
            path = folder / "annotator-features-default.npz"
            np.savez_compressed(path, features=dataset.annotator_features, annotator=names)


def _labels(dataset: CrowdDataset) -> list[str]:
    """Returns the class labels to write to files; class codes if the labels would be empty or ambiguous there."""
    labels = list(dataset.class_labels)
    joins = dataset.scale == "multilabel" and any(folder_files.JOIN in label for label in labels)
    if joins or not all(labels) or len(set(labels)) < len(labels):
        return [str(code) for code in range(dataset.n_classes)]
    return labels


def _write_answers(dataset: CrowdDataset, folder: Path) -> None:
    rows = dataset.annotations
    names, labels = Names.of(dataset.item_names), Names.of(_labels(dataset))
    if rows.anonymous:
        if rows.weight is not None or rows.probability is not None:
            raise DataError(f"{folder}: votes cannot carry weights or probabilities")
        counts = rows.counts.tocoo()
        votes = {"item": names.take(counts.coords[0]), "label": labels.take(counts.coords[1])}
        _write(folder / "votes.csv", {**votes, "count": counts.data.astype(np.int64)})
        return
    annotators = Names.of(dataset.annotator_names)
    if rows.n_active_annotators < rows.n_annotators:
        _write(folder / "annotators.csv", {"annotator": annotators})
    if dataset.scale == "multilabel":
        first, label, nothing = _joined_rows(rows, _labels(dataset))
    else:
        first, label, nothing = np.arange(len(rows)), labels.take(rows.label), np.zeros(len(rows), dtype=bool)
    columns: dict[str, Sequence[str] | np.ndarray] = {
        "item": names.take(rows.item[first]),
        "annotator": annotators.take(rows.annotator[first]),
        "label": label,
    }
    if rows.weight is not None:
        columns["weight"] = rows.weight[first].astype(np.float64)
    if rows.probability is not None and not (nothing.any() and (rows.probability[first[~nothing]] == 1).all()):
        columns["probability"] = rows.probability[first].astype(np.float64)
    _write(folder / "annotations.csv", columns)


def _joined_rows(rows: Annotations, class_labels: Sequence[str]) -> tuple[np.ndarray, Names, np.ndarray]:
    """Returns the first row of each multi-label answer, its class labels joined, and whether it chose no class.

    If a pair chose a class n times, the class is in n answers of that pair. Rows with other weights or probabilities
    form other answers.
    """
    repeat = np.zeros(len(rows), dtype=np.int64)
    same = (np.diff(rows.item) == 0) & (np.diff(rows.annotator) == 0) & (np.diff(rows.label) == 0)
    for row in np.flatnonzero(same) + 1:
        repeat[row] = repeat[row - 1] + 1
    extras = [extra for extra in (rows.weight, rows.probability) if extra is not None]
    answer = [rows.item, rows.annotator, repeat, *extras]
    order = np.lexsort((rows.label, *answer[::-1]))
    starts = np.ones(len(rows), dtype=bool)
    starts[1:] = np.any([np.diff(column[order]) != 0 for column in answer], axis=0)
    ends = np.append(np.flatnonzero(starts), len(rows))
    labels, nothing = rows.label[order], _empty_choices(rows)[order]
    texts = [
        "" if nothing[start] else folder_files.JOIN.join(class_labels[int(code)] for code in labels[start:end])
        for start, end in pairwise(ends.tolist())
    ]
    return order[starts], Names.of(texts), nothing[starts]


def _empty_choices(rows: Annotations) -> Bool[np.ndarray, " annotations"]:
    """Returns a mask of the rows that `read_folder` makes from an empty label."""
    if rows.probability is None:
        return np.zeros(len(rows), dtype=bool)
    sizes = np.diff(np.append(rows.pair_starts, len(rows)))
    return np.repeat(sizes == 1, sizes) & (rows.probability == 0) & (rows.label == 0)


def _write_items(dataset: CrowdDataset, folder: Path) -> None:
    columns: dict[str, Sequence[str] | np.ndarray] = {"item": list(dataset.item_names)}
    if dataset.split.any():
        columns["split"] = [SPLITS[code] if code else "" for code in dataset.split]
    if dataset.gold.applies is not None:
        columns |= _gold_columns(dataset)
    elif len(dataset.gold):
        gold, labels = [""] * dataset.items.n_items, _labels(dataset)
        for item, label in zip(dataset.gold.item.tolist(), dataset.gold.label.tolist(), strict=True):
            gold[item] += f"{folder_files.JOIN}{labels[label]}" if gold[item] else labels[label]
        columns["gold"] = gold
    for name, texts in (("text", dataset.items.text), ("text_b", dataset.items.text_b)):
        if texts is not None:
            columns[name] = list(texts)
    if dataset.images is not None:
        columns["image"] = list(dataset.images.names)
    if dataset.items.unit is not None:
        columns |= {"sentence": dataset.items.unit, "position": np.arange(dataset.items.n_items)}
    _write(folder / "items.csv", columns)


def _gold_columns(dataset: CrowdDataset) -> dict[str, Sequence[str]]:
    """Returns a column `gold_LABEL` for each class with gold."""
    gold, columns, labels = dataset.gold, dict[str, Sequence[str]](), _labels(dataset)
    for label in np.unique(gold.label):
        column = np.full(dataset.items.n_items, "", dtype="<U1")
        mine = gold.label == label
        column[gold.item[mine]] = np.where(np.asarray(gold.applies)[mine], "1", "0")
        columns[f"{items_file.GOLD_OF_CLASS}{labels[label]}"] = column.tolist()
    return columns


def _write(path: Path, columns: Mapping[str, Sequence[str] | np.ndarray]) -> None:
    arrays = [
        pa.array(values) if isinstance(values, np.ndarray) else Names.of(values).array for values in columns.values()
    ]
    csv_files.write_table(path, pa.Table.from_arrays(arrays, names=list(columns)))
