"""CSV writers; every CSV reader restores each field exactly, even one with a lone carriage return."""

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
_PIECE = 1 << 17  # rows converted to text at a time
_ROW_END = "\r\n"
_HARMLESS = r"^([!-*,./0-9:;<>?A-Za-z\[-~][ -~]*)?$"  # printable ASCII that begins with no space and no formula
_UNSEEN = ("Cc", "Cf", "Zs", "Zl", "Zp")
_BEGINS_FORMULA = ("=", "+", "-", "@")


def to_csv(table: pa.Table) -> str:
    """Returns a table as comma-separated values with a header; null is an empty field.

    Text that begins with `=`, `+`, `-` or `@` gets a quote before it, because a spreadsheet would run it as a formula.
    Numbers stay numbers. Terminal control characters are escaped (`errors.plain`).
    """
    return b"".join(_pieces(table)).decode()


def write_safe_table(path: Path, table: pa.Table) -> None:
    """Writes what `to_csv` returns, in chunks, so that a table of any size needs little extra memory."""
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
    """Returns a column without formulas and control characters; checks each text of a dictionary only once."""
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
    """Writes a table with its header; texts are quoted but not changed, and null is an empty field."""
    with path.open("wb") as file:  # Arrow cannot open a path that is not UTF-8
        pa_csv.write_csv(table, file, _ALL_TEXTS)


def write_rows(
    path: Path, header: Sequence[str], rows: Iterable[Sequence[str]], *, separator: str = ",", encoding: str = "utf-8"
) -> None:
    """Writes rows of texts, gzipped if the file name ends in .gz; only texts that need quotes are quoted."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wt", newline="", encoding=encoding) as file:
        writer = csv.writer(_Lines(file), delimiter=separator, lineterminator=_ROW_END)
        writer.writerow(header)
        writer.writerows(rows)


def write_columns(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes columns of texts in the format of `write_rows`, in chunks.

    Args:
        path: of the file.
        columns: name → Arrow array of texts or of dictionary-encoded texts, all of one length.
    """
    with path.open("wb") as file:
        file.write(_quoted([list(columns)]))
        for start in range(0, len(next(iter(columns.values()))), _PIECE):
            part = [column[start : start + _PIECE].cast(pa.string()) for column in columns.values()]
            try:
                buffer = io.BytesIO()
                pa_csv.write_csv(pa.Table.from_arrays(part, names=list(columns)), buffer, _NO_QUOTES)
                file.write(buffer.getbuffer())
            except pa.ArrowInvalid:  # some texts need quotes
                file.write(_quoted(zip(*(column.to_pylist() for column in part), strict=True)))


def _quoted(rows: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(_Lines(text), lineterminator=_ROW_END).writerows(rows)
    return text.getvalue().encode()


class _Lines:
    """A file wrapper that ends rows with a line feed alone.

    `csv.writer` quotes a field only if it contains a character of the row end. It therefore gets `\\r\\n` as its row
    end, and this wrapper removes the carriage return.
    """

    def __init__(self, file: io.TextIOBase) -> None:
        self._file = file

    def write(self, row: str) -> int:
        return self._file.write(row.removesuffix(_ROW_END) + "\n")


def _csv_text(text: str) -> str:
    """Returns a text without formulas and control characters; a carriage return stays, as quotes make it harmless."""
    shown = "\r".join(map(plain, text.split("\r")))
    return f"'{shown}" if _is_formula(text) else shown


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may run a text as a formula: also after invisible characters, or with a full-width sign."""
    first = next((character for character in text if unicodedata.category(character) not in _UNSEEN), "")
    return unicodedata.normalize("NFKC", first) in _BEGINS_FORMULA or text[:1] in ("\t", "\r")
