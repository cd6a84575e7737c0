"""Ctrl-C: once to stop in order, twice to stop now."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts SIGINT, SIGTERM and SIGHUP while it is entered; the second one breaks off what is marked as abortable.

    Outside that mark nothing is ever broken off, so that no row of the journal is written by half. A SIGHUP that the
    process was started to ignore (`nohup`) stays ignored.
    """

    def __init__(self) -> None:
        self.count = 0
        self._breaks_at: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def abortable(self, *, at_once: bool = False) -> Generator[None]:
        """Marks code that the second Ctrl-C may break off with KeyboardInterrupt.

        Args:
            at_once: the next one does, also where it is the first.
        """
        self._breaks_at = min(2, self.count + 1) if at_once else 2
        try:
            if self.count > 1:
                raise KeyboardInterrupt
            yield
        finally:
            self._breaks_at = None

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as `signal` calls it
        self.count += 1
        if self._breaks_at is not None and self.count >= self._breaks_at:
            raise KeyboardInterrupt
