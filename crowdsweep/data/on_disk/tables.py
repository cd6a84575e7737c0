"""Reads columns of CSV and Parquet files as coded texts, in batches, so that memory stays far below the file's text.

Every value is a text: labels and ids may be words, integers or booleans, and different values stay different. A missing
value (an empty field, a null, a NaN) is the empty text. Rows are numbered from 1, without the header. CSV may be
gzipped, and separates its fields by commas, semicolons, tabs or bars.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, SupportsIndex, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from jaxtyping import Int32

from crowdsweep.data import bounds
from crowdsweep.data.on_disk.text_files import check_packed_text, not_utf8, opened_text, reading, separator_of
from crowdsweep.data.on_disk.updates import current_path
from crowdsweep.errors import CrowdsweepError, DataError, shortened
from crowdsweep.paths import is_file

_CODED = pa.dictionary(pa.int32(), pa.string())
_BLOCK_BYTES = 1 << 20  # Arrow reads dozens of blocks ahead
KINDS = ("csv", "csv.gz", "parquet")
_BATCH_ROWS = 1 << 18
_JOINED_ROWS = 1 << 22
_WIDEST = 256  # most bytes of a value of fixed width, such as a number or an id
WHOLE_BELOW = {16: 1 << 11, 32: 1 << 24, 64: 1 << 53}  # by bits of a float: below, it distinguishes all integers
_RAGGED = re.compile(
    r"(?:Row #(?P<row>\d+): )?Expected (?P<expected>\d+) columns, got (?P<got>\d+): (?P<text>.*)", re.DOTALL
)  # message of Arrow
_NUMBERED = r"^(?P<prefix>.*?)(?P<number>0|[1-9][0-9]{0,17})$"


def find_table(folder: Path, stem: str) -> Path | None:
    """Returns the CSV or Parquet file of that name, or None if there is none.

    Raises:
        DataError: there are several such files.
    """
    found = [path for path in (current_path(folder, f"{stem}.{kind}") for kind in KINDS) if is_file(path)]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise DataError(f"{folder}: expected one file of {stem}, found {names}; remove one")
    return found[0] if found else None


def column_names(path: Path) -> list[str]:
    """Returns the names of a file's columns.

    Raises:
        DataError: the file is empty, is not UTF-8 or not Parquet, or has two columns of one name.
    """
    if path.suffix == ".parquet":
        with reading(path, "a Parquet file"):
            names = [str(name) for name in pq.read_schema(path).names]
    else:
        names = _csv_header(path)[0]
        if not names:
            raise DataError(f"{path}: expected a header with column names, got an empty file")
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise DataError(f"{path}: expected distinct column names, got {twice[0]!r} twice")
    return names


@dataclass(frozen=True, eq=False)
class Names(Sequence[str]):
    """Sequence of texts held by Arrow: a million of them take only their characters, not a million Python objects."""

    array: Any  # pyarrow's StringArray without nulls

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Names":
        """Returns these texts as `Names`, in this order."""
        if isinstance(texts, Names):
            return texts
        encoded = [text.encode() for text in texts]  # pa.array would import pandas, if it is installed
        ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(encoded))]
        return cls(pa.Array.from_buffers(pa.large_string(), len(encoded), buffers).cast(pa.string()))

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> str | Sequence[str]:
        # The index may be an integer of NumPy.
        return Names(self.array[index]) if isinstance(index, slice) else self.array[int(index)].as_py()

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[str]:
        return iter(self.array.to_pylist())

    def take(self, places: np.ndarray) -> "Names":
        """Returns the names at these positions, in that order."""
        return Names(self.array.take(pa.array(places)))

    def places_of(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the position of each of these texts among the names, int32; -1 if it is not there."""
        found: Any = pc.index_in(Names.of(texts).array, value_set=self.array)
        return found.fill_null(-1).to_numpy(zero_copy_only=False)

    def lengths(self) -> np.ndarray:
        """Returns the number of characters of each name."""
        found: Any = pc.utf8_length(self.array)
        return found.to_numpy(zero_copy_only=False)

    def find(self, text: str) -> int:
        """Returns the first position of a text among the names; -1 if it is not there."""
        return self.array.index(text).as_py()

    def natural_order(self) -> np.ndarray:
        """Returns the positions in ascending order: by number if all are one prefix and a number, else as texts."""
        parts: Any = pc.extract_regex(self.array, _NUMBERED)
        if len(self) and not parts.null_count and len(parts.field("prefix").unique()) == 1:
            return np.argsort(parts.field("number").cast(pa.int64()).to_numpy(), kind="stable")
        order: Any = pc.sort_indices(self.array)
        return order.to_numpy().astype(np.int64)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: a code for each row, and the distinct texts that the codes stand for."""

    array: Any  # pyarrow's DictionaryArray of int32 codes and strings, without nulls

    @property
    def codes(self) -> Int32[np.ndarray, " rows"]:
        return self.array.indices.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)

    @property
    def texts(self) -> Names:
        return Names(self.array.dictionary)

    def values(self) -> list[str]:
        """Returns the text of each row; rows with equal texts share one object."""
        texts = self.array.dictionary.to_pylist()
        return [texts[code] for code in self.codes.tolist()]

    def first_row(self, code: int) -> int:
        """Returns the first row with that code."""
        return int(np.flatnonzero(self.codes == code)[0])

    def among(self, names: Names) -> "Column":
        """Returns the same texts as codes into `names`, which has all of them."""
        indices: Any = pa.array(names.places_of(self.texts)[self.codes])
        return Column(pa.DictionaryArray.from_arrays(indices, names.array))

    def keep(self, mask: np.ndarray) -> "Column":
        """Returns the rows where the mask is true, with only the texts that they use."""
        return _only_used(self.array.filter(pa.array(mask)))


def _only_used(array: Any) -> Column:
    """Returns a column without the texts that none of its rows has, without decoding the rows."""
    codes = array.indices.to_numpy(zero_copy_only=False)
    used = np.zeros(len(array.dictionary), dtype=bool)
    used[codes] = True
    if used.all():
        return Column(array)
    place = (np.cumsum(used) - 1).astype(np.int32)
    indices: Any = pa.array(place[codes])
    return Column(pa.DictionaryArray.from_arrays(indices, array.dictionary.filter(pa.array(used))))


def coded(texts: Sequence[str]) -> Column:
    """Returns texts as a coded column."""
    return Column(Names.of(texts).array.dictionary_encode())


class Stacking:
    """Concatenates the batches of one column and merges their texts along the way.

    Each batch has its own texts; all of them together would take several times as much memory as the codes.
    """

    def __init__(self) -> None:
        self._parts: list[Column] = []
        self._fresh = 0  # rows after the first part

    def add(self, column: Column) -> None:
        """Adds rows."""
        self._parts.append(column)
        self._fresh += len(column.array)
        # Joined when a quarter is new: a row is then copied a few times in all, however many batches there are.
        if self._fresh > max(_JOINED_ROWS, len(self._parts[0].array) // 4):
            self._parts, self._fresh = [self.joined()], 0

    def joined(self) -> Column:
        """Returns all rows as one column with one set of codes."""
        chunked: Any = pa.chunked_array([part.array for part in self._parts], type=_CODED)  # pyright: ignore[reportCallIssue, reportArgumentType] - stubs lack dictionaries
        return Column(chunked.unify_dictionaries().combine_chunks())


def whole(parts: dict[str, Stacking]) -> dict[str, Column]:
    """Returns all rows of these columns; `parts` is emptied, so that no column is held twice."""
    columns = {name: parts.pop(name).joined() for name in list(parts)}
    pa.default_memory_pool().release_unused()  # Arrow keeps what it freed, more than these columns take
    return columns


def distinct(parts: Sequence[Names]) -> Names:
    """Returns the distinct texts of all parts."""
    chunked: Any = pa.chunked_array([part.array for part in parts], type=pa.string())
    return Names(chunked.unique())


def batches(
    path: Path,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    most: int = bounds.MOST_ROWS,
    blanks: bool = False,
) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yields (number of the first row, columns) of each batch; optional columns only if the file has them.

    A row in which all of these columns are empty is skipped like an empty line: spreadsheets leave such rows.

    Args:
        most: number of rows that a file of any size may have (`bounds.check_rows`).
        blanks: whether to yield rows in which all of these columns are empty, too.

    Raises:
        DataError: a required column is missing, a row has too few or too many fields, the file is not UTF-8, or its
            content is far larger than the file.
    """
    names = column_names(path)
    for name in required:
        if name not in names:
            there = shortened(", ".join(map(repr, names)), 500)
            raise DataError(f"{path}: expected a column {name!r}, got columns {there}; rename it")
    wanted = list(dict.fromkeys([*required, *(name for name in optional if name in names)]))
    reader = _parquet_batches if path.suffix == ".parquet" else _csv_batches
    first = 1
    for batch in reader(path, wanted, most):
        bounds.check_rows(first - 1 + batch.num_rows, path, floor=most)
        columns: dict[str, Column] = {}
        for name in wanted:
            _check_told_apart(path, name, batch.column(name))
            with reading(path, f"texts, numbers or booleans in the column {name}"):
                columns[name] = _as_column(batch.column(name))
        yield from [(first, columns)] if blanks else _without_blanks(first, columns)
        first += batch.num_rows


def _without_blanks(first: int, columns: dict[str, Column]) -> Iterator[tuple[int, dict[str, Column]]]:
    """Yields each run of rows that are not blank, with the number of its first row."""
    filled = ~np.logical_and.reduce([column.codes == column.texts.find("") for column in columns.values()])
    if filled.all():
        yield first, columns
        return
    edges = np.flatnonzero(np.diff(np.concatenate([[False], filled, [False]]).astype(np.int8)))
    for start, end in edges.reshape(-1, 2).tolist():
        rows = {name: column.array.slice(start, end - start) for name, column in columns.items()}
        yield first + start, {name: _only_used(part) for name, part in rows.items()}


def _csv_header(path: Path) -> tuple[list[str], str]:
    """Returns the names of the columns, and the separator."""
    with reading(path, "a table of text (CSV)"), opened_text(path) as file:
        if file.encoding == "utf-16":  # Arrow, which reads the rows, cannot
            raise not_utf8(path)
        separator = separator_of(file) or ","
        return next(csv.reader(file, delimiter=separator), []), separator


def _csv_batches(path: Path, wanted: Sequence[str], most: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows; if a row is longer than a block, reads on from there in larger blocks."""
    with reading(path, "a table of text (CSV)"):
        check_packed_text(path, most)
    separator = _csv_header(path)[1]
    block, done = _BLOCK_BYTES, 0
    while True:
        try:
            for batch in _blocks(path, wanted, separator, block, done):
                done += batch.num_rows
                yield batch
            return
        except _RowTooLong as error:
            block *= 8
            if block > bounds.LONGEST_LINE:
                raise DataError(
                    f"{path}, after row {done}: expected rows of at most {bounds.LONGEST_LINE >> 20} MB, got a longer "
                    f"one; is a double quote not closed?"
                ) from error


class _RowTooLong(CrowdsweepError):
    """A row does not fit into a block."""


def _blocks(path: Path, wanted: Sequence[str], separator: str, block: int, done: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows after the first `done`, read block by block.

    Arrow is given no Python object to call: if one of its threads releases a Python object while the interpreter ends,
    the process crashes.
    """
    with reading(path, "a table of text (CSV)"):
        try:
            for batch in pa_csv.open_csv(
                path,
                read_options=pa_csv.ReadOptions(block_size=block, use_threads=False),
                parse_options=pa_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, _CODED), include_columns=list(wanted)
                ),
            ):
                rest = batch.slice(min(done, batch.num_rows))
                done -= batch.num_rows - rest.num_rows
                if rest.num_rows:
                    yield rest
        except pa.ArrowException as error:
            if ragged := _RAGGED.search(str(error)):
                raise _ragged(path, ragged) from error
            if "straddling" in str(error):
                raise _RowTooLong from error
            if "UTF8" in str(error):
                raise not_utf8(path) from error
            raise


def _ragged(path: Path, match: re.Match[str]) -> DataError:
    place = "" if match["row"] is None else f", row {int(match['row']) - 1}"
    return DataError(
        f"{path}{place}: expected {match['expected']} fields as in the header, got {match['got']}: "
        f"{match['text'][:80]!r}; put fields that contain the separator in double quotes"
    )


def _parquet_batches(path: Path, wanted: Sequence[str], most: int) -> Iterator[pa.RecordBatch]:
    with reading(path, "a Parquet file"):
        coded_ones = _checked_parquet(path, wanted, most)
        with pq.ParquetFile(path, read_dictionary=coded_ones) as file:
            yield from file.iter_batches(batch_size=_BATCH_ROWS, columns=list(wanted))


def _checked_parquet(path: Path, wanted: Sequence[str], most: int) -> list[str]:
    """Checks the file's metadata on these columns, and returns the names of those that hold texts.

    Text columns are read as dictionaries: each text is read once, not for every row that has it.

    Raises:
        DataError: a column holds lists or records, or the content is far larger than the file.
    """
    with pq.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    for name in wanted:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or (pa.types.is_fixed_size_binary(kind) and kind.byte_width > _WIDEST):
            raise DataError(
                f"{path}: expected texts, numbers or booleans in the column {name}, got {shortened(str(kind))}; leave "
                f"the column out, or write its values one by one"
            )
    bounds.check_rows(metadata.num_rows, path, floor=most)
    # Not checked by column: pyarrow ends the process if the file's metadata on a column cannot be true.
    unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    bounds.check_unpacked(unpacked, path.stat().st_size, str(path), "write it as plain CSV")
    columns = (metadata.schema.column(place) for place in range(metadata.num_columns))
    return [column.path for column in columns if column.path in wanted and column.physical_type == "BYTE_ARRAY"]


def _check_told_apart(path: Path, name: str, array: Any) -> None:
    """Refuses floats so large that neighbouring integers are one float: as ids they would merge different items."""
    if not pa.types.is_floating(array.type):
        return
    most = WHOLE_BELOW[array.type.bit_width]
    largest = pc.max(pc.abs(pc.if_else(pc.is_finite(array), array, None))).as_py() or 0
    if largest >= most:
        raise DataError(
            f"{path}: expected texts or integers in the column {name}, got the number {largest:.17g}, a float: from "
            f"{most:,} on these take several integers for one; write the column as integers or as texts"
        )


def _as_column(array: Any) -> Column:
    if not pa.types.is_dictionary(array.type):
        return Column(_as_texts(array).dictionary_encode())
    texts = _as_texts(array.dictionary).dictionary_encode()  # an integer and a text of its digits are one text
    codes = texts.indices.take(array.indices)
    dictionary = texts.dictionary
    if codes.null_count:
        empty = dictionary.index("").as_py()
        if empty < 0:
            empty, dictionary = len(dictionary), pa.concat_arrays([dictionary, pa.array([""])])
        codes = codes.fill_null(empty)
    return _only_used(pa.DictionaryArray.from_arrays(codes.cast(pa.int32()), dictionary))


def _as_texts(array: Any) -> Any:
    """Returns values as texts without nulls."""
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)  # pandas turns integers into floats if one is missing
    if pa.types.is_boolean(array.type):
        array = pc.if_else(array, "True", "False")  # as pandas and Python write them to CSV
    decimal = pa.types.is_decimal(array.type)
    texts = array.cast(pa.string()).fill_null("")
    if decimal:  # 1.0 is 1 and 2.50 is 2.5, as among floats
        texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)(?:\.0*|(\.[0-9]*[1-9])0*)$", r"\1\2")
    texts.validate(full=True)  # texts in Parquet may hold any bytes
    return texts
