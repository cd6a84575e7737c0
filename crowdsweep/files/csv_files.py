"""CSV as it is written: whatever stands in a field, every reader of CSV takes it back, a lone carriage return too."""

import csv
import gzip
import io
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from crowdsweep.errors import plain

_ALL_TEXTS = pa_csv.WriteOptions(quoting_style="needed")
_ROW_END = "\r\n"
_UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")
_BEGINS_FORMULA = ("=", "+", "-", "@")


def to_csv(table: pa.Table) -> str:
    """Returns comma-separated values with a header; null is an empty field.

    A spreadsheet takes text that begins with `=`, `+`, `-` or `@` for a formula, and runs it; a quote before it says
    that it is text. Numbers stay numbers. What a terminal would obey is written as an escape (`errors.plain`).
    """
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if pa.types.is_string(column.type):
            texts = [None if value is None else _csv_text(value) for value in column.to_pylist()]
            table = table.set_column(place, name, pa.array(texts, column.type))
    buffer = io.BytesIO()
    pa_csv.write_csv(table.rename_columns([_csv_text(name) for name in table.column_names]), buffer, _ALL_TEXTS)
    return buffer.getvalue().decode()


def write_table(path: Path, table: pa.Table) -> None:
    """Writes a table with its header; all texts stand in quotes as they are, and null is an empty field."""
    with path.open("wb") as file:  # Arrow opens no path that is no UTF-8
        pa_csv.write_csv(table, file, _ALL_TEXTS)


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str]], *, separator: str = ",", encoding: str = "utf-8"
) -> None:
    """Writes rows of texts, packed where the name ends in .gz; those stand in quotes that have to."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding=encoding) as file:
        writer = csv.writer(_Lines(file), delimiter=separator, lineterminator=_ROW_END)
        writer.writerow(header)
        writer.writerows(rows)


class _Lines:
    """Ends rows in a line feed alone. The writer quotes only what ends its rows: for it, they end in both."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row.removesuffix(_ROW_END) + "\n")


def _csv_text(text: str) -> str:
    """Returns a text that is no formula and no command; a carriage return is only an end of line in quotes."""
    shown = "\r".join(map(plain, text.split("\r")))
    return f"'{shown}" if _is_formula(text) else shown


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula: also behind what it does not show, and in full width."""
    first = next((character for character in text if unicodedata.category(character) not in _UNSEEN), "")
    return unicodedata.normalize("NFKC", first) in _BEGINS_FORMULA or text[:1] in ("\t", "\r")
