"""Ctrl-C: once to stop in order, twice to stop now."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class Interrupts:
    """Counts SIGINT and SIGTERM while it is entered; the second one also breaks off what is marked as abortable.

    Outside that mark nothing is ever broken off, so that no row of the journal is written by half.
    """

    def __init__(self) -> None:
        self.count = 0
        self._abortable = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def abortable(self) -> Generator[None]:
        """Marks code that the second Ctrl-C may break off with KeyboardInterrupt."""
        self._abortable = True
        try:
            if self.count > 1:
                raise KeyboardInterrupt
            yield
        finally:
            self._abortable = False

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as `signal` calls it
        self.count += 1
        if self.count > 1 and self._abortable:
            raise KeyboardInterrupt
