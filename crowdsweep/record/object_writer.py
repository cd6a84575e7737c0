"""The journal in an object store, as its driver writes it: each object is created only if its number is free; no lease
and no clock.

A driver begins by creating the object with the next number, and writes each flush as another. A driver that finds the
number taken by another driver has lost the race, and stops before it reports the events. If the existing object is its
own, only the server's answer to an earlier try was lost.
"""

import os
import secrets
import shlex
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from crowdsweep.errors import JournalError, JournalLocked
from crowdsweep.record.asking import ANSWER_S, LISTEN_S, Listener, ask
from crowdsweep.record.numbered import JOURNAL, Head, Span, head_of, object_name
from crowdsweep.record.object_rows import ObjectRows, is_gone, last_head
from crowdsweep.record.objects import Objects
from crowdsweep.record.rows import START, Row, chain

PACKED = 256
"""Objects per pack."""
_TRIES = 3


class ObjectWriter(ObjectRows):
    """Rows of a journal below a prefix of an object store, to be written.

    A driver that answers questions (`asking`) excludes other drivers. If it does not answer, another driver takes over,
    and the next write of the first one fails.

    Raises:
        JournalLocked: another driver is writing.
        JournalError: the store cannot be read or written.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        listen_s: float = LISTEN_S,
        answer_s: float = ANSWER_S,
        packed: int = PACKED,
    ) -> None:
        super().__init__(objects)
        self._packed = packed
        self._me: Head | None = None
        self._listener: Listener | None = None
        self._number = 0  # of this driver's last object
        self._link = START
        self._is_read = False
        self._failed: JournalError | None = None
        self._packs = True
        self._loose: list[bytes] = []  # contents of the objects, up to the last, that are in no pack
        self._kept: set[str] = set()
        self._begin(answer_s)
        self._listener = Listener(objects, self._written_by().writer, every_s=listen_s)

    def heed(self, press: Callable[[], object]) -> None:
        """Registers `press` to be called when somebody asks this driver to stop; see `Listener.heed`."""
        if self._listener is not None:
            self._listener.heed(press)

    def read_rows(self) -> Iterator[Row]:
        """See `Rows.read_rows`."""
        number, link = yield from self._read()
        if self._me is not None:
            if number > self._number:
                raise self._taken_over(number)
            if number < self._number:
                raise JournalError(
                    f"{self._objects.place}: the server does not list an object that was just written, so a journal "
                    f"cannot be kept there: give a store that does, such as S3, GCS or Azure"
                )
            self._link, self._is_read = link, True
            self._pack()

    def append_rows(self, texts: Sequence[str]) -> None:
        """See `WritableRows.append_rows`: writes one object with all rows."""
        me = self._written_by()
        if self._failed is not None:
            raise self._failed
        if not self._is_read:
            for _ in self.read_rows():  # to learn the end of the chain
                pass
        lines, link = chain(texts, self._link)
        content = replace(me, object=self._number + 1, rows=len(texts)).line() + lines
        if not self._created(self._number + 1, content):
            raise self._taken_over(self._number + 1)
        self._number, self._link = self._number + 1, link
        self._loose.append(content)
        self._pack()

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """See `WritableRows.put`: writes one object per file, many at the same time."""
        self._written_by()
        fresh = {f"{folder}/{name}": content for name, content in files.items()}
        self._objects.create_all([(name, content) for name, content in fresh.items() if name not in self._kept])
        self._kept.update(fresh)

    def close(self) -> None:
        """See `WritableRows.close`: writes a last object, which says that this driver has ended."""
        if self._me is None:
            return
        me, self._me = self._me, None
        ended = replace(me, object=self._number + 1, rows=0, ended=True)
        with suppress(JournalError):  # then the next driver asks this one, and gets no answer
            self._objects.create(object_name(ended.object), ended.line())
        if self._listener is not None:
            self._listener.close()

    def rewrite(self, lines: Sequence[bytes]) -> str:
        """Replaces all rows so far by others, which are sealed and chained from the first on: writes a pack that covers
        all existing objects, and returns the pack's name.

        The objects themselves remain unchanged.

        Raises:
            JournalError: the pack could not be written.
        """
        me, last = self._written_by(), self._number
        heads = [replace(me, object=number, rows=0).line() for number in range(1, last)]
        content = b"".join([*heads, replace(me, object=last, rows=len(lines)).line(), *lines])
        span = Span(1, last)
        self._objects.put(span.name, content)
        return span.name

    def remove(self, names: Sequence[str]) -> None:
        self._written_by()
        self._objects.remove(names)
        self._kept.difference_update(names)

    def _begin(self, answer_s: float) -> None:
        """Creates the object that says that this driver begins."""
        number, before = last_head(self._objects)
        if before is not None and not before.ended and is_alive(self._objects, before, answer_s=answer_s):
            raise self._locked(before)
        since = datetime.now(UTC).isoformat(timespec="seconds")
        writer, host = secrets.token_hex(16), socket.gethostname()
        me = Head(object=number + 1, rows=0, writer=writer, pid=os.getpid(), host=host, since=since)
        self._me = me
        try:
            if not self._created(me.object, me.line()):
                raise self._locked(head_of(self._objects.get(object_name(me.object)) or b""))
            # A second creation has to fail, as the object exists: this tests the one guarantee that keeps two drivers
            # apart.
            if self._objects.create(object_name(me.object), me.line()):  # the server ignored the condition
                raise JournalError(
                    f"{self._objects.place}: the server overwrites objects that it was asked to create only where none "
                    f"exists (If-None-Match), so two drivers could write at once: give a store that supports "
                    f"conditional writes, as S3, GCS and Azure do"
                )
        except BaseException:
            self._me = None
            raise
        self._number = me.object

    def _created(self, number: int, content: bytes) -> bool:
        """Creates an object of the journal; returns False if another driver created it.

        Tries again if the server does not answer: the object may have been written and only the answer lost.
        """
        name = object_name(number)
        for tries_left in reversed(range(_TRIES)):
            try:
                if self._objects.create(name, content):
                    return True
                # It exists. It may be this driver's own, written by a try whose answer was lost: contents name their
                # writer.
                return self._objects.get(name) == content
            except JournalError as error:
                if not tries_left:
                    self._failed = error
                    raise
        raise AssertionError("a loop ended that does not")

    def _written_by(self) -> Head:
        if self._me is None:
            raise JournalError(f"{self._objects.place}: not open for writing")
        return self._me

    def _contents(self) -> Iterator[tuple[Span, str, bytes]]:
        """See `ObjectRows._contents`; keeps the contents of the objects that are in no pack for the next pack."""
        self._loose = []
        for span, name, content in super()._contents():
            yield span, name, content
            if self._me is not None and name.startswith(f"{JOURNAL}/"):
                self._loose.append(content)

    def _pack(self) -> None:
        """Writes a pack if enough objects are in none; an error is ignored, because packs are optional."""
        if not self._packs or len(self._loose) < self._packed:
            return
        loose, self._loose = self._loose, []
        try:
            self._objects.create(Span(self._number - len(loose) + 1, self._number).name, b"".join(loose))
        except JournalError:
            self._packs = False  # later packs would leave a gap after the last one

    def _locked(self, driver: Head | None) -> JournalLocked:
        store = str(self._objects.place)
        return JournalLocked(
            f"{store}: another driver is writing this sweep: {_who(driver)}. Wait for it, stop it "
            f"(`crowdsweep stop {shlex.quote(store)}`), or give another place with --store"
        )

    def _taken_over(self, number: int) -> JournalError:
        """Returns the error of a driver that finds the next number taken; its later writes raise it again."""
        content = self._objects.get(object_name(number))
        self._failed = JournalLocked(
            f"{self._objects.place}: another driver has continued this sweep: {_who(head_of(content or b''))}. This "
            f"one stops; results that it had not written yet are lost, and the other driver runs those trials again"
        )
        return self._failed


def is_alive(objects: Objects, driver: Head, *, answer_s: float = ANSWER_S) -> bool:
    """Whether a driver is still running: False if its process on this machine has ended, else whether it answers.

    Raises:
        JournalError: the store cannot be reached.
    """
    return not is_gone(driver) and ask(objects, driver.writer, "alive", patience_s=answer_s)


def _who(driver: Head | None) -> str:
    if driver is None:
        return "an unknown driver"
    return f"pid {driver.pid} on {driver.host} since {driver.since}"
