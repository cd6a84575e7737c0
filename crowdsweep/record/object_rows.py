"""The journal in an object store, as it is read: numbered objects, and packs of them (`object_writer` writes them)."""

import io
import os
import socket
from collections.abc import Generator, Iterator, Sequence

from crowdsweep.errors import JournalDamaged
from crowdsweep.record.numbered import (
    JOURNAL,
    PACKS,
    Head,
    Span,
    gone,
    head_of,
    number_of,
    numbers_of,
    object_name,
    spans_of,
    written_in,
)
from crowdsweep.record.objects import Objects
from crowdsweep.record.rows import START, Link, Row, lines_of, parse_row, valid_rows


class ObjectRows:
    """Rows of a journal below a prefix of an object store, to be read, even while a driver writes them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def read_rows(self) -> Iterator[Row]:
        """See `Rows.read_rows`; a prefix without objects has no rows. Many objects are read at the same time."""
        yield from self._read()

    def _read(self) -> Generator[Row, None, tuple[int, Link]]:
        """Yields the rows; returns the number of the last object, and the end of the chain of rows."""
        number, link = 0, START
        for span, name, content in self._contents():
            for one in written_in(content, span.first, span.last, f"{self._objects.place}/{name}"):
                number = one.head.object
                link, _ = yield from valid_rows(one.lines, one.place, after=link)
        return number, link

    def _contents(self) -> Iterator[tuple[Span, str, bytes]]:
        """Yields (numbers, name, content) of all packs, and then of the objects that are in none."""
        place = str(self._objects.place)
        packs = spans_of(one.name for one in self._objects.names(PACKS))
        after = packs[-1].last if packs else 0
        found = self._objects.names(JOURNAL, after=object_name(after) if after else "")
        numbers = numbers_of([one.name for one in found], after, place)
        spans = [*packs, *(Span(number, number) for number in numbers)]
        names = [*(pack.name for pack in packs), *map(object_name, numbers)]
        for span, name, content in zip(spans, names, self._objects.get_all(names), strict=True):
            if content is None:
                raise gone(f"{place}/{name}")
            yield span, name, content

    def get(self, name: str) -> bytes | None:
        return self._objects.get(name)

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        return self._objects.get_all(names)

    def names(self, folder: str) -> set[str]:
        return {one.name.removeprefix(f"{folder}/") for one in self._objects.names(folder)}

    def lines(self) -> Iterator[bytes]:
        """Yields all lines of the journal for `repair`, even damaged ones, without the head lines of objects.

        Instead of a damaged pack, the objects that it was made of are read.
        """
        spans = spans_of(one.name for one in self._objects.names(PACKS))
        after, names = 0, list[str]()
        for span, content in zip(spans, self._objects.get_all([span.name for span in spans]), strict=True):
            sound = content is not None and _is_sound(content, span)
            names += [span.name] if sound else [object_name(number) for number in range(span.first, span.last + 1)]
            after = span.last
        names += [one.name for one in self._objects.names(JOURNAL, after=object_name(after) if after else "")]
        for content in self._objects.get_all(names):
            yield from (line for line in lines_of(io.BytesIO(content or b"")) if head_of(line) is None)


def last_head(objects: Objects) -> tuple[int, Head | None]:
    """Returns the number of a journal's last object, 0 if there is none, and its head, None if it cannot be read.

    Raises:
        JournalError: the store cannot be read.
    """
    spans = spans_of(one.name for one in objects.names(PACKS))
    last = spans[-1].last if spans else 0
    found = objects.names(JOURNAL, after=object_name(last) if last else "")
    last = max([last, *(number_of(one.name, str(objects.place)) for one in found)])
    return last, head_of(objects.get(object_name(last)) or b"") if last else None


def is_gone(driver: Head) -> bool:
    """Whether a driver's process ran on this machine and has ended."""
    if driver.host != socket.gethostname():
        return False
    try:
        os.kill(driver.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def _is_sound(content: bytes, span: Span) -> bool:
    try:
        objects = list(written_in(content, span.first, span.last, span.name))
    except JournalDamaged:
        return False
    return all(parse_row(line) is not None for one in objects for line in one.lines)
