"""Reads tables row by row: CSV with commas, semicolons, tabs or bars, gzipped or not; tables in JSON or Parquet."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crowdsweep.data.bounds import MOST_RECORDS, check_columns
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

_TABLE = "a table of text (CSV)"


def records(
    path: Path, columns: Sequence[str], on_blank: Callable[[], None] = lambda: None
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (place for messages, record) for each row of a table.

    Args:
        path: the file.
        columns: columns that the table must have.
        on_blank: is called for each row whose cells are all empty; such a row is skipped like a blank line.

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
        if any(map(str.strip, record.values())):
            yield where, record
        else:
            on_blank()


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
            return [name for name in schema.names if not pa.types.is_nested(schema.field(name).type)]
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
                if len(cells) != len(header) and any(map(str.strip, cells)):
                    raise DataError(
                        f"{path}, line {line}: expected {len(header)} cells as in the header, got {len(cells)}; put "
                        f"cells that contain the separator in double quotes"
                    )
                if cells:
                    yield f"{path}, line {line}", dict(zip(header, cells, strict=False))


def _parquet_records(path: Path, header: list[str]) -> Iterator[tuple[str, dict[str, str]]]:
    for first, batch in tables.batches(path, header, most=MOST_RECORDS):
        columns = [batch[name].values() for name in header]
        for row, cells in enumerate(zip(*columns, strict=True), start=first):
            yield f"{path}, row {row}", dict(zip(header, cells, strict=True))
