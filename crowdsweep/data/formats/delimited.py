"""Tables of text: CSV with commas, semicolons, tabs or bars, packed or not, row by row."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from crowdsweep.data.doors import opened_text, reading, separator_of
from crowdsweep.errors import DataError


def records(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields (where it stands, record) of a table whose header has these columns.

    Raises:
        DataError: the file is no such table; says which line is not.
    """
    with reading(path, "a table of text (CSV)"), opened_text(path) as file:
        reader = csv.reader(file, delimiter=separator_of(file) or ",", strict=True)
        header = [name.strip() for name in next(reader, [])]
        missing = [name for name in columns if name not in header]
        if missing:
            found = ", ".join(header) or "an empty file"
            raise DataError(f"{path}: expected the columns {', '.join(columns)}, got {found}")
        twice = sorted({name for name in header if name in columns and header.count(name) > 1})
        if twice:
            raise DataError(f"{path}: expected distinct column names, got {twice[0]!r} twice; rename one")
        for cells in told(path, reader):
            if not cells:
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{path}, line {reader.line_num}: expected {len(header)} cells as in the header, got {len(cells)}; "
                    f"put cells that contain the separator in double quotes"
                )
            yield f"{path}, line {reader.line_num}", dict(zip(header, cells, strict=True))


def header_of(path: Path) -> list[str]:
    """Returns the column names of a table."""
    with reading(path, "a table of text (CSV)"), opened_text(path) as file:
        reader = csv.reader(file, delimiter=separator_of(file) or ",", strict=True)
        return [name.strip() for name in next(reader, [])]


def told(path: Path, reader: Iterator[list[str]]) -> Iterator[list[str]]:
    """Yields the rows of a csv reader, whose errors then say the line."""
    try:
        yield from reader
    except csv.Error as error:
        line = getattr(reader, "line_num", 0)
        raise DataError(f"{path}, line {line}: expected a row of a table: {error}; check the double quotes") from error
