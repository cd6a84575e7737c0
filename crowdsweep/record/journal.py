"""The journal: the only record of a sweep. What it contains is never lost and never done twice.

A store is a folder on a disk that the driver can lock, or a place in an object store.
"""

import gc
import os
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

import numpy as np

from crowdsweep.errors import BadInput, JournalDamaged, JournalError, JournalLocked
from crowdsweep.record import kept_arrays
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.checkpoint_files import CheckpointFiles
from crowdsweep.record.codec import Decoder, encode
from crowdsweep.record.events import Event
from crowdsweep.record.kinds import apply_event, news_of
from crowdsweep.record.local import LocalRows
from crowdsweep.record.local_writer import LocalWriter
from crowdsweep.record.object_rows import ObjectRows
from crowdsweep.record.object_writer import ObjectWriter
from crowdsweep.record.objects import Objects
from crowdsweep.record.rows import WAY_ON, Rows, WritableRows
from crowdsweep.record.state import JournalState, MutableState
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import has_journal


class Journal:
    """The writer of a sweep's journal: a `Mirror` that gets each event before all other mirrors.

    `handle` returns when the event is durable. Starts and progress of trials are not kept, nor is a second finish of a
    trial that is done. The methods are thread-safe.

    Args:
        rows: storage of the rows, opened for writing; None: derived from `store`.

    Attributes:
        checkpoints: of trials that have not finished.

    Raises:
        JournalLocked: another driver is writing there.
        JournalDamaged: rows before the torn tail cannot be read.
        JournalError: the store cannot be read or written.
    """

    def __init__(self, store: Store, *, rows: WritableRows | None = None) -> None:
        self._rows = _open_to_write(store) if rows is None else rows
        self._failed: JournalError | None = None
        self._guard = RLock()
        self._known = MutableState()
        self.checkpoints = CheckpointFiles(self._rows, self._guard)
        try:
            _take_all(self._known, self._rows)
        except BaseException:
            self._rows.close()
            raise

    @property
    def state(self) -> JournalState:
        """The state of the sweep, up to the last event handled."""
        with self._guard:
            return self._known.view()

    def snapshot(self) -> JournalState:
        """Returns a copy of the current state, for other threads; later events do not change it. O(rows)."""
        with self._guard:
            return self._known.copied()

    def handle(self, event: Event) -> None:
        """Writes one event; see `handle_many`."""
        self.handle_many((event,))

    def handle_many(self, events: Iterable[Event]) -> None:
        """Writes events with a single flush.

        Raises:
            JournalError: the events could not be written (a full disk); the journal accepts no more events.
        """
        with self._guard:
            fresh = self._fresh(events)
            if not fresh:
                return
            if self._failed:
                raise self._failed
            try:
                # The disk first: the state never has an event that a crash could take back.
                self._rows.append_rows([encode(event) for event in fresh])
            except JournalError as error:
                self._failed = error
                raise
            for event in fresh:
                apply_event(self._known, event)

    def keep(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Artifact]:
        """Writes the arrays of a trial as files, before the row that refers to them; see `kept_arrays.keep`.

        Raises:
            JournalError: an array could not be written; the journal accepts no more events.
        """
        with self._guard:
            if self._failed:
                raise self._failed
            try:
                return kept_arrays.keep(self._rows.put, arrays)
            except JournalError as error:
                self._failed = error
                raise

    def heed(self, press: Callable[[], object]) -> None:
        """Registers `press` to be called when another machine asks this driver to stop; see `WritableRows.heed`."""
        self._rows.heed(press)

    def close(self) -> None:
        """Releases the lock for other drivers; may be called twice."""
        with self._guard:
            self._rows.close()

    def _fresh(self, events: Iterable[Event]) -> list[Event]:
        """Returns the events to write: those of journalled kinds that bring news, without duplicates."""
        fresh: dict[Hashable, Event] = {}
        for event in events:
            brought = news_of(self._known, event)
            if brought is not None:
                fresh.setdefault(brought, event)
        return list(fresh.values())


def read_journal(store: Store, *, rows: Rows | None = None) -> JournalState:
    """Returns the state that a store's journal adds up to, even while a driver is writing it. O(rows).

    Args:
        rows: of the store, if they are open already.

    Raises:
        JournalError: there is no journal.
        JournalDamaged: rows before the torn tail cannot be read.
    """
    known = MutableState()
    _take_all(known, open_rows(store) if rows is None else rows)
    if not known.rows:
        raise JournalError(
            f"{store}: no journal here; expected a store that `crowdsweep run` made (crowdsweep-runs/NAME by default)"
        )
    return known.view()


def open_rows(store: Store) -> Rows:
    """Opens the rows of a store, to read them.

    Raises:
        BadInput: `store` is no valid path.
    """
    return LocalRows(store) if isinstance(store, Path) else ObjectRows(Objects(store))


def _open_to_write(store: Store) -> WritableRows:
    """Opens the rows of a store as its driver; raises as `Journal` does."""
    return LocalWriter(store) if isinstance(store, Path) else ObjectWriter(Objects(store))


@contextmanager
def without_driver(store: Store) -> Generator[None]:
    """Locks a journal against drivers during the `with` block.

    A store without a journal, or one that cannot be written, is not locked.

    Raises:
        BadInput: a driver is running the sweep.
    """
    rows = None
    if has_journal(store) and (not isinstance(store, Path) or os.access(store, os.W_OK)):
        try:
            rows = _open_to_write(store)
        except JournalLocked as error:
            raise BadInput(
                f"{store}: a sweep runs here and writes MLflow itself; do this when it has ended ({error})"
            ) from error
    try:
        yield
    finally:
        if rows is not None:
            rows.close()


def _take_all(known: MutableState, rows: Rows) -> None:
    """Applies all rows to `known`, with garbage collection off: the many new records contain no garbage."""
    was_on, decoder = gc.isenabled(), Decoder()
    gc.disable()
    try:
        for row in rows.read_rows():
            try:
                event = decoder.event(row.text)
            except JournalDamaged as error:
                raise JournalDamaged(f"{row.place}: {error}. {WAY_ON}") from error
            except JournalError as error:
                raise type(error)(f"{row.place}: {error}") from error
            apply_event(known, event)
    finally:
        if was_on:
            gc.enable()
