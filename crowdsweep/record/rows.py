"""Rows of the journal as bytes: a checksum and a place in a chain on each, and what a store of rows promises.

A line is JSON: `{"crc":"0123abcd","n":17,"prev":"89abcdef",` and then the row's own fields. The checksum (CRC-32) is of
all that follows it up to the newline, `n` is the number of the line, and `prev` the checksum of the line before it
(zeros before the first). So a row counts if and only if its checksum agrees, and one that was taken out, doubled or
moved is told by the row behind it.

A driver that dies in the middle of a write leaves the beginning of a row at the end, without a newline: a torn tail,
which is dropped. Whatever else is not a row was not written by a driver; it is refused, and nothing is cut off.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_CONTROL = re.compile(rb"[\x00-\x1f]")  # JSON spells them out
_LARGEST = 1 << 29  # bytes of a row
_PIECE = 1 << 20

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Row(NamedTuple):
    """A row that was read: its JSON text without checksum and place, and where it stands, for messages."""

    text: bytes
    source: str
    number: int

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"{self.source}, row {self.number}"


class Link(NamedTuple):
    """Where a chain has come to: the number of its last row, and that row's checksum."""

    number: int
    crc: bytes


START = Link(0, b"00000000")


class Sealed(NamedTuple):
    """A line that is whole: the row's text, its checksum, and the row behind which it was written."""

    text: bytes
    crc: bytes
    after: Link


class Whole(NamedTuple):
    """A row in its place: its text, the chain's end with it, and the offset in bytes behind it."""

    text: bytes
    link: Link
    end: int


@runtime_checkable
class Rows(Protocol):
    """Where the rows of one journal live.

    Opened for writing it keeps every other writer out until `close`; opened for reading it takes no lock.
    """

    def read_rows(self) -> Iterator[Row]:
        """Yields all durable rows in order. A torn tail is not yielded, and a writer cuts it off.

        Raises:
            JournalDamaged: something else than a torn tail cannot be read, or a row is not where it was written.
            JournalError: the store cannot be read.
        """
        ...

    def append_rows(self, texts: Sequence[str]) -> None:
        """Writes rows behind the last one; they are durable on return.

        Raises:
            JournalError: they could not be written; those before them stay readable.
        """
        ...

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Writes files beside the rows, each whole or not at all. One that stands there already is left as it is.

        They survive the death of this process, but need not survive that of the machine: the disk is not waited for.

        Args:
            folder: that they go into, below the store.
            files: content by name; a name always stands for the same content.

        Raises:
            JournalError: it could not be written, or the rows are not open for writing.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """Returns the content of a file beside the rows (`folder/name`); None where there is none.

        Raises:
            JournalError: the file cannot be read.
        """
        ...

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yields the contents of files beside the rows as `get` returns them, in order; far ones many at a time.

        Raises:
            JournalError: one cannot be read.
        """
        ...

    def names(self, folder: str) -> set[str]:
        """Returns the names of the files in a folder beside the rows; none where there is no folder.

        Raises:
            JournalError: they cannot be listed.
        """
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Removes files beside the rows (`folder/name`); those that are gone already are no error.

        Raises:
            JournalError: one cannot be removed, or the rows are not open for writing.
        """
        ...

    def heed(self, press: Callable[[], object]) -> None:
        """Calls `press` when another machine, from which no signal arrives, asks this writer to stop."""
        ...

    def close(self) -> None:
        """Releases the lock for other writers; may be called twice."""
        ...


def seal(text: str, after: Link) -> bytes:
    """Returns a row's line, newline included; `text` is a JSON object with at least one field.

    Args:
        after: the row before it.
    """
    body = _place_behind(after) + text.encode("utf-8", "surrogatepass")[1:]
    return b'%s%08x",%s\n' % (_OPENING, crc32(body), body)


def chain(texts: Iterable[str], after: Link) -> tuple[bytes, Link]:
    """Returns the lines of rows that follow one another, and where the chain has come to with them."""
    lines: list[bytes] = []
    for text in texts:
        line = seal(text, after)
        after = Link(after.number + 1, line[len(_OPENING) : _CRC_END])
        lines.append(line)
    return b"".join(lines), after


def unseal(line: bytes) -> Sealed | None:
    """Returns what a line holds, or None where it is not whole."""
    if not line.endswith(b"\n") or not line.startswith(_OPENING):
        return None
    body, crc = line[_BODY:-1], line[len(_OPENING) : _CRC_END]
    place = _PLACE.match(body)
    if place is None or line[len(_OPENING) : _BODY] != b'%08x",' % crc32(body):
        return None
    return Sealed(b"{" + body[place.end() :], crc, Link(int(place[1]) - 1, place[2]))


def lines_of(file: BufferedIOBase) -> Iterator[bytes]:
    """Yields the lines of a file; one that cannot be a row comes in pieces where it is long."""
    while line := file.readline(_PIECE):
        if len(line) == _PIECE and not line.endswith(b"\n") and line.startswith(_OPENING):
            line += file.readline(_LARGEST - _PIECE)
        yield line


def whole_rows(lines: Iterable[bytes], source: str, after: Link = START) -> Iterator[Whole]:
    """Yields each row in its place; a torn tail yields nothing.

    Of a last row only the newline may be missing: it counts.

    Args:
        lines: with their newlines.
        source: what they are read from, for messages.
        after: the row before the first of them.

    Raises:
        JournalDamaged: a line is not a row, or a row does not stand where it was written.
    """
    link, end = after, 0
    for line in lines:
        crc = b"%08x" % crc32(line[_BODY:-1])
        head = b'%s%s",%s' % (_OPENING, crc, _place_behind(link))
        if line.startswith(head) and line.endswith(b"\n"):  # as a driver writes it; other lines are looked at closely
            link, end = Link(link.number + 1, crc), end + len(line)
            yield Whole(b"{" + line[len(head) : -1], link, end)
            continue
        row = unseal(line)
        if row is None and not line.endswith(b"\n"):
            row = unseal(line + b"\n")
            if row is None and _is_torn(line):
                return
        if row is None:
            raise JournalDamaged(f"{_where(source, link, end)} {_why_not(line)}. {_ADVICE}")
        if row.after != link:
            raise JournalDamaged(
                f"{_where(source, link, end)} says that it is row {row.after.number + 1}, written behind another than "
                f"now stands before it: rows were taken out, doubled or moved. {_ADVICE}"
            )
        link = Link(link.number + 1, row.crc)
        end += len(line)
        yield Whole(row.text, link, end)


def _place_behind(link: Link) -> bytes:
    return b'"n":%d,"prev":"%s",' % (link.number + 1, link.crc)


WAY_ON = (
    "Its checksum agrees: something else than crowdsweep wrote it. Nothing was changed. If you trust the rest, take "
    "this row (a line) out of the file and have `crowdsweep repair` go by the others; what it held is run again"
)
"""What a person does about a row that no driver wrote."""

_ADVICE = (
    "Nothing was changed. `crowdsweep repair` on its folder keeps a copy and goes by the rows that can be read; "
    "what the others held is run again"
)


def _where(source: str, link: Link, end: int) -> str:
    return f"{source}: row {link.number + 1} (byte {end})"


def _is_torn(line: bytes) -> bool:
    """Whether a line without its newline is the beginning of a row, as a driver leaves it that dies while it writes."""
    head = line[:_BODY] + _BLANK_SEAL[len(line) :]
    one_byte_more = unseal(line[:-1] + b"\n") is not None  # whole, but for what its newline was changed into
    return bool(_SEAL.match(head)) and not _CONTROL.search(line) and len(line) < _LARGEST and not one_byte_more


def _why_not(line: bytes) -> str:
    """Says what is wrong with a line."""
    if unseal(line.removeprefix(BYTE_ORDER_MARK).rstrip(b"\r\n") + b"\n"):
        return "cannot be read as it stands: an editor or a transfer changed its line ends, or put a mark before it"
    if line.startswith(_OPENING):
        return "cannot be read: the file was changed after it was written, or its disk fails"
    return "is not a row of a journal: the file was changed after it was written, or is another file"
