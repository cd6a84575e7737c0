"""Reads tables that were saved as JSON, as pandas, polars and R write them.

records   [{"item": "p1", "annotator": "ann", "label": "yes"}]      or one object per line
columns   {"item": {"0": "p1"}, "annotator": {"0": "ann"}}          pandas' default
index     {"0": {"item": "p1", "annotator": "ann"}}
lists     {"item": ["p1"], "annotator": ["ann"]}
polars    {"columns": [{"name": "item", "values": ["p1"]}]}
split     {"columns": ["item", "annotator"], "index": [0], "data": [["p1", "ann"]]}
table     {"schema": {"fields": []}, "data": [{"item": "p1", "annotator": "ann"}]}
wrapped   {"version": 1, "answers": [{"item": "p1", "annotator": "ann"}]}

Cells are texts, numbers, booleans or null; of labels also lists of these. A column with any other cell, a list or an
object, is ignored. A record may hold several answers (`nested`).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crowdsweep.data import bounds
from crowdsweep.data.on_disk.json_text import objects
from crowdsweep.data.on_disk.text_files import first_character
from crowdsweep.errors import DataError, shown
from crowdsweep.importing.nested import Record, cell_of, is_cell, rows_in


def json_header(path: Path) -> list[str]:
    """Returns the names of the columns in order of appearance, without columns of lists or objects.

    Raises:
        DataError: the file is no table, or its objects share so few keys that its rows are far larger.
    """
    names: dict[str, None] = {}
    nested: set[str] = set()
    n_rows = 0
    for n_rows, (_, record) in enumerate(_entries(path), start=1):  # noqa: B007 - their number
        names.update(dict.fromkeys(record))
        nested |= {name for name, value in record.items() if not is_cell(name, value)}
    header = [name for name in names if name not in nested]
    bounds.check_rows(n_rows * len(header), path, what="cells (rows × columns)")
    return header


def json_records(path: Path, header: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (place for messages, record) for each row of a table, with a text for each of these columns.

    Raises:
        DataError: the file is no table.
    """
    for where, record in _entries(path):
        yield where, {name: cell_of(record.get(name)) for name in header}


def _entries(path: Path) -> Iterator[tuple[str, Record]]:
    for where, record in _records(path):
        for row in rows_in(record, where):
            yield where, row


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    whole = _one_object(path)
    if whole is None or not (turned := _turned(path, whole)):
        yield from ((f"{path}, entry {position}", record) for position, record in objects(path))
    else:
        yield from ((f"{path}, row {name}", record) for name, record in turned)


def _one_object(path: Path) -> dict[str, Any] | None:
    """Returns the object that is the whole file; None for a list, and for a file with one object per line."""
    if first_character(path, "a table") != "{":
        return None
    found = objects(path)
    first = next(found, None)
    return None if first is None or next(found, None) is not None else first[1]


def _turned(path: Path, whole: dict[str, Any]) -> list[tuple[str, Record]]:
    """Returns the rows of a table that is one object, each with its name; empty if the object is itself a row."""
    values = list(whole.values())
    n_rows = max([len(whole), *(len(value) for value in values if isinstance(value, dict | list))])
    bounds.check_rows(n_rows, path, floor=bounds.MOST_RECORDS)
    if isinstance(whole.get("columns"), list) and isinstance(whole.get("data"), list):
        header = [str(name) for name in whole["columns"]]
        rows = [(str(number), _paired(path, header, row)) for number, row in enumerate(whole["data"])]
        return [(name, row) for name, row in rows if row]
    series = whole.get("columns")
    if isinstance(series, list) and _of_objects(series) and all({"name", "values"} <= one.keys() for one in series):
        return _turned(path, {str(one["name"]): one["values"] for one in series})
    if isinstance(whole.get("schema"), dict) and isinstance(whole.get("data"), list):
        return [(str(number), row) for number, row in enumerate(whole["data"]) if isinstance(row, dict)]
    if values and all(isinstance(value, list) and not _of_objects(value) for value in values):
        if len({len(value) for value in values}) > 1:
            raise DataError(f"{path}: expected lists of one length, a list a column; save it again, as CSV")
        return [
            (str(number), dict(zip(whole, row, strict=True))) for number, row in enumerate(zip(*values, strict=True))
        ]
    lists = [value for value in values if isinstance(value, list | dict)]
    if len(lists) == 1 and isinstance(lists[0], list) and _of_objects(lists[0]):
        return [(str(number), row) for number, row in enumerate(lists[0])]
    if not values or not all(isinstance(value, dict) and value for value in values):
        return []
    rows = {name: None for value in values for name in value}
    if list(map(str, range(len(rows)))) == list(rows) or (len(whole) < len(rows) and not _counted(whole)):
        return [(name, {column: value.get(name) for column, value in whole.items()}) for name in rows]
    return list(whole.items())


def is_by_columns(whole: Mapping[str, Any]) -> bool:
    """Returns whether an object of objects holds a table by columns, whose rows are numbered from 0, as pandas writes.

    There are more rows than columns, and the columns have names: annotators of `{item: {annotator: label}}` may also be
    numbers.
    """
    rows = list(next(iter(whole.values()), {}))
    same = all(isinstance(value, dict) and list(value) == rows for value in whole.values())
    return same and not _counted(whole) and len(rows) > len(whole) and rows == list(map(str, range(len(rows))))


def _of_objects(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(value, dict) for value in values)


def _counted(names: Mapping[str, Any]) -> bool:
    return all(name.isdecimal() for name in names)


def _paired(path: Path, header: list[str], row: Any) -> dict[str, Any]:
    if not isinstance(row, list) or len(row) != len(header):
        raise DataError(f"{path}: expected {len(header)} cells in each row of data, got {shown(row)}; save it as CSV")
    return dict(zip(header, row, strict=True))
