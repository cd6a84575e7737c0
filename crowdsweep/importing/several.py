"""Splits answers that name several classes in one cell of a table, such as `cat|dog`."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from crowdsweep.errors import DataError
from crowdsweep.importing.rows import ImportedRows

SEPARATORS = ("|", ";", ",")
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
        marks = ", ".join(SEPARATORS[:-1])
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
        if parts and (parts <= known or (mark == "|" and parts & known)):
            return name
    return None
