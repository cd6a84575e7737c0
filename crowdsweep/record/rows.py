"""Byte format of the journal's rows, each with a checksum and a position in a chain, and the protocol of their storage.

A line is JSON: `{"crc":"0123abcd","n":17,"prev":"89abcdef",` and then the row's own fields. The checksum (CRC-32)
covers everything after it up to the newline. `n` is the number of the line, and `prev` the checksum of the line before
(zeros for the first). So a row is valid if and only if its checksum matches, and the next row reveals a row that was
removed, duplicated or moved.

A driver that dies during a write leaves the beginning of a row at the end, without a newline: a torn tail, which is
dropped. Any other text that is not a row was not written by a driver. It is an error, and nothing is cut off.
"""

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from io import BufferedIOBase
from typing import NamedTuple, Protocol, runtime_checkable
from zlib import crc32

from crowdsweep.errors import JournalDamaged

_OPENING = b'{"crc":"'
_SEAL = re.compile(rb'\{"crc":"[0-9a-f]{8}",')
_BLANK_SEAL = b'{"crc":"00000000",'
_BODY = len(_BLANK_SEAL)
_CRC_END = len(_OPENING) + 8
_PLACE = re.compile(rb'"n":(\d{1,18}),"prev":"([0-9a-f]{8})",')
_CONTROL = re.compile(rb"[\x00-\x1f]")  # JSON escapes them
_LARGEST = 1 << 29  # bytes of a row
_PIECE = 1 << 20

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """A row that was read: its JSON text without checksum and position, and its source and number for messages."""

    text: bytes
    source: str
    number: int

    @property
    def place(self) -> str:
        """The row's source and number, for messages."""
        return f"{self.source}, row {self.number}"


class Link(NamedTuple):
    """The end of a chain of rows: the number of the last row, and that row's checksum."""

    number: int
    crc: bytes


START = Link(0, b"00000000")


class ParsedRow(NamedTuple):
    """A parsed line with a matching checksum: the row's text, its checksum, and the row that it was written after."""

    text: bytes
    crc: bytes
    after: Link


@runtime_checkable
class Rows(Protocol):
    """Storage of the rows of one journal, and of files beside them, to be read; no lock is taken.

    Each method raises `JournalError` where the store cannot be read.
    """

    def read_rows(self) -> Iterator[Row]:
        """Yields all durable rows in order; skips a torn tail, which a writer also cuts off.

        Raises:
            JournalDamaged: something other than a torn tail cannot be read, or a row is not where it was written.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """Returns the content of a file of the store (`folder/name`); None if there is no such file."""
        ...

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yields the contents of files in order, as `get` returns them; an object store reads many at the same time."""
        ...

    def names(self, folder: str) -> set[str]:
        """Returns the names of the files in a folder of the store; empty if there is no such folder."""
        ...


@runtime_checkable
class WritableRows(Rows, Protocol):
    """Storage of the rows of one journal, and of files beside them, which excludes every other writer until `close`.

    Each method raises `JournalError` where the store cannot be written, or is closed; rows that were durable stay
    readable.
    """

    def append_rows(self, texts: Sequence[str]) -> None:
        """Appends rows; they are durable on return."""
        ...

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Writes files into the store, each atomically; existing files are left as they are.

        The files survive a crash of this process, but perhaps not of the machine, because they are not fsynced.

        Args:
            folder: for the files, below the store.
            files: name → content; a name always has the same content.
        """
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Removes files of the store (`folder/name`); missing files are no error."""
        ...

    def heed(self, press: Callable[[], object]) -> None:
        """Registers `press` to be called when another machine, which can send no signal, asks this writer to stop."""
        ...

    def close(self) -> None:
        """Releases the lock for other writers; may be called twice."""
        ...


def encode_row(text: str, after: Link) -> bytes:
    """Returns the line of a row, with its newline.

    Args:
        text: the row, a JSON object with at least one field.
    """
    # The row's own opening brace is dropped: the line opens with one before its checksum.
    body = _place_behind(after) + text.encode("utf-8", "surrogatepass")[1:]
    return b'%s%08x",%s\n' % (_OPENING, crc32(body), body)


def chain(texts: Iterable[str], after: Link) -> tuple[bytes, Link]:
    """Returns the lines of consecutive rows, and the end of the chain that they make."""
    lines: list[bytes] = []
    for text in texts:
        line = encode_row(text, after)
        after = Link(after.number + 1, line[len(_OPENING) : _CRC_END])
        lines.append(line)
    return b"".join(lines), after


def parse_row(line: bytes) -> ParsedRow | None:
    """Returns a parsed line; None if it is incomplete or its checksum does not match."""
    if not line.endswith(b"\n") or not line.startswith(_OPENING):
        return None
    body, crc = line[_BODY:-1], line[len(_OPENING) : _CRC_END]
    place = _PLACE.match(body)
    if place is None or line[len(_OPENING) : _BODY] != b'%08x",' % crc32(body):
        return None
    return ParsedRow(b"{" + body[place.end() :], crc, Link(int(place[1]) - 1, place[2]))


def lines_of(file: BufferedIOBase) -> Iterator[bytes]:
    """Yields the lines of a file; a long line that cannot be a row is split into pieces of 1 MiB."""
    while line := file.readline(_PIECE):
        if len(line) == _PIECE and not line.endswith(b"\n") and line.startswith(_OPENING):
            line += file.readline(_LARGEST - _PIECE)
        yield line


def valid_rows(lines: Iterable[bytes], source: str, after: Link = START) -> Generator[Row, None, tuple[Link, int]]:
    """Yields the valid rows of a journal in order, without a torn tail.

    A last row that lacks only its newline is valid.

    Args:
        lines: with their newlines.
        after: the row before the first of them.

    Returns:
        The end of the chain that the rows make, and their number of bytes.

    Raises:
        JournalDamaged: a line is not a row, or a row is not where it was written.
    """
    (number, before), end = after, 0
    for line in lines:
        # The head that a valid line must have is computed from the chain and compared, so that no line has to be
        # parsed.
        crc = b"%08x" % crc32(line[_BODY:-1])
        head = b'{"crc":"%s","n":%d,"prev":"%s",' % (crc, number + 1, before)
        if line.startswith(head) and line.endswith(b"\n"):  # fast path; other lines are examined closely
            text = b"{" + line[len(head) : -1]
        else:
            row, link = parse_row(line), Link(number, before)
            if row is None and not line.endswith(b"\n"):
                row = parse_row(line + b"\n")
                if row is None and _is_torn(line):
                    break
            if row is None:
                raise JournalDamaged(f"{_where(source, link, end)} {_why_not(line)}. {_ADVICE}")
            if row.after != link:
                raise JournalDamaged(
                    f"{_where(source, link, end)} says that it is row {row.after.number + 1}, written after another "
                    f"row than the one now before it: rows were removed, repeated or moved. {_ADVICE}"
                )
            text, crc = row.text, row.crc
        number, before, end = number + 1, crc, end + len(line)
        yield Row(text, source, number)
    return Link(number, before), end


def _place_behind(link: Link) -> bytes:
    return b'"n":%d,"prev":"%s",' % (link.number + 1, link.crc)


WAY_ON = (
    "Its checksum agrees: a program other than crowdsweep wrote it. Nothing was changed. If you trust the rest, take "
    "this row (a line) out of the file and have `crowdsweep repair` use the others; what it held is run again"
)
"""Advice on a row that no driver wrote."""

_ADVICE = (
    "Nothing was changed. `crowdsweep repair` on its folder keeps a copy and uses the rows that can be read; "
    "what the others held is run again"
)


def _where(source: str, link: Link, end: int) -> str:
    return f"{source}: row {link.number + 1} (byte {end})"


def _is_torn(line: bytes) -> bool:
    """Whether a line without a newline is the beginning of a row, as a driver leaves it if it dies during a write."""
    head = line[:_BODY] + _BLANK_SEAL[len(line) :]
    one_byte_more = parse_row(line[:-1] + b"\n") is not None  # a complete row whose newline was changed
    return bool(_SEAL.match(head)) and not _CONTROL.search(line) and len(line) < _LARGEST and not one_byte_more


def _why_not(line: bytes) -> str:
    """Returns a description of what is wrong with a line."""
    if parse_row(line.removeprefix(BYTE_ORDER_MARK).rstrip(b"\r\n") + b"\n"):
        return "cannot be read: an editor or a transfer changed its line ends, or put a byte order mark before it"
    if line.startswith(_OPENING):
        return "cannot be read: the file was changed after it was written, or its disk fails"
    return "is not a row of a journal: the file was changed after it was written, or is another file"
