"""Rows of the journal as bytes: a checksum on each, and what a store of rows promises.

A line is JSON: `{"crc":"0123abcd",` and then the row's own fields; the checksum (CRC-32) is of all that follows it up
to the newline. A row counts if and only if its newline is there and its checksum agrees.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from zlib import crc32

from crowdsweep.errors import JournalDamaged

_OPENING = b'{"crc":"'
_BODY = len(_OPENING) + len(b'0123abcd",')


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row that was read: its JSON text without the checksum, and where it stands, for messages."""

    text: bytes
    place: str


@runtime_checkable
class Rows(Protocol):
    """Where the rows of one journal live.

    Opened for writing it keeps every other writer out until `close`; opened for reading it takes no lock.
    """

    def read_rows(self) -> Iterator[Row]:
        """Yields all durable rows in order. A torn tail is not yielded, and a writer cuts it off.

        Raises:
            JournalDamaged: rows before the tail cannot be read.
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
            JournalError: it cannot be read.
        """
        ...

    def close(self) -> None:
        """Lets other writers in; may be called twice."""
        ...


def seal(text: str) -> bytes:
    """Returns a row's line, newline included; `text` is a JSON object with at least one field."""
    body = text.encode("utf-8", "surrogatepass")[1:]
    return b'%s%08x",%s\n' % (_OPENING, crc32(body), body)


def unseal(line: bytes) -> bytes | None:
    """Returns the row's JSON text, or None where the line is not whole."""
    if not line.endswith(b"\n") or not line.startswith(_OPENING):
        return None
    body = line[_BODY:-1]
    if line[len(_OPENING) : _BODY] != b'%08x",' % crc32(body):
        return None
    return b"{" + body


def whole_rows(lines: Iterable[bytes], source: str) -> Iterator[tuple[bytes, int, int]]:
    """Yields (text, number, end) of each whole row: numbers count from 1, `end` is the offset in bytes behind it.

    Lines at the end that are not whole are a torn tail and yield nothing.

    Raises:
        JournalDamaged: a line that is not whole stands before one that is.
    """
    torn: tuple[int, int] | None = None
    end = 0
    for number, line in enumerate(lines, start=1):
        text = unseal(line)
        if text is None:
            torn = torn or (number, end)
        elif torn:
            raise JournalDamaged(
                f"{source}: row {torn[0]} (byte {torn[1]}) cannot be read, though row {number} behind it can: the file "
                f"was changed after it was written, or its disk fails. Copy the file somewhere safe, then "
                f"`crowdsweep repair` drops the unreadable rows; what they held is run again"
            )
        else:
            yield text, number, end + len(line)
        end += len(line)
