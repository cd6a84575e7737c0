"""Reads the items file of a dataset folder: splits, texts and gold, checked row by row."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int8, Int64

from crowdsweep.data import bounds
from crowdsweep.data.dataset import SPLITS
from crowdsweep.data.missing import MissingValues
from crowdsweep.data.on_disk import tables
from crowdsweep.data.on_disk.folder_checks import READ_COLUMNS
from crowdsweep.data.on_disk.folder_files import Classes, check_names, nameless
from crowdsweep.data.on_disk.tables import Column, Names
from crowdsweep.errors import DataError

GOLD_OF_CLASS = "gold_"  # prefix of the column of one class: gold of multi-label items, class by class
_YES_OR_NO = {"1": 1, "true": 1, "0": 0, "false": 0}


def read_items(folder: Path, classes: Classes) -> tuple[dict[str, Sequence[str]], Int64[np.ndarray, " rows"]]:
    """Returns the columns that items.csv has, checked, and the number of each row in the file.

    Without a file, returns only the column `item`, without rows.
    """
    items, columns = tables.Stacking(), dict[str, list[str]]()
    numbers: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
    path = tables.find_table(folder, "items")
    if path is None:
        return {"item": Names.of(())}, numbers[0]
    by_class = [name for name in tables.column_names(path) if classes.joined and name.startswith(GOLD_OF_CLASS)]
    optional = [*READ_COLUMNS["items"], *by_class]
    written = 0
    for first, batch in tables.batches(path, ["item"], optional, most=bounds.MOST_RECORDS):
        check_names(path, first, "item", batch["item"])
        written += sum(int(part.texts.lengths()[part.codes].sum()) for part in batch.values())
        bounds.check_unpacked(written, bounds.size_on_disk(path), f"{path}, its texts", "write them as plain CSV")
        numbers.append(np.arange(first, first + len(batch["item"].codes)))
        items.add(batch.pop("item"))
        for name, part in batch.items():
            known = name in ("split", "gold", *by_class)
            columns.setdefault(name, []).extend((classes.missing.emptied(part) if known else part).values())
    item, rows = items.joined(), np.concatenate(numbers)
    _check_ids(path, item, rows, classes.missing)
    for row, split in zip(rows, columns.get("split", ()), strict=False):
        if split and split not in SPLITS:
            known = ", ".join(SPLITS[1:])
            raise DataError(f"{path}, row {row}, column split: expected {known}, or empty, got {split!r}")
    for row, gold in zip(rows, columns.get("gold", ()), strict=False):
        if gold and classes.refused(gold):
            raise DataError(f"{path}, row {row}, column gold: expected {classes.expected()}, or empty, got {gold!r}")
    return {"item": item.texts, **columns}, rows


def _check_ids(path: Path, item: Column, rows: Int64[np.ndarray, " rows"], missing: MissingValues) -> None:
    """Refuses the first row without an id, or with the id of an earlier row."""
    codes, nothing = item.codes, missing.among(item.texts)
    wrong = nothing[codes]
    if len(nothing) < len(codes):
        again = np.ones(len(codes), dtype=bool)
        again[np.unique(codes, return_index=True)[1]] = False
        wrong |= again
    for place in np.flatnonzero(wrong)[:1]:
        name, row = item.texts[codes[place]], int(rows[place])
        if nothing[codes[place]]:
            raise nameless(path, row, "item", name)
        raise DataError(f"{path}, row {row}, column item: expected distinct item ids, got {name!r} again")


def gold_by_class(
    folder: Path, table: Mapping[str, Sequence[str]], rows: Int64[np.ndarray, " rows"], classes: Classes
) -> Mapping[int, Int8[np.ndarray, " rows"]] | None:
    """Returns, for each class with gold, whether it applies to each row of the items file: 1, 0, or -1 if unknown.

    A column `gold_CLASS` belongs to the class with this label, else to the class with this name in any case. Returns
    None if no column belongs to a class; `gold_of_no_class` returns the columns `gold_…` that name no class.

    Args:
        rows: number of each row in the file, for messages.

    Raises:
        DataError: a value is neither yes nor no, two columns belong to one class, or there is a column `gold` as well.
    """
    columns = {name: _class_of(name, classes) for name in table if name.startswith(GOLD_OF_CLASS)}
    found = {name: code for name, code in columns.items() if code is not None}
    if not found:
        return None
    if "gold" in table or len(set(found.values())) < len(found):
        got = ", ".join(["gold"] * ("gold" in table) + list(found))
        raise DataError(f"{folder}: expected gold in one column, or in one for each class, got {got}; remove one")
    known: dict[int, np.ndarray] = {}
    for name, code in found.items():
        known[code] = np.full(len(table["item"]), -1, dtype=np.int8)
        for row, text in enumerate(table[name]):
            if text and text.lower() not in _YES_OR_NO:
                said = f"expected 1, 0 or empty, got {text!r}"
                raise DataError(f"{tables.find_table(folder, 'items')}, row {rows[row]}, column {name}: {said}")
            known[code][row] = _YES_OR_NO[text.lower()] if text else -1
    return known


def gold_of_no_class(table: Mapping[str, Sequence[str]], classes: Classes) -> tuple[str, ...]:
    """Returns the columns `gold_…` of multi-label items that name no class and therefore are not read."""
    return tuple(name for name in table if name.startswith(GOLD_OF_CLASS) and _class_of(name, classes) is None)


def _class_of(column: str, classes: Classes) -> int | None:
    """Returns the class of a column `gold_CLASS`, by its label or else by its name; None if there is no single one."""
    wanted = column.removeprefix(GOLD_OF_CLASS)
    if wanted in classes.code:
        return classes.code[wanted]
    same = [code for code, name in enumerate(classes.names) if name.casefold() == wanted.casefold()]
    return same[0] if len(same) == 1 else None
