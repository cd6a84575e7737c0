"""Splits answers that name several classes in one cell of a table: `cat|dog`, `["cat", "dog"]`."""

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from crowdsweep.errors import DataError, shown
from crowdsweep.importing.coded_rows import CodedRows
from crowdsweep.importing.rows import ImportedRows

SEPARATORS = ("\n", "|", ";", ",")
"""Separators between the classes of a cell; the first one that occurs anywhere in the file is used."""


def parted(imported: ImportedRows) -> ImportedRows:
    """Returns the answers of a table, each split into the classes that it names.

    Args:
        imported: answers and gold of one text each.

    Raises:
        DataError: no answer names several classes.
    """
    cells = [label for row in imported.rows for label in row.labels]
    mark = separator(cells)
    if mark is None:
        marks = ", ".join(SEPARATORS[1:-1])
        raise DataError(
            f"{imported.source}: expected labels that name several classes, with {marks} or {SEPARATORS[-1]} between "
            f"them, got only such as {cells[0]!r}; without --scale multilabel each answer has one class"
        )

    def classes(labels: tuple[str, ...]) -> tuple[str, ...]:
        named = (part.strip() for label in labels for part in label.split(mark))
        return tuple(sorted({part for part in named if part}))

    return replace(
        imported,
        rows=[row._replace(labels=classes(row.labels)) for row in imported.rows],
        gold={item: classes(labels) for item, labels in imported.gold.items()},
        multilabel=True,
        notes=[*imported.notes, f"answers were split at {mark!r}"],
    )


def separator(cells: Iterable[str]) -> str | None:
    """Returns the separator between classes; None if every cell has one class."""
    found = {mark for cell in cells for mark in SEPARATORS if mark in cell}
    return next((mark for mark in SEPARATORS if mark in found), None)


def named_together(classes: Collection[str]) -> str | None:
    """Returns a class whose name looks like several other classes in one cell; None if there is none."""
    known = set(classes)
    for name in classes:
        mark = separator([name])
        parts = {part.strip() for part in name.split(mark)} if mark else set[str]()
        if parts and (parts <= known or (mark in SEPARATORS[:2] and parts & known)):
            return name
    return None


_OF_PYTHON = re.compile(r"""\[\s*(?:'[^']*'|"[^"]*")(?:\s*,\s*(?:'[^']*'|"[^"]*"))*\s*,?\s*\]""")
_UNREAD = re.compile(r"""\[\s*['"\d.].*[\s,].*\]""", re.DOTALL)  # ['cat' 'dog'] of NumPy, [0.5, 0.5]
_OF_LABEL_STUDIO = ("choices", "rating", "number", "selected")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")


def without_lists(imported: ImportedRows, *, multilabel: bool) -> ImportedRows:
    """Returns the answers of a table, of which cells that are lists are taken apart; unchanged where no cell is one.

    A list is JSON (`["cat", "dog"]`), Python's (`['cat', 'dog']`), or Label Studio's (`{"choices": ["cat", "dog"]}`,
    `[{"rating": 4}]`).

    Args:
        imported: answers and gold of one text each.
        multilabel: whether the user said that an answer may name several classes; else it may if any list does.

    Raises:
        DataError: most labels are lists in another form, such as shares of classes.
    """
    rows = imported.coded
    taken = [_classes_in(labels) for labels in rows.labels]
    unread = [labels[0] for labels in taken if labels and _UNREAD.fullmatch(labels[0].strip())]
    if 2 * len(unread) > len(taken):
        raise DataError(
            f"{imported.source}: expected classes, got lists such as {shown(unread[0])}, which are not read; write "
            f'several classes as ["cat", "dog"] or cat|dog; shares of classes are no labels'
        )
    example = next((labels[0] for labels, classes in zip(rows.labels, taken, strict=True) if labels != classes), None)
    if example is None:
        return imported
    gold = {item: _classes_in(labels) for item, labels in imported.gold.items()}
    several = multilabel or any(len(classes) > 1 for classes in (*taken, *gold.values()))
    code: dict[tuple[str, ...], int] = {}
    place = np.array([code.setdefault(classes, len(code)) for classes in taken], np.int32)
    coded = replace(rows, label=place[rows.label], labels=list(code))
    notes = [*imported.notes, f"labels that are lists, such as {shown(example)}, are read as the classes in them"]
    if not several and () in code:
        kept = [row for row in coded if row.labels]
        notes.append(f"empty lists left out: {len(coded) - len(kept)}")
        coded = CodedRows.of(kept)
    return replace(
        imported,
        rows=coded,
        gold={item: labels for item, labels in gold.items() if labels},
        multilabel=several,
        notes=notes,
    )


def chosen_in(given: Any) -> Any:
    """Returns the classes of an answer as Label Studio writes it in a row: those of `choices`, a rating or a number."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], dict):
        given = given[0]
    if isinstance(given, dict) and len(given) == 1 and (key := next(iter(given))) in _OF_LABEL_STUDIO:
        return given[key] if isinstance(given[key], list) else [given[key]]
    return given


def _classes_in(labels: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the classes of an answer of one text: those in it if it is a list, else the text."""
    text = labels[0].strip() if labels else ""
    if text[:1] not in ("[", "{") or text[-1:] not in ("]", "}"):
        return labels
    try:
        given: Any = json.loads(text)
    except (ValueError, RecursionError):
        if not _OF_PYTHON.fullmatch(text):
            return labels
        given = [one or other for one, other in _QUOTED.findall(text)]
    given = chosen_in(given)
    if not isinstance(given, list) or not all(isinstance(one, str | int | bool) for one in given):
        return labels
    return tuple(sorted({str(one) for one in given if str(one).strip()}))
