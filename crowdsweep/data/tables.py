"""Reads the columns of a CSV or Parquet file as texts, in batches, so that memory does not grow with the file.

Every value is a text: labels and ids may be words, integers or booleans, and none is ever taken for another. A missing
value (an empty field, a null, a NaN) is the empty text. Rows are counted from 1, the header not being one.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from crowdsweep.errors import DataError

_CODED = pa.dictionary(pa.int32(), pa.string())
_BLOCK_BYTES = 1 << 24
_BATCH_ROWS = 1 << 18
_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"


def find_table(folder: Path, stem: str) -> Path | None:
    """Returns the CSV or Parquet file of that name, or None where there is none.

    Raises:
        DataError: there are both.
    """
    found = [path for path in (folder / f"{stem}.csv", folder / f"{stem}.parquet") if path.is_file()]
    if len(found) > 1:
        raise DataError(f"{folder}: expected {stem}.csv or {stem}.parquet, found both; remove one")
    return found[0] if found else None


def column_names(path: Path) -> list[str]:
    """Returns the names of a file's columns.

    Raises:
        DataError: the file is empty, is not UTF-8 or not Parquet, or names a column twice.
    """
    if path.suffix == ".parquet":
        try:
            names = list(pq.read_schema(path).names)
        except pa.ArrowException as error:
            raise DataError(f"{path}: expected a Parquet file, got something else ({error})") from error
    else:
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                names = next(csv.reader(file), [])
        except UnicodeDecodeError as error:
            raise _not_utf8(path) from error
        if not names:
            raise DataError(f"{path}: expected a header with column names, got an empty file")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{path}: expected distinct column names, got {twice[0]!r} twice")
    return names


def batches(
    path: Path, required: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[int, dict[str, pa.DictionaryArray]]]:
    """Yields (number of the first row, dictionary-coded columns); optional columns only where the file has them.

    Raises:
        DataError: a required column is not there, a row has too few or too many fields, or the file is not UTF-8.
    """
    names = column_names(path)
    for name in required:
        if name not in names:
            raise DataError(f"{path}: expected a column {name!r}, got columns {', '.join(map(repr, names))}; rename it")
    wanted = list(dict.fromkeys([*required, *(name for name in optional if name in names)]))
    reader = _parquet_batches if path.suffix == ".parquet" else _csv_batches
    first = 1
    for batch in reader(path, wanted):
        yield first, {name: _coded(batch.column(name)) for name in wanted}
        first += batch.num_rows


def texts(columns: Sequence[pa.DictionaryArray]) -> list[str]:
    """Returns the values of one column's batches as a list."""
    return [value for column in columns for value in column.to_pylist()]


def merged(columns: Sequence[pa.DictionaryArray]) -> tuple[np.ndarray, pa.StringArray]:
    """Joins one column's batches: an int32 code for each row, and the texts that the codes stand for."""
    if not columns:
        return np.empty(0, dtype=np.int32), pa.array([], pa.string())
    chunks = pa.chunked_array(columns, type=_CODED).unify_dictionaries().chunks
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks])
    return codes.astype(np.int32, copy=False), chunks[-1].dictionary


def natural_order(names: pa.StringArray) -> np.ndarray:
    """Returns the places of the names in ascending order: as numbers where all are whole numbers, else as texts."""
    if len(names) and pc.all(pc.match_substring_regex(names, _WHOLE_NUMBER)).as_py():
        return np.argsort(names.cast(pa.int64()).to_numpy(), kind="stable")
    return pc.sort_indices(names).to_numpy().astype(np.int64)


def _csv_batches(path: Path, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    ragged: list[pa_csv.InvalidRow] = []

    def refuse(row: pa_csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    try:
        yield from pa_csv.open_csv(
            path,
            read_options=pa_csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, _CODED), include_columns=list(wanted)
            ),
        )
    except pa.ArrowException as error:
        if ragged:
            row = ragged[0]
            place = "" if row.number is None else f", row {row.number - 1}"
            raise DataError(
                f"{path}{place}: expected {row.expected_columns} fields as in the header, got {row.actual_columns}: "
                f"{row.text[:80]!r}; put fields that contain commas in double quotes"
            ) from error
        if "UTF8" in str(error):
            raise _not_utf8(path) from error
        raise DataError(f"{path}: cannot be read as CSV: {error}") from error


def _parquet_batches(path: Path, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=list(wanted))


def _coded(column: pa.Array) -> pa.DictionaryArray:
    if pa.types.is_dictionary(column.type):
        column = column if column.type == _CODED else column.dictionary_decode()
    if column.type == _CODED and not column.null_count:
        return column
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)  # pandas makes floats of integers where one is missing
    return pc.fill_null(column.cast(pa.string()), "").dictionary_encode()


def _not_utf8(path: Path) -> DataError:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x} in line {number}"
                return DataError(f"{path}: expected UTF-8, got {byte}; save the file again as UTF-8")
    return DataError(f"{path}: expected UTF-8; save the file again as UTF-8")
