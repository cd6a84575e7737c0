"""Reads the files of a dataset folder with answers, classes and features, checked row by row."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int32, Int64

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data import bounds
from crowdsweep.data.class_order import in_order
from crowdsweep.data.missing import USUAL, MissingLabels, MissingValues
from crowdsweep.data.on_disk import arrays_on_disk, tables
from crowdsweep.data.on_disk.tables import Column, Names
from crowdsweep.data.on_disk.text_files import reading
from crowdsweep.errors import DataError, shortened
from crowdsweep.paths import is_file

JOIN = "|"  # between the class labels of one multi-label answer


@dataclass(frozen=True, kw_only=True)
class Classes:
    """Class labels as written in the files.

    Attributes:
        code: the code of each label.
        names: the class name of each code.
        declared: whether the labels are known; without a classes file false until they are inferred.
        joined: whether a field may hold several labels.
        missing: rule for texts that stand for no label; a declared class never does.
    """

    code: Mapping[str, int]
    names: tuple[str, ...]
    declared: bool
    joined: bool
    missing: MissingValues = USUAL

    def parts(self, text: str) -> list[str]:
        """Returns the class labels in one field."""
        return sorted({part for part in text.split(JOIN) if not self.missing(part)}) if self.joined else [text]

    def refused(self, text: str) -> bool:
        """Returns whether a field holds something that is not a declared class."""
        return self.declared and any(part not in self.code for part in self.parts(text))

    def not_given(self, column: Column) -> Bool[np.ndarray, " rows"]:
        """Returns a mask of the rows without a label; an empty multi-label field is an answer that chose no class."""
        gone = self.missing.among(column.texts)
        if self.joined and (empty := column.texts.find("")) >= 0:
            gone[empty] = False
        return gone[column.codes]

    def expected(self) -> str:
        """Returns, in words for a message, which labels are expected."""
        shown = ", ".join(list(self.code)[:12]) + (", …" if len(self.code) > 12 else "")
        return f"{'labels, joined by |, out of' if self.joined else 'one of'} the classes {shown}"

    def rows(
        self, column: Column, path: Path
    ) -> tuple[slice | Int64[np.ndarray, " labels"], Int32[np.ndarray, " labels"]]:
        """Returns, for each label in the fields of a column, the number of its field and its code.

        An empty field has no label. If each field has exactly one label, the numbers are a slice of all fields.

        Raises:
            DataError: the fields hold too many labels for their number; the message names `path`.
        """
        lists = [[self.code[part] for part in self.parts(text)] if text else [] for text in column.texts]
        lengths = np.array([len(part) for part in lists], dtype=np.int64)
        flat = np.array([label for part in lists for label in part], dtype=np.int32)
        code = column.codes
        if len(code) and (lengths == 1).all():
            return slice(None), flat[code]
        if (total := int(lengths[code].sum())) > max(bounds.MOST_ROWS, 20 * len(code)):
            raise DataError(
                f"{path}: expected at most {max(bounds.MOST_ROWS, 20 * len(code)):,} classes chosen in {len(code):,} "
                f"answers, got {total:,}; declare fewer classes"
            )
        row = np.repeat(np.arange(len(code)), lengths[code])
        start, first = np.cumsum(lengths) - lengths, np.cumsum(lengths[code]) - lengths[code]
        return row, flat[start[code][row] + np.arange(len(row)) - first[row]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Rows of annotations or of votes; votes have counts and no annotators.

    `left_out` counts the rows without a label, and `asked` holds the items of these rows.
    """

    item: Column
    label: Column
    annotator: Column | None = None
    weight: Float64[np.ndarray, " rows"] | None = None
    probability: Float64[np.ndarray, " rows"] | None = None
    count: Float64[np.ndarray, " rows"] | None = None
    left_out: MissingLabels = field(default_factory=MissingLabels)
    asked: Names = field(default_factory=lambda: Names.of([]))

    def among(self, items: Names, annotators: Names | None) -> "Answers":
        """Returns the same rows, with items and annotators as codes into these names."""
        annotator = None if self.annotator is None or annotators is None else self.annotator.among(annotators)
        return replace(self, item=self.item.among(items), annotator=annotator)

    def keep(self, mask: Bool[np.ndarray, " rows"]) -> "Answers":
        """Returns only the rows where the mask is true, without `left_out` and `asked`."""
        return Answers(
            item=self.item.keep(mask),
            label=self.label.keep(mask),
            annotator=None if self.annotator is None else self.annotator.keep(mask),
            weight=None if self.weight is None else self.weight[mask],
            probability=None if self.probability is None else self.probability[mask],
            count=None if self.count is None else self.count[mask],
        )


def answers_path(folder: Path) -> Path:
    """Returns the file of annotations or of votes, whichever exists; raises a DataError if not exactly one does."""
    found = [path for stem in ("annotations", "votes") if (path := tables.find_table(folder, stem))]
    if len(found) != 1:
        got = " and ".join(path.name for path in found) or "neither"
        others = sorted(path.name for path in folder.iterdir() if path.name.startswith(("annotations", "votes")))
        beside = f" but {', '.join(others[:5])}" if others and not found else ""
        raise DataError(
            f"{folder}: expected annotations.csv (item, annotator, label) or votes.csv, found {got}{beside}"
        )
    return found[0]


def read_classes(folder: Path, joined: bool, missing: MissingValues) -> Classes:
    """Returns the declared classes; empty `Classes` that are not declared if there is no classes file."""
    path = tables.find_table(folder, "classes")
    if path is None:
        return Classes(code={}, names=(), declared=False, joined=joined, missing=missing)
    rows: list[int] = []
    labels: list[str] = []
    names: list[str] = []
    for first, columns in tables.batches(path, ["label"], ["name"], most=bounds.MOST_RECORDS):
        check_names(path, first, "label", columns["label"])
        rows += range(first, first + len(columns["label"].codes))
        labels += columns["label"].values()
        names += columns.get("name", columns["label"]).values()
    seen: set[str] = set()
    for row, label in zip(rows, labels, strict=True):
        if not label or label in seen or (joined and JOIN in label):
            expected = "distinct labels" + (f" without {JOIN}, which separates them" if joined else "")
            raise DataError(f"{path}, row {row}, column label: expected {expected}, got {label!r}")
        seen.add(label)
    if len(labels) > bounds.MOST_DECLARED:
        raise DataError(
            f"{path}: expected at most {bounds.MOST_DECLARED:,} classes, got {len(labels):,}; leave out those that "
            f"no annotator may choose, or merge rare ones"
        )
    return _declared(labels, names, joined, path, missing)


def infer_classes(fields: Iterable[str], unknown: Classes, path: Path) -> Classes:
    """Returns the classes that occur in these fields, in natural order."""
    found = Names.of(sorted({part for text in set(fields) - {""} for part in unknown.parts(text)}))
    if len(found) > bounds.MOST_CLASSES:
        raise DataError(
            f"{path}: expected at most {bounds.MOST_CLASSES:,} classes, got {len(found):,}, such as {found[0]!r}; is "
            f"this the column of the labels? Where it is, declare them in classes.csv (label, name)"
        )
    labels = in_order(found)
    return _declared(labels, labels, unknown.joined, path, unknown.missing)


def _declared(labels: Sequence[str], names: Sequence[str], joined: bool, path: Path, missing: MissingValues) -> Classes:
    if len(labels) < (1 if joined else 2):
        got = f"only {labels[0]!r}" if labels else "none"
        raise DataError(f"{path}: expected at least two classes, got {got}; declare them in classes.csv (label, name)")
    code = {label: number for number, label in enumerate(labels)}
    return Classes(code=code, names=tuple(names), declared=True, joined=joined, missing=missing.without(code))


def read_answers(path: Path, classes: Classes, where: str | None) -> Answers:
    """Returns the rows of annotations or votes; with `where`, a condition `column=value`, only those that meet it.

    A row without a label is an answer that was not given: it is left out and counted. In multi-label data an empty
    label is an answer that chose no class.
    """
    votes = path.stem == "votes"
    if votes and classes.joined:
        raise DataError(f"{path}: expected annotations.csv: votes do not say which classes were chosen together")
    filtered, value = _condition(where, path)
    texts = ["item", "label"] if votes else ["item", "annotator", "label"]
    columns = {name: tables.Stacking() for name in texts}
    numbers: dict[str, list[np.ndarray]] = {"count": []} if votes else {}
    seen: set[str] = set()
    left_out = MissingLabels()
    asked: list[Names] = []
    for first, batch in tables.batches(
        path, [*texts, *filtered, *(["count"] if votes else [])], [] if votes else ["weight", "probability"]
    ):
        _check_labels(path, first, batch["label"], classes)
        mask = np.ones(len(batch["item"].codes), dtype=bool)
        for name in filtered:
            seen.update(list(batch[name].texts)[:5])
            mask = batch[name].codes == batch[name].texts.find(value)
        gone = classes.not_given(batch["label"])
        if gone.any():
            _leave_out(left_out, path, first, batch["label"], gone & mask)
            asked.append(batch["item"].keep(gone & mask).texts)
        mask &= ~gone
        for name, column in batch.items():
            if name in texts:
                if name != "label" or not classes.joined:
                    check_names(path, first, name, column)
                if name != "label":
                    check_present(path, first, name, column, classes.missing)
                columns[name].add(column if mask.all() else column.keep(mask))
            elif name in ("count", "weight", "probability"):
                values = _numbers(path, first, name, classes.missing.emptied(column))
                if name == "probability":
                    _check_sure(path, first, batch["label"], values, mask)
                numbers.setdefault(name, []).append(values[mask])
    answers = tables.whole(columns)
    if filtered and not len(answers["item"].codes):
        raise DataError(f"{path}: expected rows with {where}, found none; values there: {', '.join(sorted(seen)[:5])}")
    joined = {name: np.concatenate([np.empty(0), *parts]) for name, parts in numbers.items()}
    count = joined.get("count", np.empty(0))
    bounds.check_votes(float(count.sum()), len(count), str(path))
    return Answers(
        item=answers["item"],
        label=answers["label"],
        annotator=answers.get("annotator"),
        weight=joined.get("weight"),
        probability=joined.get("probability"),
        count=joined.get("count"),
        left_out=left_out,
        asked=tables.distinct(asked),
    )


def check_names(path: Path, first: int, name: str, column: Column) -> None:
    """Refuses ids and labels that are too long to be names.

    Args:
        first: number of the column's first row.

    Raises:
        DataError: an id or label has more than `LONGEST_NAME` characters.
    """
    lengths = column.texts.lengths()
    for code in np.flatnonzero(lengths > bounds.LONGEST_NAME):
        raise DataError(
            f"{path}, row {first + column.first_row(int(code))}, column {name}: expected a name of at most "
            f"{bounds.LONGEST_NAME:,} characters, got {lengths[code]:,}; is this the intended column, and are its "
            f"quotes closed?"
        )


def _condition(where: str | None, path: Path) -> tuple[list[str], str]:
    if where is None:
        return [], ""
    column, equals, value = where.partition("=")
    names = tables.column_names(path)
    if not equals or column not in names:
        raise DataError(f"where: expected column=value with one of the columns {', '.join(names)}, got {where!r}")
    return [column], value


def _check_labels(path: Path, first: int, column: Column, classes: Classes) -> None:
    for code, text in enumerate(column.texts):
        if not classes.missing(text) and classes.refused(text):
            row = first + column.first_row(code)
            raise DataError(
                f"{path}, row {row}, column label: expected {classes.expected()}, got {shortened(text)!r}; correct it, "
                f"or declare the class"
            )


def _leave_out(left_out: MissingLabels, path: Path, first: int, label: Column, gone: Bool[np.ndarray, " rows"]) -> None:
    codes, starts, counts = np.unique(label.codes[gone], return_index=True, return_counts=True)
    rows = first + np.flatnonzero(gone)[starts]
    for code, row, count in zip(codes.tolist(), rows.tolist(), counts.tolist(), strict=True):
        left_out.add(label.texts[int(code)], f"{path.name}, row {row}", count)


def check_present(path: Path, first: int, name: str, column: Column, missing: MissingValues) -> None:
    """Refuses a missing value in a column of names.

    Raises:
        DataError: there is a missing value; the message says the row of the first.
    """
    for row in np.flatnonzero(missing.among(column.texts)[column.codes])[:1]:
        raise nameless(path, first + int(row), name, column.texts[int(column.codes[row])])


def nameless(path: Path, row: int, name: str, text: str) -> DataError:
    """Returns the error for a row without an item or annotator id."""
    got = f"{text!r}, which means a missing value" if text.strip() else "an empty field"
    hint = "; where it is a name, say `missing: []` in dataset.yaml" if text.strip() else "; fill it in, or remove it"
    return DataError(f"{path}, row {row}, column {name}: expected an {name}, got {got}{hint}")


def _check_sure(
    path: Path,
    first: int,
    label: Column,
    probability: Float64[np.ndarray, " rows"],
    given: Bool[np.ndarray, " rows"],
) -> None:
    """Refuses a probability for an answer that chose no class: there is no class that it could belong to."""
    unsure = (label.codes == label.texts.find("")) & (probability > 0) & (probability < 1) & given
    for row in np.flatnonzero(unsure):
        raise DataError(
            f"{path}, row {first + row}, column probability: expected none where the label is empty, got "
            f"{probability[row]:g}; leave it empty, or name the class that it is the probability of"
        )


def _numbers(path: Path, first: int, name: str, column: Column) -> Float64[np.ndarray, " rows"]:
    """Returns a numeric column after a check of its values; an empty weight or probability becomes 1."""
    values = np.array([number(text) if text or name == "count" else 1.0 for text in column.texts], dtype=np.float64)
    if name == "count":
        expected, good = "a whole number of at least 0", (values >= 0) & (values < 2**31) & (values == np.floor(values))
    elif name == "weight":
        expected, good = "a positive finite number", (values > 0) & np.isfinite(values)
    else:
        expected, good = "a number from 0 to 1", (values >= 0) & (values <= 1)
    for code in np.flatnonzero(~good):
        got, row = column.texts[int(code)], first + column.first_row(int(code))
        raise DataError(f"{path}, row {row}, column {name}: expected {expected}, got {got!r}")
    return values[column.codes]


def number(text: str) -> float:
    """Returns a text as a number; NaN if it is none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def read_features(folder: Path, kind: str | None, item_names: Names) -> ItemFeatures | None:
    """Returns the features of all items, float32, matched by item id; rows of other items are ignored.

    Args:
        kind: KIND of the file; None if there is at most one; `none` for no features.
    """
    kinds = feature_kinds(folder)
    if kind == "none" or (kind is None and not kinds):
        return None
    if kind is None and len(kinds) > 1:
        raise DataError(f"{folder}: several features files; set the dataset parameter features: {' | '.join(kinds)}")
    if kind is not None and kind not in kinds:  # also refuses a kind such as ../x, which leads out of the folder
        raise DataError(f"{folder}: expected features-{kind}.npz, found {', '.join(kinds) or 'no features files'}")
    return read_features_of(folder / f"features-{kind or kinds[0]}.npz", "item", item_names, "features")


def feature_kinds(folder: Path, prefix: str = "features-") -> list[str]:
    """Returns the KIND of each `features-KIND.npz` in a folder, sorted; with another prefix, of annotator features."""
    return sorted(path.stem.removeprefix(prefix) for path in folder.glob(f"{prefix}*.npz") if is_file(path))


def read_features_of(path: Path, axis: str, names: Names, parameter: str) -> Float32[np.ndarray, "names features"]:
    """Returns the features in an .npz file, float32, in the order of these names; other rows are ignored.

    Args:
        path: file with arrays `features` [n, d] and the ids [n].
        axis: name of the array of ids: `item` or `annotator`.
        names: ids of the items or annotators whose features are wanted.
        parameter: dataset parameter that can turn the features off, for messages.
    """
    features, ids = arrays_on_disk.read_npz(path, {"features": "numbers", axis: "texts"})
    if features.ndim != 2 or ids.shape != features.shape[:1] or features.dtype.kind not in "fiub":
        got = f"{features.dtype} {features.shape} and {ids.shape}"
        raise DataError(f"{path}: expected features as numbers [n, d] and {axis} [n], got {got}")
    bounds.check_rows(len(ids), path, floor=bounds.MOST_RECORDS, what=f"{axis} ids")
    with reading(path, f"{axis} ids as texts"):
        place = Names.of(ids.astype(str).tolist()).places_of(names)
    lacking = np.flatnonzero(place < 0)
    if len(lacking):
        raise DataError(
            f"{path}: expected features of every {axis}, {len(lacking)} have none, such as "
            f"{names[int(lacking[0])]!r}; add them, or set the dataset parameter {parameter}: none"
        )
    with np.errstate(over="ignore"):  # reported below
        picked = features[place].astype(np.float32)
    for bad in np.flatnonzero(~np.isfinite(picked).all(axis=1)):
        raise DataError(f"{path}: expected finite features, got NaN or infinity for {axis} {names[int(bad)]!r}")
    return picked
