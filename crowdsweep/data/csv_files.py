"""CSV as it is written: whatever stands in a field, every reader of CSV takes it back, a lone carriage return too."""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.csv as pa_csv

_ALL_TEXTS = pa_csv.WriteOptions(quoting_style="needed")
_ROW_END = "\r\n"


def table_as_csv(table: pa.Table) -> str:
    """Returns a table with its header; all texts stand in quotes, and null is an empty field."""
    buffer = io.BytesIO()
    pa_csv.write_csv(table, buffer, _ALL_TEXTS)
    return buffer.getvalue().decode()


def write_table(path: Path, table: pa.Table) -> None:
    """Writes what `table_as_csv` returns."""
    with path.open("wb") as file:  # Arrow opens no path that is no UTF-8
        pa_csv.write_csv(table, file, _ALL_TEXTS)


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Writes rows of texts; those stand in quotes that have to."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(_Lines(file), lineterminator=_ROW_END)
        writer.writerow(header)
        writer.writerows(rows)


class _Lines:
    """Ends rows in a line feed alone. The writer quotes only what ends its rows: for it, they end in both."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row.removesuffix(_ROW_END) + "\n")
