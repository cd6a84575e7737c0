"""Byte format of the journal in an object store: numbered objects, packs of them, and their errors.

An object `journal/000000000017.rows` contains a head line, which says who wrote it, and rows. Each row is sealed and
chained to the previous one, as in a file (`rows`). An object is created only if its number is free, so each number has
one writer. An object without rows says that a driver begins or ends.

A pack `packs/000000000001-000000000256.rows` is the concatenation of these objects, so that one request reads many. The
objects remain. If several packs begin with the same number, the longest counts: `repair` writes one over all objects.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import NamedTuple

from crowdsweep.errors import JournalDamaged, JournalError
from crowdsweep.record.rows import lines_of

JOURNAL, PACKS = "journal", "packs"
_OBJECT = re.compile(rf"{JOURNAL}/([0-9]{{12}})\.rows")
_PACK = re.compile(rf"{PACKS}/([0-9]{{12}})-([0-9]{{12}})\.rows")
_OPENING = b'{"object":'
_LONGEST_HEAD = 4096  # bytes
_ADVICE = (
    "Nothing was changed. `crowdsweep repair` on the store uses the rows that can be read, and keeps all objects as "
    "they are; what the others held is run again"
)


@dataclass(frozen=True, kw_only=True)
class Head:
    """The head line of an object.

    Attributes:
        writer: unique identifier of the driver, 32 hex digits.
        pid, host, since: the driver's process, machine and start time (ISO 8601), for people.

    Raises:
        ValueError: a number or the writer is not one that a driver writes.
    """

    object: int
    rows: int
    writer: str
    pid: int
    host: str
    since: str
    ended: bool = False

    def __post_init__(self) -> None:
        if self.object < 1 or self.rows < 0 or self.pid < 1 or not re.fullmatch("[0-9a-f]{32}", self.writer):
            raise ValueError("no driver writes this")

    def line(self) -> bytes:
        """Returns the head as a line of JSON, with its newline."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"


class Written(NamedTuple):
    """An object that was read: its head, the lines of its rows, and its place for messages."""

    head: Head
    lines: list[bytes]
    place: str


class Span(NamedTuple):
    """The objects of one pack, as a range of numbers, both ends included."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the pack."""
        return f"{PACKS}/{self.first:012d}-{self.last:012d}.rows"


def object_name(number: int) -> str:
    """Returns the name of an object of the journal."""
    return f"{JOURNAL}/{number:012d}.rows"


def spans_of(names: Iterable[str]) -> list[Span]:
    """Returns the packs to read: consecutive, from the first object on, and the longest for each first number."""
    found = (match for name in names if (match := _PACK.fullmatch(name)))
    longest: dict[int, int] = {}
    for match in found:
        first, last = int(match[1]), int(match[2])
        longest[first] = max(last, longest.get(first, 0))
    spans: list[Span] = []
    following = 1
    # Packs are optional, and a repaired journal has a longer one beside the old: a chain from 1 on covers each object
    # once.
    while following in longest and longest[following] >= following:
        spans.append(Span(following, longest[following]))
        following = longest[following] + 1
    return spans


def number_of(name: str, place: str) -> int:
    """Returns the number in the name of a journal's object.

    Raises:
        JournalDamaged: the name is not one that a driver gives.
    """
    match = _OBJECT.fullmatch(name)
    if match is None:
        raise JournalDamaged(
            f"{place}/{name}: expected the objects of a journal alone below {place}/{JOURNAL}, and crowdsweep did not "
            f"write this one. Nothing was changed: move it away, or give another store"
        )
    return int(match[1])


def numbers_of(names: Sequence[str], after: int, place: str) -> list[int]:
    """Returns the numbers of a journal's objects, which must be consecutive.

    Args:
        after: the number before the first of them.

    Raises:
        JournalDamaged: a number is missing, or a name is not one that a driver gives.
    """
    numbers = [number_of(name, place) for name in names]
    for expected, number in enumerate(numbers, start=after + 1):
        if number != expected:
            raise JournalDamaged(f"{place}/{object_name(expected)}: is missing, and later ones exist. {_ADVICE}")
    return numbers


def head_of(content: bytes) -> Head | None:
    """Returns the head of an object's content; None if its first line is no head."""
    line = content[:_LONGEST_HEAD].partition(b"\n")[0]
    try:
        loaded = json.loads(line) if line.startswith(_OPENING) else {}
        head = Head(**loaded)
    except (ValueError, TypeError, RecursionError):
        return None
    typed = all(type(value) is kind for value, kind in zip(asdict(head).values(), _KINDS, strict=True))
    return head if typed else None


_KINDS = (int, int, str, int, str, str, bool)


def written_in(content: bytes, first: int, last: int, place: str) -> Iterator[Written]:
    """Yields the objects in the content of a pack or of a single object.

    Raises:
        JournalDamaged: the content is incomplete, or contains other objects.
    """
    number = first
    lines = iter(lines_of(io.BytesIO(content)))
    for line in lines:
        head = head_of(line) if line.endswith(b"\n") else None
        where = place if first == last else f"{place}, object {number}"
        if head is None or head.object != number or number > last:
            raise JournalDamaged(f"{where}: does not begin as a driver writes it. {_ADVICE}")
        rows = list(islice(lines, head.rows))
        if len(rows) < head.rows or not all(row.endswith(b"\n") for row in rows):
            raise JournalDamaged(f"{where}: ends before the last of its {head.rows} rows. {_ADVICE}")
        yield Written(head, rows, where)
        number += 1
    if number <= last:
        raise JournalDamaged(f"{place}: ends before object {number}. {_ADVICE}")


def gone(place: str) -> JournalError:
    """Returns the error for an object that was listed but no longer exists."""
    return JournalDamaged(f"{place}: was removed while the journal was read. {_ADVICE}")
