"""Checkpoints of unfinished trials, as files beside the journal's rows: `checkpoints/<key>-<step>-<digest>`.

A later checkpoint of a trial has another name, and is written before the earlier one is removed. A driver that dies in
between thus leaves a complete checkpoint. If there are several, the one of the latest step counts. This module handles
bytes; `trial.checkpoints` interprets them.

A checkpoint saves time and affects no number. So one that cannot be written or read costs a warning, and no trial.
"""

import logging
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import RLock

from crowdsweep.errors import JournalError
from crowdsweep.record.kept_arrays import digest_of
from crowdsweep.record.rows import WritableRows
from crowdsweep.record.store_files import CHECKPOINTS

_NAME = re.compile(r"([0-9a-f]{16})-([0-9]{9})-[0-9a-f]{32}")
_MOST_STEPS = 10**9 - 1


_log = logging.getLogger(__name__)


class CheckpointFiles:
    """The checkpoints in the store of a journal that is open for writing. The first failure is logged as a warning.

    Args:
        guard: the lock that every writer of the store holds.
    """

    def __init__(self, rows: WritableRows, guard: RLock) -> None:
        self._rows, self._guard = rows, guard
        self._known: dict[str, set[str]] | None = None  # trial key → names of files; None before they are listed
        self._warned = False

    def put(self, key: str, step: int, content: bytes) -> None:
        """Stores a trial's checkpoint and removes the earlier ones."""
        name = f"{key}-{min(step, _MOST_STEPS):09d}-{digest_of(content)}"
        with self._guard, self._tolerant():
            names = self._names().setdefault(key, set())
            self._rows.put(CHECKPOINTS, {name: content})
            earlier = names - {name}
            names.add(name)
            self._remove(earlier)
            names -= earlier

    def get(self, key: str) -> bytes | None:
        """Returns a trial's latest checkpoint; None if it has none that can be read."""
        with self._guard, self._tolerant():
            if names := sorted(self._names().get(key, ())):
                return self._rows.get(f"{CHECKPOINTS}/{names[-1]}")
        return None

    def remove(self, keys: Iterable[str] | None = None) -> None:
        """Removes the checkpoints of these trials, or of all trials if `keys` is None."""
        with self._guard, self._tolerant():
            known = self._names()
            for key in [*known] if keys is None else keys:
                self._remove(known.get(key, ()))
                known.pop(key, None)

    @contextmanager
    def _tolerant(self) -> Generator[None]:
        try:
            yield
        except JournalError as error:
            if not self._warned:
                self._warned = True
                _log.warning(
                    "checkpoints cannot be kept, so a lost trial may have to start again from the beginning: %s", error
                )

    def _remove(self, names: Iterable[str]) -> None:
        if found := [f"{CHECKPOINTS}/{name}" for name in names]:
            self._rows.remove(found)

    def _names(self) -> dict[str, set[str]]:
        if self._known is None:
            self._known = {}
            for name in self._rows.names(CHECKPOINTS):
                if found := _NAME.fullmatch(name):
                    self._known.setdefault(found[1], set()).add(name)
        return self._known
