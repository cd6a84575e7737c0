"""A dataset folder on disk <-> a dataset.

    annotations.csv     item, annotator, label; optional weight, probability; other columns can be filtered on
    votes.csv           instead: item, label, count, where annotators are anonymous
    items.csv           optional: item; optional split (train, dev, test, unlabelled), gold, text, text_b, and for tokens
                        sentence and position
    annotators.csv      optional: annotator; declares annotators, also those who gave no label
    classes.csv         optional: label, name; the classes in order, used or not
    features-KIND.npz   optional: arrays `features` [n, d] and `item` [n]
    dataset.yaml        optional: name, title, scale (nominal, ordinal, multilabel)

Every .csv may be a .parquet. Ids are opaque; codes follow their order (as numbers where all are whole numbers), so the
order of rows never matters. Multi-label answers join class labels by `|`.
"""

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import yaml

from crowdsweep.data import tables
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import SPLITS, CrowdDataset, Gold, Items, NumberedNames, Scale
from crowdsweep.errors import DataError

Codes = np.ndarray  # int32, one for each row
_JOIN = "|"
_ITEM_COLUMNS = ("split", "gold", "text", "text_b", "sentence", "position")


@dataclass(frozen=True, kw_only=True)
class _Classes:
    """Class labels as they stand in the files, their codes, and their names; without a classes file, open."""

    code: Mapping[str, int]
    names: tuple[str, ...]
    declared: bool
    joined: bool

    def parts(self, text: str) -> list[str]:
        """Returns the class labels in one field."""
        return sorted(set(text.split(_JOIN))) if self.joined else [text]

    def unknown(self, text: str) -> bool:
        return self.declared and any(part not in self.code for part in self.parts(text))

    def expected(self) -> str:
        shown = ", ".join(list(self.code)[:12]) + (", …" if len(self.code) > 12 else "")
        return f"{'labels (joined by |)' if self.joined else 'one'} of the classes {shown}"

    def rows(self, code: Codes, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns, for fields texts[code], the number of the field and the class code of each label in it."""
        lists = [[self.code[part] for part in self.parts(text)] if text else [] for text in texts]
        lengths = np.array([len(part) for part in lists], dtype=np.int64)
        flat = np.array([label for part in lists for label in part], dtype=np.int32)
        starts = np.cumsum(lengths) - lengths
        field_of_row = np.repeat(np.arange(len(code)), lengths[code])
        first = np.cumsum(lengths[code]) - lengths[code]
        return field_of_row, flat[starts[code][field_of_row] + np.arange(len(field_of_row)) - first[field_of_row]]


@dataclass(kw_only=True)
class _Answers:
    """The rows of annotations or votes, coded by the texts that occur."""

    item: Codes
    item_texts: pa.StringArray
    label: Codes
    label_texts: list[str]
    annotator: Codes | None = None
    annotator_texts: pa.StringArray = field(default_factory=lambda: pa.array([], pa.string()))
    weight: np.ndarray | None = None
    probability: np.ndarray | None = None
    count: np.ndarray | None = None


def is_dataset_folder(path: Path) -> bool:
    """Tells whether a folder holds annotations or votes."""
    return any((path / f"{stem}.{kind}").is_file() for stem in ("annotations", "votes") for kind in ("csv", "parquet"))


def read_folder(path: str | Path, *, features: str | None = None, where: str | None = None) -> CrowdDataset:
    """Reads a dataset folder. Memory grows with the number of rows, not with their width.

    Args:
        path: the folder.
        features: which `features-KIND.npz`; needed where there are several; `none` leaves them out.
        where: `column=value`: only annotations with that value in that column.

    Raises:
        DataError: a file, a row or a value cannot be used; the message says which.
    """
    folder = Path(path)
    name, title, scale = _read_description(folder)
    answers_path = _answers_path(folder)
    classes = _read_classes(folder, joined=scale == "multilabel")
    answers = _read_answers(answers_path, classes, where)
    table = _read_items(folder, classes)
    if not classes.declared:
        classes = _infer_classes(answers, table.get("gold", []), classes.joined, answers_path)
    item_names, sequence = _order_items(folder, answers, table)
    annotator_names = None if answers.annotator is None else _order_annotators(folder, answers)
    annotations = _annotations(answers, classes, item_names, annotator_names)
    votes = NumberedNames("vote", len(annotations))
    place = pc.index_in(pa.array(table["item"], pa.string()), value_set=item_names).to_numpy(zero_copy_only=False)
    return CrowdDataset(
        name=name,
        title=title,
        scale=scale,
        annotations=annotations,
        items=Items(
            n_items=len(item_names),
            features=_read_features(folder, features, item_names),
            text=_placed_texts(table.get("text"), place, len(item_names)),
            text_b=_placed_texts(table.get("text_b"), place, len(item_names)),
            sequence=sequence,
        ),
        split=_placed_splits(table.get("split"), place, len(item_names)),
        gold=_gold(table.get("gold"), place, classes),
        item_names=item_names.to_pylist(),
        annotator_names=votes if annotator_names is None else annotator_names.to_pylist(),
        class_names=classes.names,
    )


def _read_description(folder: Path) -> tuple[str, str, Scale]:
    path = folder / "dataset.yaml"
    if not folder.is_dir():
        raise DataError(f"{folder}: expected a dataset folder, found none")
    try:
        given = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.is_file() else {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: expected YAML in UTF-8: {error}") from error
    if not isinstance(given, dict):
        raise DataError(f"{path}: expected keys such as name, title, scale, got {type(given).__name__}")
    scale = given.get("scale", "nominal")
    if scale not in get_args(Scale):
        raise DataError(f"{path}, scale: expected one of {', '.join(get_args(Scale))}, got {scale!r}")
    return str(given.get("name", folder.resolve().name)), str(given.get("title", "")), cast(Scale, scale)


def _answers_path(folder: Path) -> Path:
    found = [path for stem in ("annotations", "votes") if (path := tables.find_table(folder, stem))]
    if len(found) != 1:
        got = " and ".join(path.name for path in found) or "neither"
        raise DataError(f"{folder}: expected annotations.csv (item, annotator, label) or votes.csv, found {got}")
    return found[0]


def _read_classes(folder: Path, joined: bool) -> _Classes:
    path = tables.find_table(folder, "classes")
    if path is None:
        return _Classes(code={}, names=(), declared=False, joined=joined)
    labels: list[str] = []
    names: list[str] = []
    for _, columns in tables.batches(path, ["label"], ["name"]):
        labels += tables.texts([columns["label"]])
        names += tables.texts([columns.get("name", columns["label"])])
    for row, label in enumerate(labels, start=1):
        if not label or label in labels[: row - 1]:
            raise DataError(f"{path}, row {row}, column label: expected distinct labels, got {label!r}")
    if not labels:
        raise DataError(f"{path}: expected a row for each class, got none")
    code = {label: number for number, label in enumerate(labels)}
    return _Classes(code=code, names=tuple(names), declared=True, joined=joined)


def _read_answers(path: Path, classes: _Classes, where: str | None) -> _Answers:
    votes = path.stem == "votes"
    if votes and classes.joined:
        raise DataError(f"{path}: expected annotations.csv, as votes do not say which classes were chosen together")
    column, value = _condition(where, path)
    required = ["item", "label", "count"] if votes else ["item", "annotator", "label"]
    numeric = ["count"] if votes else ["weight", "probability"]
    parts: dict[str, list[pa.DictionaryArray]] = {}
    numbers: dict[str, list[np.ndarray]] = {}
    seen: set[str] = set()
    for first, batch in tables.batches(path, [*required, *([column] if column else [])], numeric):
        _check_batch(path, first, batch, required, classes)
        kept = None
        if column:
            seen.update(batch[column].dictionary.slice(0, 5).to_pylist())
            kept = pc.equal(batch[column].dictionary_decode(), value)
        for name in [name for name in batch if name in (*required, *numeric)]:
            rows = batch[name] if kept is None else batch[name].filter(kept)
            if name in numeric:
                numbers.setdefault(name, []).append(_numbers(path, first, name, batch[name], kept))
            else:
                parts.setdefault(name, []).append(rows)
    coded = {name: tables.merged(parts.get(name, [])) for name in required if name not in numeric}
    if where is not None and not len(coded["item"][0]):
        raise DataError(f"{path}: expected rows with {where}, found none; the column has {', '.join(sorted(seen)[:5])}")
    joined = {name: np.concatenate(chunks) for name, chunks in numbers.items()}
    if votes and not joined:
        joined["count"] = np.empty(0)
    return _Answers(
        item=coded["item"][0],
        item_texts=coded["item"][1],
        label=coded["label"][0],
        label_texts=coded["label"][1].to_pylist(),
        **({} if votes else {"annotator": coded["annotator"][0], "annotator_texts": coded["annotator"][1]}),
        **joined,
    )


def _condition(where: str | None, path: Path) -> tuple[str, str]:
    if where is None:
        return "", ""
    column, equals, value = where.partition("=")
    if not equals or column not in tables.column_names(path):
        names = ", ".join(tables.column_names(path))
        raise DataError(f"where: expected column=value with one of the columns {names}, got {where!r}")
    return column, value


def _check_batch(
    path: Path, first: int, batch: Mapping[str, pa.DictionaryArray], required: Sequence[str], classes: _Classes
) -> None:
    for name in required:
        values = batch[name].dictionary.to_pylist() if name == "label" else None
        missing = pc.index(batch[name].dictionary, "").as_py()
        if missing >= 0:
            row = first + _first_with(batch[name], missing)
            what = "a label; a missing answer is a row that is not there: remove it" if name == "label" else "a value"
            raise DataError(f"{path}, row {row}, column {name}: expected {what}, got an empty field")
        for code, text in enumerate(values or ()):
            if classes.unknown(text) or (not classes.declared and text.lower() in ("nan", "none", "null", "na")):
                row = first + _first_with(batch[name], code)
                expected = classes.expected() if classes.declared else "a label; remove rows without an answer"
                raise DataError(f"{path}, row {row}, column label: expected {expected}, got {text!r}")


def _first_with(column: pa.DictionaryArray, code: int) -> int:
    return int(np.flatnonzero(column.indices.to_numpy(zero_copy_only=False) == code)[0])


def _numbers(path: Path, first: int, name: str, column: pa.DictionaryArray, kept: pa.BooleanArray | None) -> np.ndarray:
    """Returns a numeric column, checked: counts are whole and not negative, weights positive, probabilities in [0, 1].

    An empty weight or probability is the default, one.
    """
    values = np.array([_number(text) for text in column.dictionary.to_pylist()], dtype=np.float64)
    if name == "count":
        expected, good = "a whole number of at least 0", (values >= 0) & (values == np.floor(values))
    elif name == "weight":
        expected, good = "a positive finite number", (values > 0) & np.isfinite(values)
    else:
        expected, good = "a number from 0 to 1", (values >= 0) & (values <= 1)
    if not good.all():
        code = int(np.flatnonzero(~good)[0])
        got = column.dictionary[code].as_py()
        raise DataError(
            f"{path}, row {first + _first_with(column, code)}, column {name}: expected {expected}, got {got!r}"
        )
    if kept is not None:
        column = column.filter(kept)
    return values[column.indices.to_numpy(zero_copy_only=False)]


def _number(text: str) -> float:
    try:
        return float(text or 1)
    except ValueError:
        return np.nan


def _read_items(folder: Path, classes: _Classes) -> dict[str, list[str]]:
    """Returns the columns of items.csv that are there, checked; only `item`, with no rows, where there is no file."""
    path = tables.find_table(folder, "items")
    if path is None:
        return {"item": []}
    columns: dict[str, list[str]] = {}
    for _, batch in tables.batches(path, ["item"], _ITEM_COLUMNS):
        for name, part in batch.items():
            columns.setdefault(name, []).extend(tables.texts([part]))
    columns.setdefault("item", [])
    seen: set[str] = set()
    for row, item in enumerate(columns["item"], start=1):
        if not item or item in seen:
            raise DataError(f"{path}, row {row}, column item: expected distinct item ids, got {item!r}")
        seen.add(item)
    for row, split in enumerate(columns.get("split", ()), start=1):
        if split and split not in SPLITS:
            raise DataError(
                f"{path}, row {row}, column split: expected {', '.join(SPLITS[1:])} or empty, got {split!r}"
            )
    for row, gold in enumerate(columns.get("gold", ()), start=1):
        if gold and classes.unknown(gold):
            raise DataError(f"{path}, row {row}, column gold: expected {classes.expected()} or empty, got {gold!r}")
    return columns


def _infer_classes(answers: _Answers, gold: Sequence[str], joined: bool, path: Path) -> _Classes:
    open_ended = _Classes(code={}, names=(), declared=False, joined=joined)
    fields = {*answers.label_texts, *gold} - {""}
    found = pa.array(sorted({part for text in fields for part in open_ended.parts(text)}), pa.string())
    labels = found.take(pa.array(tables.natural_order(found))).to_pylist()
    if len(labels) < 2 and not joined:
        got = f"only {labels[0]!r}" if labels else "no labels"
        raise DataError(f"{path}: expected at least two classes, got {got}; declare the others in classes.csv")
    code = {label: number for number, label in enumerate(labels)}
    return _Classes(code=code, names=tuple(labels), declared=True, joined=joined)


def _order_items(
    folder: Path, answers: _Answers, table: Mapping[str, list[str]]
) -> tuple[pa.StringArray, np.ndarray | None]:
    """Returns the ids of all items in the order of their codes, and, for tokens, the code of each one's sentence."""
    listed = pa.array(table["item"], pa.string())
    if "sentence" not in table:
        names = _distinct([listed, answers.item_texts])
        return names.take(pa.array(tables.natural_order(names))), None
    strangers = pc.index_in(answers.item_texts, value_set=listed).is_null()
    if pc.any(strangers).as_py():
        name = answers.item_texts.filter(strangers)[0].as_py()
        raise DataError(f"{folder}: expected every token in the items file, got annotations of {name!r}, not listed")
    sentence, sentences = tables.merged([pa.array(table["sentence"], pa.string()).dictionary_encode()])
    rank = np.empty(len(sentences), dtype=np.int32)
    rank[tables.natural_order(sentences)] = np.arange(len(sentences), dtype=np.int32)
    position = np.array([_number(text) for text in table.get("position", [""] * len(listed))])
    if "position" not in table or np.isnan(position).any():
        raise DataError(f"{folder}: tokens with a sentence need a numeric column position in the items file")
    order = np.lexsort((position, rank[sentence]))
    return listed.take(pa.array(order)), rank[sentence][order]


def _order_annotators(folder: Path, answers: _Answers) -> pa.StringArray:
    path = tables.find_table(folder, "annotators")
    declared = (
        [] if path is None else [batch["annotator"].dictionary for _, batch in tables.batches(path, ["annotator"])]
    )
    names = _distinct([*declared, answers.annotator_texts])
    return names.take(pa.array(tables.natural_order(names)))


def _distinct(arrays: Sequence[pa.StringArray]) -> pa.StringArray:
    return pc.unique(pa.chunked_array(arrays, type=pa.string()))


def _annotations(
    answers: _Answers, classes: _Classes, item_names: pa.StringArray, annotator_names: pa.StringArray | None
) -> Annotations:
    place = pc.index_in(answers.item_texts, value_set=item_names).to_numpy(zero_copy_only=False)
    rows, label = classes.rows(answers.label, answers.label_texts)
    item = place[answers.item[rows]]
    if answers.annotator is None or annotator_names is None:
        count = np.asarray(answers.count, dtype=np.int64)[rows]
        return Annotations.from_votes(
            item=item, label=label, count=count, n_items=len(item_names), n_classes=len(classes.names)
        )
    annotator_place = pc.index_in(answers.annotator_texts, value_set=annotator_names).to_numpy(zero_copy_only=False)
    return Annotations.of(
        item=item,
        annotator=annotator_place[answers.annotator[rows]],
        label=label,
        weight=None if answers.weight is None else answers.weight[rows],
        probability=None if answers.probability is None else answers.probability[rows],
        n_items=len(item_names),
        n_annotators=len(annotator_names),
        n_classes=len(classes.names),
    )


def _gold(column: Sequence[str] | None, place: np.ndarray, classes: _Classes) -> Gold:
    code, texts = tables.merged([pa.array(column or [], pa.string()).dictionary_encode()])
    rows, label = classes.rows(code, texts.to_pylist())
    item = place[rows].astype(np.int32)
    order = np.lexsort((label, item))
    return Gold(item=item[order], label=label[order])


def _placed_texts(column: Sequence[str] | None, place: np.ndarray, n_items: int) -> list[str] | None:
    if column is None:
        return None
    placed = [""] * n_items
    for code, text in zip(place.tolist(), column, strict=True):
        placed[code] = text
    return placed


def _placed_splits(column: Sequence[str] | None, place: np.ndarray, n_items: int) -> np.ndarray:
    split = np.zeros(n_items, dtype=np.int8)
    if column is not None:
        split[place] = [SPLITS.index(name) if name else 0 for name in column]
    return split


def _read_features(folder: Path, kind: str | None, item_names: pa.StringArray) -> np.ndarray | None:
    """Returns the features of all items [items, features], float32, matched by item id; rows of strangers are left."""
    kinds = sorted(path.stem.removeprefix("features-") for path in folder.glob("features-*.npz"))
    if kind == "none" or (kind is None and not kinds):
        return None
    if kind is None and len(kinds) > 1:
        raise DataError(f"{folder}: several features files; choose one by the dataset parameter features: {kinds}")
    if kind is not None and kind not in kinds:  # also what keeps a kind such as ../x inside the folder
        raise DataError(f"{folder}: expected features-{kind}.npz, found {kinds or 'no features files'}")
    path = folder / f"features-{kind or kinds[0]}.npz"
    try:
        with np.load(path, allow_pickle=False) as arrays:
            features, item = arrays["features"], arrays["item"]
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path}: expected an .npz file with the arrays features (numbers) and item (texts): {error}"
        ) from error
    if features.ndim != 2 or item.shape != features.shape[:1] or features.dtype.kind not in "fiub":
        raise DataError(
            f"{path}: expected numbers [n, d] and n items, got {features.dtype} {features.shape} and {item.shape}"
        )
    known = pa.array(item.astype(str).tolist(), pa.string())
    place = pc.index_in(item_names, value_set=known)
    if place.null_count:
        first = item_names.filter(place.is_null())[0].as_py()
        raise DataError(
            f"{path}: expected features of every item, {place.null_count} have none, such as {first!r}; add them, or "
            "set the dataset parameter features: none"
        )
    picked = features[place.to_numpy()].astype(np.float32)
    if not np.isfinite(picked).all():
        bad = int(np.flatnonzero(~np.isfinite(picked).all(axis=1))[0])
        raise DataError(f"{path}: expected finite features, got NaN or infinity for item {item_names[bad].as_py()!r}")
    return picked


def write_folder(dataset: CrowdDataset, path: str | Path) -> None:
    """Writes a dataset as a folder that `read_folder` gives back; features become `features-default.npz`.

    Raises:
        DataError: the folder holds files already, or the dataset cannot be written (votes with weights).
    """
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: expected a new or empty folder, got one that holds files; choose another")
    folder.mkdir(parents=True, exist_ok=True)
    description = {"name": dataset.name, "title": dataset.title, "scale": dataset.scale}
    (folder / "dataset.yaml").write_text(yaml.safe_dump(description, sort_keys=False), encoding="utf-8")
    codes = [str(code) for code in range(dataset.n_classes)]
    _write(folder / "classes.csv", {"label": codes, "name": list(dataset.class_names)})
    _write_answers(dataset, folder)
    _write_items(dataset, folder)
    if dataset.items.features is not None:
        np.savez_compressed(
            folder / "features-default.npz", features=dataset.items.features, item=np.array(list(dataset.item_names))
        )


def _write_answers(dataset: CrowdDataset, folder: Path) -> None:
    rows = dataset.annotations
    names = pa.array(list(dataset.item_names), pa.string())
    if rows.anonymous:
        if rows.weight is not None or rows.probability is not None:
            raise DataError(f"{folder}: votes cannot carry weights or probabilities")
        counts = rows.counts.tocoo()
        votes = {"item": names.take(pa.array(counts.coords[0])), "label": counts.coords[1]}
        _write(folder / "votes.csv", {**votes, "count": counts.data.astype(np.int64)})
        return
    annotators = pa.array(list(dataset.annotator_names), pa.string())
    if rows.n_active_annotators < rows.n_annotators:
        _write(folder / "annotators.csv", {"annotator": annotators})
    first, label = _joined_rows(rows) if dataset.scale == "multilabel" else (np.arange(len(rows)), rows.label)
    columns = {
        "item": names.take(pa.array(rows.item[first])),
        "annotator": annotators.take(pa.array(rows.annotator[first])),
    }
    columns["label"] = label
    for name, extra in (("weight", rows.weight), ("probability", rows.probability)):
        if extra is not None:
            columns[name] = extra[first].astype(np.float64)
    _write(folder / "annotations.csv", columns)


def _joined_rows(rows: Annotations) -> tuple[np.ndarray, pa.StringArray]:
    """Returns the first row of each multi-label answer, and its class codes joined.

    A class that a pair chose n times stands in n answers of that pair.
    """
    repeat = np.zeros(len(rows), dtype=np.int64)
    same = (np.diff(rows.item) == 0) & (np.diff(rows.annotator) == 0)
    for row in np.flatnonzero(same & (np.diff(rows.label) == 0)) + 1:
        repeat[row] = repeat[row - 1] + 1
    order = np.lexsort((rows.label, repeat, rows.annotator, rows.item))
    starts = np.ones(len(rows), dtype=bool)
    starts[1:] = np.any([np.diff(column[order]) != 0 for column in (rows.item, rows.annotator, repeat)], axis=0)
    offsets = pa.array([*np.flatnonzero(starts), len(rows)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(rows.label[order]).cast(pa.string()))
    return order[starts], pc.binary_join(lists, _JOIN)


def _write_items(dataset: CrowdDataset, folder: Path) -> None:
    columns: dict[str, object] = {"item": list(dataset.item_names)}
    if dataset.split.any():
        columns["split"] = [SPLITS[code] if code else "" for code in dataset.split]
    if len(dataset.gold):
        gold = [""] * dataset.items.n_items
        for item, label in zip(dataset.gold.item.tolist(), dataset.gold.label.tolist(), strict=True):
            gold[item] += f"{_JOIN}{label}" if gold[item] else str(label)
        columns["gold"] = gold
    for name, texts in (("text", dataset.items.text), ("text_b", dataset.items.text_b)):
        if texts is not None:
            columns[name] = list(texts)
    if dataset.items.sequence is not None:
        columns |= {"sentence": dataset.items.sequence, "position": np.arange(dataset.items.n_items)}
    _write(folder / "items.csv", columns)


def _write(path: Path, columns: Mapping[str, object]) -> None:
    pa_csv.write_csv(pa.table(dict(columns)), path)
