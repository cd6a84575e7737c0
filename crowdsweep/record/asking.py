"""Questions to a driver on another machine: objects in the store, which the driver removes as its answer.

They are only a courtesy: the numbers of the journal's objects decide who may write. Before a driver takes over, it asks
whether the previous one is alive. `crowdsweep stop` asks a driver to stop.
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
"""Seconds between two checks of a driver for questions."""
ANSWER_S = 15.0
"""Seconds to wait for an answer."""
_FOLDER = "asked"
_LOOK_S = 0.2

_log = logging.getLogger(__name__)

Question = Literal["alive", "stop"]


def ask(objects: Objects, writer: str, question: Question, *, patience_s: float = ANSWER_S) -> bool:
    """Asks a driver a question and returns whether it answered.

    Args:
        question: `alive`: whether the driver is running; `stop`: a request to stop, like Ctrl-C.

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
    """A thread that answers the questions to a driver until it is closed."""

    def __init__(self, objects: Objects, writer: str, *, every_s: float = LISTEN_S) -> None:
        self._objects = objects
        self._folder = f"{_FOLDER}/{writer}"
        self._every_s = every_s
        self._press: Callable[[], object] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="asked", daemon=True)
        self._thread.start()

    def heed(self, press: Callable[[], object]) -> None:
        """Registers `press` to be called for each `stop` request, including those that are already waiting."""
        self._press = press

    def close(self) -> None:
        """Stops the thread and removes unanswered questions; may be called twice."""
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
            except JournalError as error:  # the driver's own writes report the problem
                _log.debug("what is asked could not be read: %s", error)

    def _look(self) -> None:
        for one in self._objects.names(self._folder):
            if "/stop-" in one.name:
                if self._press is None:
                    continue
                self._press()
            self._objects.remove([one.name])
