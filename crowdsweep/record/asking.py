"""Words for a driver that another machine runs: an object that asks, which the driver removes as its answer.

Nothing hangs on them but courtesy: who may write is settled by the numbers of the journal's objects. A driver asks
whether the one before it lives before it takes over, and `crowdsweep stop` asks for an end.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Literal

from crowdsweep.errors import JournalError
from crowdsweep.record.objects import Objects

LISTEN_S = 2.0
"""Seconds between two looks of a driver at what it is asked."""
ANSWER_S = 15.0
"""Seconds for which an answer is waited for."""
_FOLDER = "asked"
_LOOK_S = 0.2

_log = logging.getLogger(__name__)

Question = Literal["alive", "stop"]


def ask(objects: Objects, writer: str, question: Question, *, patience_s: float = ANSWER_S) -> bool:
    """Asks a driver, and returns whether it answered.

    Args:
        objects: of the store.
        writer: what the driver calls itself.
        question: whether it lives; or that it end, as Ctrl-C does.
        patience_s: seconds after which it is taken for dead.

    Raises:
        JournalError: the store cannot be reached.
    """
    name = f"{_FOLDER}/{writer}/{question}-{secrets.token_hex(8)}"
    objects.put(name, b"")
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        if objects.get(name) is None:
            return True
        time.sleep(_LOOK_S)
    heard = objects.get(name) is None
    objects.remove([name])
    return heard


class Listener:
    """Answers what a driver is asked, on a thread of its own, until it is closed.

    Args:
        objects: of the store.
        writer: what the driver calls itself.
        every_s: seconds between two looks.
    """

    def __init__(self, objects: Objects, writer: str, *, every_s: float = LISTEN_S) -> None:
        self._objects = objects
        self._folder = f"{_FOLDER}/{writer}"
        self._every_s = every_s
        self._press: Callable[[], object] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="asked", daemon=True)
        self._thread.start()

    def heed(self, press: Callable[[], object]) -> None:
        """Calls `press` for each `stop`; those that came earlier have waited."""
        self._press = press

    def close(self) -> None:
        """Ends it, and removes what nobody has answered."""
        if self._ended.is_set():
            return
        self._ended.set()
        self._thread.join(self._every_s)
        try:
            self._objects.remove([one.name for one in self._objects.names(self._folder)])
        except JournalError as error:
            _log.debug("what was asked could not be removed: %s", error)

    def _listen(self) -> None:
        while not self._ended.wait(self._every_s):
            try:
                self._look()
            except JournalError as error:  # the driver's own writing tells it
                _log.debug("what is asked could not be read: %s", error)

    def _look(self) -> None:
        for one in self._objects.names(self._folder):
            if "/stop-" in one.name:
                if self._press is None:
                    continue
                self._press()
            self._objects.remove([one.name])
