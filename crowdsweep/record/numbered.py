"""The journal of an object store as bytes: numbered objects, packs of them, and what is wrong with others.

An object `journal/000000000017.rows` is a line that says who wrote it, and then its rows, each sealed and chained to
the one before as in a file (`rows`). It is created where none of that number stands, so a number has one writer. One
without rows says that a driver begins, or ends.

A pack `packs/000000000001-000000000256.rows` holds these objects one behind the other, so that many are read at once.
The objects stay. Of packs that begin with the same number the longest counts: `repair` writes one over all there is.
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
    "Nothing was changed. `crowdsweep repair` on the store goes by the rows that can be read, and keeps all objects as "
    "they are; what the others held is run again"
)


@dataclass(frozen=True, kw_only=True)
class Head:
    """The first line of an object.

    Attributes:
        object: its number.
        rows: how many follow.
        writer: what the driver calls itself, which no other does.
        pid, host, since: who that is, for people; ISO 8601.
        ended: whether it works on the sweep no more.
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
            raise ValueError("no driver writes so")

    def line(self) -> bytes:
        """Returns it as the line that it is."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"


class Written(NamedTuple):
    """An object that was read: its head, its lines, and where it stands, for messages."""

    head: Head
    lines: list[bytes]
    place: str


class Span(NamedTuple):
    """Objects that stand in one pack."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Of the pack."""
        return f"{PACKS}/{self.first:012d}-{self.last:012d}.rows"


def object_name(number: int) -> str:
    """Returns the name of an object of the journal."""
    return f"{JOURNAL}/{number:012d}.rows"


def spans_of(names: Iterable[str]) -> list[Span]:
    """Returns the packs that count, one behind the other from the first object on."""
    found = (match for name in names if (match := _PACK.fullmatch(name)))
    longest: dict[int, int] = {}
    for match in found:
        first, last = int(match[1]), int(match[2])
        longest[first] = max(last, longest.get(first, 0))
    spans: list[Span] = []
    following = 1
    while following in longest and longest[following] >= following:
        spans.append(Span(following, longest[following]))
        following = longest[following] + 1
    return spans


def number_of(name: str, place: str) -> int:
    """Returns the number of an object of a journal.

    Raises:
        JournalDamaged: no driver calls one so.
    """
    match = _OBJECT.fullmatch(name)
    if match is None:
        raise JournalDamaged(
            f"{place}/{name}: expected the objects of a journal alone below {place}/{JOURNAL}, and no crowdsweep wrote "
            f"this one. Nothing was changed: move it away, or give another store"
        )
    return int(match[1])


def numbers_of(names: Sequence[str], after: int, place: str) -> list[int]:
    """Returns the numbers of the objects of a journal behind some, all of which must be there.

    Raises:
        JournalDamaged: one is missing, or another object stands among them.
    """
    numbers = [number_of(name, place) for name in names]
    for expected, number in enumerate(numbers, start=after + 1):
        if number != expected:
            raise JournalDamaged(f"{place}/{object_name(expected)}: is gone, and later ones are there. {_ADVICE}")
    return numbers


def head_of(content: bytes) -> Head | None:
    """Returns what the first line of an object says; None where it is none."""
    line = content[:_LONGEST_HEAD].partition(b"\n")[0]
    try:
        told = json.loads(line) if line.startswith(_OPENING) else {}
        head = Head(**told)
    except (ValueError, TypeError, RecursionError):
        return None
    typed = all(type(value) is kind for value, kind in zip(asdict(head).values(), _KINDS, strict=True))
    return head if typed else None


_KINDS = (int, int, str, int, str, str, bool)


def written_in(content: bytes, first: int, last: int, place: str) -> Iterator[Written]:
    """Yields the objects of a pack, or the one of an object.

    Args:
        content: of it.
        first, last: the numbers that it must hold.
        place: for messages.

    Raises:
        JournalDamaged: it holds something else.
    """
    number = first
    lines = iter(lines_of(io.BytesIO(content)))
    for line in lines:
        head = head_of(line) if line.endswith(b"\n") else None
        where = place if first == last else f"{place}, object {number}"
        if head is None or head.object != number or number > last:
            raise JournalDamaged(f"{where}: does not begin as a driver begins it. {_ADVICE}")
        rows = list(islice(lines, head.rows))
        if len(rows) < head.rows or not all(row.endswith(b"\n") for row in rows):
            raise JournalDamaged(f"{where}: ends before the last of its {head.rows} rows. {_ADVICE}")
        yield Written(head, rows, where)
        number += 1
    if number <= last:
        raise JournalDamaged(f"{place}: ends before object {number}. {_ADVICE}")


def gone(place: str) -> JournalError:
    """Returns the error for an object that was listed and is not there."""
    return JournalDamaged(f"{place}: was removed while the journal was read. {_ADVICE}")
