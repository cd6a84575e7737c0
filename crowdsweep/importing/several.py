"""Answers of several classes in one cell of a table, such as `cat|dog`."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from crowdsweep.errors import DataError
from crowdsweep.importing.rows import ImportedRows

SEPARATORS = ("|", ";", ",")
"""Between the classes of a cell; the first that a file has anywhere."""


def parted(imported: ImportedRows) -> ImportedRows:
    """Returns the answers of a table with the classes that each of them names.

    Args:
        imported: answers and gold of one text each.

    Raises:
        DataError: no answer names several.
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
        notes=[*imported.notes, f"answers were taken apart at {mark!r}"],
    )


def separator(cells: Iterable[str]) -> str | None:
    """Returns what stands between classes; None where every cell has one class."""
    found = {mark for cell in cells for mark in SEPARATORS if mark in cell}
    return next((mark for mark in SEPARATORS if mark in found), None)


def named_together(classes: Collection[str]) -> str | None:
    """Returns a class that looks like several others in one cell; None where none does."""
    known = set(classes)
    for name in classes:
        mark = separator([name])
        parts = {part.strip() for part in name.split(mark)} if mark else set[str]()
        if parts and (parts <= known or (mark == "|" and parts & known)):
            return name
    return None
