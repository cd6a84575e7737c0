"""Reads tables row by row: CSV with commas, semicolons, tabs or bars, gzipped or not; tables in JSON or Parquet."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crowdsweep.data.bounds import MOST_RECORDS, check_columns, check_rows, check_unpacked
from crowdsweep.data.on_disk import tables
from crowdsweep.data.on_disk.text_files import (
    check_packed_text,
    first_character,
    is_parquet,
    opened_text,
    reading,
    rows_of,
)
from crowdsweep.errors import DataError, shortened
from crowdsweep.importing.json_tables import json_header, json_records
from crowdsweep.importing.nested import Record, cell_of, is_cell, rows_in

_NESTED_ROWS = 1 << 12  # rows of lists that are turned into objects at a time
_TABLE = "a table of text (CSV)"
_RULE = re.compile(r":?-{3,}:?")


def records(
    path: Path, columns: Sequence[str], leave_out: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (place for messages, record) for each row of a table.

    Args:
        path: the file.
        columns: columns that the table must have.
        leave_out: is told of each line that is no row: of empty cells alone, or the header once more.

    Raises:
        DataError: the file is no such table; the message says which line is wrong.
    """
    header = header_of(path)
    missing = [name for name in columns if name not in header]
    if missing:
        found = shortened(", ".join(header), 500) or "an empty file"
        raise DataError(f"{path}: expected the columns {', '.join(columns)}, got {found}")
    twice = sorted({name for name in header if name in columns and header.count(name) > 1})
    if twice:
        raise DataError(f"{path}: expected distinct column names, got {twice[0]!r} twice; rename one")
    kinds = {"parquet": _parquet_records, "json": json_records, "csv": _csv_records}
    for where, record in kinds[kind_of(path)](path, header):
        if not any(map(str.strip, record.values())):
            leave_out("rows without anything in them")
        elif len(header) > 1 and is_header_again(list(record.values()), header):
            leave_out("rows that are the header once more")
        else:
            yield where, record


def is_header_again(cells: Sequence[str], header: Sequence[str]) -> bool:
    """Returns whether a row repeats the header, as in files that were put together."""
    return cells[0].strip().lstrip("\ufeff") == header[0] and [cell.strip() for cell in cells[1:]] == list(header[1:])


def header_of(path: Path) -> list[str]:
    """Returns the column names of a table.

    Raises:
        DataError: the file is no table, or has more columns than anybody means.
    """
    names = _header_of(path)
    check_columns(len(names), path)
    return names


def _header_of(path: Path) -> list[str]:
    kind = kind_of(path)
    if kind == "json":
        return json_header(path)
    if kind == "parquet":
        with reading(path, "a Parquet file"):
            schema: pa.Schema = pq.read_schema(path)
        flat = [name for name in schema.names if not pa.types.is_nested(schema.field(name).type)]
        return flat if len(flat) == len(schema.names) else _nested_header(path, flat)
    with reading(path, _TABLE), opened_text(path) as file:
        return [name.strip() for _, names in islice(rows_of(path, file), 1) for name in names]


def kind_of(path: Path) -> str:
    """Returns the file format of a table: csv, json or parquet."""
    if is_parquet(path):
        return "parquet"
    return "json" if first_character(path, "a table") in ("[", "{") else "csv"


def _csv_records(path: Path, header: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    with reading(path, _TABLE):
        check_packed_text(path, MOST_RECORDS)
        with opened_text(path) as file:
            for line, cells in islice(rows_of(path, file), 1, None):
                if not any(map(str.strip, cells[len(header) :])):  # each line ends in separators
                    cells = cells[: len(header)]
                if len(cells) != len(header) and any(map(str.strip, cells)):
                    raise DataError(
                        f"{path}, line {line}: expected {len(header)} cells as in the header, got {len(cells)}; put "
                        f"cells that contain the separator in double quotes"
                    )
                filled = [cell.strip() for cell in cells if cell.strip()]
                if len(filled) > 1 and all(map(_RULE.fullmatch, filled)):
                    raise DataError(
                        f"{path}, line {line}: expected a row, got a line such as Markdown puts below a header; save "
                        f"the table as CSV"
                    )
                if cells:
                    yield f"{path}, line {line}", dict(zip(header, cells, strict=False))


def _parquet_records(path: Path, header: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    if not set(header) <= set(pq.read_schema(path).names) or _holds_lists(path, header):
        for where, row in _nested_rows(path):
            yield where, {name: cell_of(row.get(name)) for name in header}
        return
    for first, batch in tables.batches(path, header, most=MOST_RECORDS):
        columns = [batch[name].values() for name in header]
        for row, cells in enumerate(zip(*columns, strict=True), start=first):
            yield f"{path}, row {row}", dict(zip(header, cells, strict=True))


def _holds_lists(path: Path, header: list[str]) -> bool:
    schema: pa.Schema = pq.read_schema(path)
    return any(pa.types.is_nested(schema.field(name).type) for name in header)


def _nested_header(path: Path, flat: list[str]) -> list[str]:
    """Returns the columns of a Parquet file with lists, whose rows may hold several answers each."""
    names: dict[str, None] = {}
    nested: set[str] = set()
    for _, row in _nested_rows(path):
        names.update(dict.fromkeys(row))
        nested |= {name for name, value in row.items() if not is_cell(name, value)}
    return [name for name in names if name not in nested] or flat


def _nested_rows(path: Path) -> Iterator[tuple[str, Record]]:
    with reading(path, "a Parquet file"), pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
        cells = sum(max(group.column(place).num_values for place in range(group.num_columns)) for group in groups)
        check_rows(cells, path, floor=MOST_RECORDS, what="answers")
        unpacked = sum(group.total_byte_size for group in groups)
        check_unpacked(unpacked, path.stat().st_size, str(path), "write a row for each answer, as CSV")
        number = 0
        for batch in file.iter_batches(batch_size=_NESTED_ROWS):
            for record in batch.to_pylist():
                number += 1
                for row in rows_in(record, f"{path}, row {number}"):
                    yield f"{path}, row {number}", row


def listed(names: tuple[str, ...]) -> str:
    """Returns names as a line of CSV, as in the file, shortened if they are long or many."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([cut(name) for name in names[:12]])
    return line.getvalue() + (f", … ({len(names)} columns)" if len(names) > 12 else "")


def cut(text: str, most: int = 40) -> str:
    """Returns a text, shortened if it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"
