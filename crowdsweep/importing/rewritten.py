"""Rewrites tables of a dataset folder in their own form: columns, separator, compression and file permissions."""

import gzip
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from crowdsweep.data.on_disk.text_files import opened_text, reading, separator_of
from crowdsweep.errors import DataError
from crowdsweep.files import csv_files
from crowdsweep.importing.delimited import header_of

_BOM = b"\xef\xbb\xbf"


def rewrite(path: Path, target: Path, rows: Iterable[Mapping[str, str]], more: Sequence[str] = ()) -> None:
    """Writes rows as a CSV in the form of an existing one, with quotes only where they are needed.

    Args:
        path: the existing CSV.
        target: the file to write.
        rows: values by column; a column that a row lacks is empty.
        more: columns to add if the CSV does not have them.

    Raises:
        DataError: the existing file is Parquet.
    """
    if path.suffix == ".parquet":
        raise DataError(
            f"{path}: expected a CSV to add to, got Parquet; write the table as {path.stem}.csv in its place"
        )
    header = list(dict.fromkeys([*header_of(path), *more]))
    with reading(path, "a table of text (CSV)"), opened_text(path) as file:
        separator = separator_of(file) or ","
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        encoding = "utf-8-sig" if file.read(len(_BOM)) == _BOM else "utf-8"
    lines = ([row.get(name, "") for name in header] for row in rows)
    csv_files.write_rows(target, header, lines, separator=separator, encoding=encoding)
    shutil.copymode(path, target)
