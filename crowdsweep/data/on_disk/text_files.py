"""Opens and reads data files within bounds, and reports every failure with the file's name.

Damaged files make libraries raise arbitrary exceptions. So no code lists these exceptions: every read of a file is
inside `reading`, which gives either a result or a DataError.
"""

import csv
import gzip
import io
import json
import re
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from crowdsweep.data import bounds
from crowdsweep.errors import CrowdsweepError, DataError
from crowdsweep.paths import is_file, lexists

LONGEST_FIELD = bounds.LONGEST_LINE  # characters of one cell, or of one JSON value
_SAMPLE = 1 << 16  # characters from which the separator is inferred
# In order of preference: a comma inside a cell is more common than a tab or a semicolon.
_SEPARATORS = ("\t", ";", ",", "|")
_GZIP, _ZIP, _PARQUET = b"\x1f\x8b", b"PK", b"PAR1"  # first bytes of files of these kinds
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # byte order marks: what Excel calls Unicode text
_OTHER_KINDS = {  # first bytes of files that people take for tables, and what they are
    b"ARRO": "an Arrow or Feather file; save it as Parquet or CSV",
    b"FEA1": "a Feather file; save it as Parquet or CSV",
    b"\xd0\xcf\x11\xe0": "a spreadsheet of old Excel (.xls); save the sheet as CSV",
    b"$FL2": "a file of SPSS; save it as CSV",
    b"$FL3": "a file of SPSS; save it as CSV",
    b"<sta": "a file of Stata; save it as CSV",
    b"SQLi": "a SQLite database; save the table as CSV",
    b"\x89HDF": "an HDF5 file; save the table as CSV",
    b"BZh9": "a file packed by bzip2; unpack it",
    b"\xfd7zX": "a file packed by xz; unpack it",
    b"%PDF": "a PDF; save the table as CSV",
}
_LEAD = re.compile(
    r"(?:sep=.\r?\n|#.*\n|(?:[ \t\r,;|]|\"\")*\n)*"
)  # what may stand above a table: no row, and no header

csv.field_size_limit(LONGEST_FIELD)  # for the whole process, the csv module's only way; default: 128 kB


@contextmanager
def reading(path: Path, expected: str) -> Generator[None]:
    """Turns any exception while a file is read into a DataError.

    Args:
        expected: what the file should be, `a Parquet file`.
    """
    try:
        yield
    except CrowdsweepError:
        raise
    except UnicodeDecodeError as error:
        raise not_utf8(path) from error
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}, line {error.lineno}, column {error.colno}: expected {expected}: {error.msg}; export it again"
        ) from error
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(
            f"{path}: expected {expected}, cannot read it as that ({reason}); make the file again"
        ) from error


def found_at(path: Path) -> str:
    """Returns, in words for a message, what exists at a path where a file is expected."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return "a link that leads nowhere" if lexists(path) else "none"
    kinds = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def bytes_of(path: Path, most: int, expected: str) -> bytes:
    """Returns the content of a small file.

    Raises:
        DataError: the path is no file (a pipe or a device is not read), or the file is larger.
    """
    if (found := found_at(path)) != "a file":
        raise DataError(f"{path}: expected {expected}, found {found}")
    with reading(path, expected), path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise DataError(f"{path}: expected {expected} of at most {most:,} bytes, got more; is this the right file?")
    return content


def is_parquet(path: Path) -> bool:
    """Returns whether a file begins as Parquet does."""
    if not is_file(path):
        return False
    with _opened(path) as file:
        return _beginning(file) == _PARQUET


def _opened(path: Path) -> io.BufferedReader:
    """Opens a file to read bytes.

    Raises:
        DataError: the file cannot be read, for example because it belongs to another user.
    """
    with reading(path, "a file that can be read"):
        return path.open("rb")


def _beginning(file: io.BufferedReader) -> bytes:
    """Returns the first four bytes of a file, which identify its kind, without moving on in the file."""
    return file.peek(4)[:4]


@contextmanager
def opened_text(path: Path) -> Generator[io.TextIOWrapper]:
    """Opens UTF-8 text, gzipped or not, with or without a byte order mark, or UTF-16 with one; line ends stay.

    Raises:
        DataError: there is no such file, or it is not text.
    """
    if not is_file(path):
        raise DataError(f"{path}: expected a file, found {found_at(path)}")
    with _opened(path) as file:
        magic = _beginning(file)
        if magic.startswith(_ZIP) and path.suffix.lower() in (".xlsx", ".xlsm", ".ods"):
            raise DataError(f"{path}: expected text, got a spreadsheet; save the sheet as CSV")
        if magic.startswith(_ZIP):
            raise DataError(f"{path}: expected text, got a zip archive; unpack it and name the file inside")
        if magic == _PARQUET:
            raise DataError(f"{path}: expected text, got a Parquet file; save it as CSV")
        if other := _OTHER_KINDS.get(magic):
            raise DataError(f"{path}: expected text, got {other}")
        if magic.startswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as unpacked, as_text(unpacked, path) as text:
                yield text
        else:
            if b"\0" in magic and magic[:2] not in _UTF_16:
                raise DataError(f"{path}: expected text, got zero bytes (UTF-16 without a mark?); save it as UTF-8")
            with _Text(file, path, "utf-16" if magic[:2] in _UTF_16 else "utf-8-sig") as text:
                yield text


def as_text(packed: io.BufferedIOBase, path: Path) -> io.TextIOWrapper:
    """Returns the text in a packed stream, of bounded size.

    Args:
        path: path of its file; for a file in an archive, `ARCHIVE/NAME`.
    """
    return _Text(io.BufferedReader(_Bounded(packed, path)), path)


def check_packed_text(path: Path, most: int | None = None) -> None:
    """Refuses gzipped text that is larger than allowed, before it is read.

    Args:
        path: path of a file that may be gzipped.
        most: number of lines that is always allowed (`bounds.check_rows`); None if a line is not a row.

    Raises:
        DataError: the text is too large, or damaged.
    """
    with _opened(path) as file:
        if _beginning(file).startswith(_GZIP):
            with gzip.GzipFile(fileobj=file) as unpacked:
                bounded, lines = _Bounded(unpacked, path), 0
                while piece := bounded.read(1 << 20):
                    lines += piece.count(b"\n")
                if most is not None:
                    bounds.check_rows(lines, path, floor=most, what="lines")


class _Text(io.TextIOWrapper):
    """Text that raises a DataError at a line, read by iteration, that is longer than a row may be."""

    def __init__(self, file: io.BufferedIOBase, path: Path, encoding: str = "utf-8-sig") -> None:
        super().__init__(file, encoding=encoding, newline="")  # pyright: ignore[reportArgumentType] - stubs want more
        self._path = path

    def __next__(self) -> str:
        line = self.readline(bounds.LONGEST_LINE)
        if not line:
            raise StopIteration
        if len(line) == bounds.LONGEST_LINE:
            raise DataError(
                f"{self._path}: expected lines of at most {bounds.LONGEST_LINE >> 20} MB, got a longer one; is this "
                f"text, with a line for each row?"
            )
        return line


class _Bounded(io.RawIOBase):
    """Stream that raises a DataError once it has given more bytes than allowed."""

    def __init__(self, packed: io.BufferedIOBase, path: Path) -> None:
        self._packed, self._path, self._given = packed, path, 0
        self._most = bounds.most_text(bounds.size_on_disk(path))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._given = 0
        return self._packed.seek(offset, whence)

    def readinto(self, buffer: bytearray | memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - any writable buffer
        given = self._packed.read(len(buffer))
        buffer[: len(given)] = given
        self._given += len(given)
        if self._given > self._most:
            raise DataError(
                f"{self._path}: expected at most {self._most >> 20} MB of packed text, got more; unpack it first, if "
                f"it is meant"
            )
        return len(given)


def separator_of(file: io.TextIOWrapper) -> str | None:
    """Returns the separator of a table's cells, and goes back to the start; None if there is only one column.

    The separator is one that gives the first rows equally many cells; else the one that gives the first row most cells.
    What stands above the table (`_LEAD`) does not count.
    """
    whole = file.read(_SAMPLE)
    file.seek(0)
    cut = len(whole) == _SAMPLE
    if told := re.match(r"sep=([\t;,|])\r?\n", whole):
        return told[1]
    sample = re.sub(_LEAD, "", whole, count=1)
    if len(sample) < 2:  # a file of comments alone
        sample = whole
    widths: dict[str, list[int]] = {}
    for separator in _SEPARATORS:
        rows = islice(csv.reader(io.StringIO(sample, newline=""), delimiter=separator), 50)
        found = [len(row) for row in rows if row]
        widths[separator] = found[:-1] if cut and 1 < len(found) < 50 else found
    for separator, found in widths.items():
        if found and found[0] > 1 and len(set(found)) == 1:
            return separator
    longest = max(_SEPARATORS, key=lambda separator: (widths[separator] or [0])[0])
    return longest if (widths[longest] or [0])[0] > 1 else None


def rows_of(path: Path, file: io.TextIOWrapper, separator: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yields (line number, cells) of each row of separated text, including the header.

    Above the header, blank lines, comments (`# …`) and Excel's `sep=;` are no rows, unless the separator is given.

    Args:
        file: the text, at its start.
        separator: separator of the cells; by default the result of `separator_of`, or a comma.

    Raises:
        DataError: the quotes of a row are not closed, or a cell is too long.
    """
    lead, spaced = 0, False
    if separator is None:
        separator = separator_of(file) or ","
        lead, spaced = _lead(file, separator)
    reader = csv.reader(file, delimiter=separator, strict=True, skipinitialspace=spaced)
    try:
        for cells in reader:
            if reader.line_num > lead:
                yield reader.line_num, cells
    except csv.Error as error:
        place = f"{path}, line {reader.line_num}"
        raise DataError(f"{place}: expected a row of a table: {error}; check the double quotes") from error


def _lead(file: io.TextIOWrapper, separator: str) -> tuple[int, bool]:
    """Returns the number of lines above a table's header, and whether a space follows each separator of the header.

    A line that begins with # is itself the header if it has as many cells as the line below.
    """
    sample = file.read(_SAMPLE)
    file.seek(0)
    above = _LEAD.match(sample)
    lines = above[0].splitlines() if above else []
    first, *_ = sample[above.end() if above else 0 :].splitlines() or [""]
    if lines and lines[-1][:1] == "#" and lines[-1].count(separator) == first.count(separator) > 0:
        first = lines.pop()
    return len(lines), separator in first and first.count(separator) == first.count(f"{separator} ")


def first_character(path: Path, expected: str) -> str:
    """Returns the first character of a text that is not white space; empty if its beginning has none."""
    with reading(path, expected), opened_text(path) as file:
        return file.read(4096).lstrip()[:1]


def not_utf8(path: Path) -> DataError:
    """Returns the error for a file that is not UTF-8; for packed files it does not say where."""
    if not is_file(path):  # the file is in an archive
        return DataError(f"{path}: expected UTF-8; save the file again as UTF-8")
    with _opened(path) as lines:
        packed = _beginning(lines).startswith((_GZIP, _ZIP))
        whole = iter(lambda: lines.readline(bounds.LONGEST_LINE), b"")
        for number, line in enumerate(() if packed else whole, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                byte = f"byte 0x{line[error.start]:02x} in line {number}"
                return DataError(f"{path}: expected UTF-8, got {byte}; save the file again as UTF-8")
    return DataError(f"{path}: expected UTF-8; save the file again as UTF-8")
