"""Gathers the labels of a file as they are written there: each is checked once, and those left out are counted."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from crowdsweep.data import bounds
from crowdsweep.data.bounds import LONGEST_NAME
from crowdsweep.data.dataset import Scale
from crowdsweep.data.missing import USUAL, MissingLabels, MissingValues
from crowdsweep.errors import DataError, UnknownName, shown
from crowdsweep.importing.coded_rows import CodedRows, Row


@dataclass(frozen=True, kw_only=True)
class ImportedRows:
    """Labels as written in a file, with what the file says of items and annotators.

    Attributes:
        source: the file, for messages.
        rows: the answers.
        items: every item in the order of the file, also items without an answer.
        text: the text of items, if the file has it.
        shown: what annotators saw of items (`shown.py`).
        features: for each item, a number for each of `feature_names`; of all items or of none.
        feature_names: names of the features.
        gold: gold classes of items, if they were given.
        multilabel: whether an answer may name several classes.
        split: the split of items, `train`, `dev`, `test` or `unlabelled`, if the file says it.
        text_b: the second text of items that are pairs.
        image: the image file of items, relative to the folder of the source.
        classes: classes that the file declares, used or not.
        ordinal: whether the classes, in their natural order, are a scale.
        attributes: attributes of annotators by name; of all annotators or of none. An empty text is unknown.
        notes: what was left out, and what was assumed, in sentences.
        missing: rule for texts that stood for a missing value.
        form: form of the file, a key of `registry.FORMS`.
        question: what the file calls the question that was answered; empty if the question has no name.
        about: what the file calls the thing that the question is about; empty if it has no name.
        numbers: whether the labels in the file are numbers, not texts.
    """

    source: Path
    rows: Sequence[Row]
    items: Sequence[str]
    text: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    features: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    gold: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    multilabel: bool = False
    split: Mapping[str, str] = field(default_factory=dict)
    text_b: Mapping[str, str] = field(default_factory=dict)
    image: Mapping[str, str] = field(default_factory=dict)
    classes: Sequence[str] = ()
    ordinal: bool = False
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    missing: MissingValues = USUAL
    form: str = ""
    question: str = ""
    about: str = ""
    numbers: bool = False

    @cached_property
    def coded(self) -> CodedRows:
        """The answers as coded columns."""
        return CodedRows.of(self.rows)


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """What the user says of a file besides its form.

    Attributes:
        question: the question to read if a file has several.
        item, annotator, label, gold, weight, text, image: columns of a table; `gold` may also be a file.
        features: columns of numbers that describe the items.
        missing: rule for texts that stand for a missing value.
        scale: scale of the labels; None if the user did not say.
    """

    question: str | None = None
    item: str | None = None
    annotator: str | None = None
    label: str | None = None
    gold: str | None = None
    weight: str | None = None
    text: str | None = None
    image: str | None = None
    features: tuple[str, ...] | None = None
    missing: MissingValues = USUAL
    scale: Scale | None = None

    def chose_nothing(self, cell: str) -> bool:
        """Returns whether a label cell is an answer that names no class: an empty cell, if answers may name several."""
        return self.scale == "multilabel" and not cell.strip()


def text_of(value: object, expected: str, where: str, missing: MissingValues) -> str:
    """Returns an id or a label as text: texts unchanged, 3.0 as 3 (numbers have no spelling), true as True.

    Raises:
        DataError: the value is missing, is neither text nor number, or is too long for a name.
    """
    if isinstance(value, float) and math.isfinite(value):
        value = int(value) if value.is_integer() else value
        return str(value)
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str) or missing(value):
        word = isinstance(value, str) and bool(value.strip())
        stands = ', which means a missing value (unless --missing "" says otherwise)' if word else ""
        raise DataError(
            f"{where}: expected {expected}, got {shown(value)}{stands}; fill it in, or take it out of the file"
        )
    if len(value) > LONGEST_NAME:
        raise DataError(
            f"{where}: expected {expected} of at most {LONGEST_NAME:,} characters, got {len(value):,}, {shown(value)}; "
            f"is this the intended column, and are its quotes closed?"
        )
    _check_characters(value, expected, where)
    return value


def _check_characters(text: str, expected: str, where: str) -> None:
    """Refuses halves of characters (lone surrogates), which JSON can hold but no file."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise DataError(
                f"{where}: expected {expected}, got {shown(text)}, an unpaired surrogate; correct it"
            ) from None


class RowCollector:
    """Gathers the answers of one file."""

    def __init__(self, source: Path, missing: MissingValues = USUAL) -> None:
        self.source, self.missing = source, missing
        self.notes: list[str] = []
        self.question, self.about = "", ""
        self._numbers = False
        self._most = max(bounds.MOST_RECORDS, bounds.size_on_disk(source))
        self._rows: list[Row] = []
        self._items: dict[str, str] = {}  # one object for each id, however many rows have it
        self._annotators: dict[str, str] = {}
        self._text: dict[str, str] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self._left_out: Counter[str] = Counter()
        self._not_given = MissingLabels()
        self._labels: dict[tuple[str, ...], tuple[str, ...]] = {}

    @property
    def items(self) -> dict[str, None]:
        """The items so far, in order."""
        return dict.fromkeys(self._items)

    def item(self, name: object, where: str, text: object = None) -> str:
        """Adds an item, with its text if there is one, and returns its id.

        Raises:
            DataError: the id is missing or invalid, or the item has another text already.
        """
        given = text_of(name, "an item id", where, self.missing)
        item = self._items.setdefault(given, given)
        if len(self._items) > self._most:
            bounds.check_rows(len(self._items), self.source, floor=self._most, what="items")
        if isinstance(text, str):
            _check_characters(text, "a text", where)
            if self._text.setdefault(item, text) != text:
                raise DataError(
                    f"{where}: expected one text for item {item!r}, got another; two items have one id: give each "
                    f"its own"
                )
        return item

    def answer(
        self,
        item: str,
        annotator: object,
        labels: Sequence[object],
        where: str,
        *,
        key: str = "label",
        weight: str = "",
    ) -> None:
        """Adds an answer; if all its labels are missing values, only counts it as not given.

        Args:
            item: id of the item.
            annotator: who answered.
            labels: the classes; none for an answer that chose no class.
            where: place of the answer, for messages.
            key: place of the labels in the answer, for messages.
            weight: weight of the answer, as written in the file.

        Raises:
            DataError: the annotator or a label is missing or invalid.
        """
        who = text_of(annotator, "the annotator", where, self.missing)
        there = [label for label in labels if not self._is_missing(label)]
        if labels and not there:
            self.not_given(labels[0], where)
            return
        given = tuple(sorted({text_of(label, "a label", f"{where}, {key}", self.missing) for label in there}))
        self._numbers |= any(isinstance(label, int | float) and not isinstance(label, bool) for label in there)
        if len(self._rows) >= self._most:
            bounds.check_rows(len(self._rows) + 1, self.source, floor=self._most, what="answers")
        who = self._annotators.setdefault(who, who)
        self._rows.append(Row(item, who, self._labels.setdefault(given, given), weight))

    def not_given(self, label: object, where: str) -> None:
        """Counts an answer without a label, by the text in its place."""
        self._not_given.add(label if isinstance(label, str) else "", where.removeprefix(f"{self.source}, "))

    def _is_missing(self, label: object) -> bool:
        return label is None or label != label or (isinstance(label, str) and self.missing(label))

    def show(self, item: str, data: Mapping[str, Any], **more: Any) -> None:
        """Keeps what annotators saw of an item, if that is more than its text."""
        if data and set(data) != {"text"}:
            self._shown.setdefault(item, {**more, "data": dict(data)})

    def leave_out(self, what: str) -> None:
        """Counts something that is left out, such as `rejected assignments`."""
        self._left_out[what] += 1

    def imported(
        self,
        *,
        multilabel: bool | None = None,
        gold: Mapping[str, tuple[str, ...]] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> ImportedRows:
        """Returns what was gathered.

        Args:
            multilabel: whether an answer may name several classes; None: whether any answer does.
            gold: gold classes of items.
            names: names of annotators to use instead of their ids.

        Raises:
            DataError: there is no answer.
        """
        several = any(len(row.labels) > 1 for row in self._rows) if multilabel is None else multilabel
        rows = self._rows
        if not several and any(not row.labels for row in rows):
            for row in rows:
                if not row.labels:
                    self.leave_out("answers that chose nothing")
            rows = [row for row in rows if row.labels]
        if names:
            rows = [row._replace(annotator=names.get(row.annotator, row.annotator)) for row in rows]
        left_out = [f"{what} left out: {number}" for what, number in self._left_out.items()]
        left_out += note_not_given(self._not_given)
        if not rows:
            told = [*self.notes, *left_out]
            why = f" ({'; '.join(told)})" if told else ""
            raise DataError(f"{self.source}: expected at least one label, found none{why}; export it with its answers")
        return ImportedRows(
            source=self.source,
            rows=rows,
            items=list(self._items),
            text=self._text,
            shown=self._shown,
            gold=gold or {},
            multilabel=several,
            notes=[*self.notes, *left_out],
            missing=self.missing,
            question=self.question,
            about=self.about,
            numbers=self._numbers,
        )


def note_not_given(left_out: MissingLabels) -> list[str]:
    """Returns a list with a sentence on the answers without a label; empty if there are none."""
    if not left_out.counts:
        return []
    told = f"{left_out.counts.total():,} answers have no label and were left out: "
    kept = '; where that is a class, keep it by --missing ""' if left_out.has_words() else ""
    return [told + ", ".join(left_out.words()[:5]) + kept]


def note_chose_nothing(number: int) -> list[str]:
    """Returns a list with a sentence on the multi-label answers that chose no class; empty if there are none."""
    told = "answers are empty, and mean that their annotator chose no class; remove rows without an answer"
    return [f"{number:,} {told}"] if number else []


def one_question(path: Path, found: Sequence[str], asked: str | None, others: str = "") -> str:
    """Returns the question to read.

    Args:
        path: the file.
        found: the questions that the file has.
        asked: the question that the user asked for; None if the user did not say.
        others: what the file has instead of answers, for the message if it has no question.

    Raises:
        UnknownName: the file has no such question.
        DataError: the user did not say, and the file has several questions or none.
    """
    if asked is not None:
        if asked not in found:
            raise UnknownName("question", asked, found, where=str(path))
        return asked
    if not found and not others:
        raise DataError(f"{path}: expected answers to a question, found none; export it with its annotations")
    if len(found) != 1:
        got = ", ".join(found) or f"none{others}"
        raise DataError(f"{path}: expected one question, got {got}; choose one by --question")
    return found[0]
