"""CSV as it is written: whatever stands in a field, every reader of CSV takes it back, a lone carriage return too."""

import csv
import gzip
import io
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from crowdsweep.errors import plain

_ALL_TEXTS = pa_csv.WriteOptions(quoting_style="needed")
_NO_HEADER = pa_csv.WriteOptions(quoting_style="needed", include_header=False)
_NO_QUOTES = pa_csv.WriteOptions(quoting_style="none", include_header=False)
_PIECE = 1 << 17  # rows that are text at a time
_ROW_END = "\r\n"
_HARMLESS = r"^([!-*,./0-9:;<>?A-Za-z\[-~][ -~]*)?$"  # ASCII that is printed, and begins with no space and no formula
_UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")
_BEGINS_FORMULA = ("=", "+", "-", "@")


def to_csv(table: pa.Table) -> str:
    """Returns comma-separated values with a header; null is an empty field.

    A spreadsheet takes text that begins with `=`, `+`, `-` or `@` for a formula, and runs it; a quote before it says
    that it is text. Numbers stay numbers. What a terminal would obey is written as an escape (`errors.plain`).
    """
    return b"".join(_pieces(table)).decode()


def write_safe_table(path: Path, table: pa.Table) -> None:
    """Writes what `to_csv` returns, piece by piece, so that a table of any size takes little more memory."""
    with path.open("wb") as file:
        file.writelines(_pieces(table))


def _pieces(table: pa.Table) -> Iterator[bytes]:
    columns = [_safe(column) for column in table.columns]
    table = pa.Table.from_arrays(columns, names=[_csv_text(name) for name in table.column_names])
    for start in range(0, max(table.num_rows, 1), _PIECE):
        buffer, part = io.BytesIO(), table.slice(start, _PIECE)
        for place, (name, column) in enumerate(zip(part.column_names, part.columns, strict=True)):
            if pa.types.is_dictionary(column.type):
                part = part.set_column(place, name, column.cast(pa.string()))
        pa_csv.write_csv(part, buffer, _NO_HEADER if start else _ALL_TEXTS)
        yield buffer.getvalue()


def _safe(column: Any) -> Any:
    """Returns a column whose texts are no formulas and no commands; of coded texts, each is looked at once."""
    if pa.types.is_dictionary(column.type):
        column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return pa.DictionaryArray.from_arrays(column.indices, _safe(column.dictionary))
    if not pa.types.is_string(column.type):
        return column
    harmless: Any = pc.match_substring_regex(column, _HARMLESS)
    if pc.all(harmless, min_count=0).as_py():
        return column
    texts = [None if value is None else _csv_text(value) for value in column.to_pylist()]
    return pa.array(texts, column.type)


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


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes columns of texts as `write_rows` writes rows, piece by piece.

    Args:
        path: of the file.
        columns: Arrow's arrays of one length, of texts or of coded texts.
    """
    with path.open("wb") as file:
        file.write(_quoted([list(columns)]))
        for start in range(0, len(next(iter(columns.values()))), _PIECE):
            part = [column[start : start + _PIECE].cast(pa.string()) for column in columns.values()]
            try:
                buffer = io.BytesIO()
                pa_csv.write_csv(pa.Table.from_arrays(part, names=list(columns)), buffer, _NO_QUOTES)
                file.write(buffer.getbuffer())
            except pa.ArrowInvalid:  # some have to stand in quotes
                file.write(_quoted(zip(*(column.to_pylist() for column in part), strict=True)))


def _quoted(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(_Lines(text), lineterminator=_ROW_END).writerows(rows)
    return text.getvalue().encode()


class _Lines:
    """Ends rows in a line feed alone. The writer quotes only what ends its rows: for it, they end in both."""

    def __init__(self, file: io.TextIOBase) -> None:
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
