"""The handling of Ctrl-C: once to stop in order, twice to stop at once."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from crowdsweep.errors import ENDING_SIGNALS, Interrupted, counts_as_press


class Interrupts:
    """A counter of SIGINT, SIGTERM and SIGHUP while it is entered.

    The second signal interrupts code that is marked as `abortable`. Code outside that mark is never interrupted, so
    that no row of the journal is half written. A SIGHUP that the process was started to ignore (`nohup`) stays ignored.
    A SIGINT is heard even where the process was started with it blocked, as Ray starts its jobs.
    """

    def __init__(self) -> None:
        self.count = 0
        self._breaks_at: int | None = None
        self._previous: dict[int, Any] = {}
        self._blocked: set[int] = set()

    def __enter__(self) -> "Interrupts":
        self._blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
        for number in ENDING_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.getsignal(number)
        self.listen()
        return self

    def listen(self) -> None:
        """Installs the signal handlers again, where a library has replaced them meanwhile, as Ray does on import."""
        for number in self._previous:
            signal.signal(number, self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    @contextmanager
    def abortable(self, *, at_once: bool = False) -> Generator[None]:
        """Marks code that the second Ctrl-C interrupts with `Interrupted`.

        Raises `Interrupted` at once if Ctrl-C has been pressed twice already.

        Args:
            at_once: whether the next Ctrl-C interrupts the code, even if it is the first.
        """
        self._breaks_at = min(2, self.count + 1) if at_once else 2
        try:
            if self.count > 1:
                raise Interrupted
            yield
        finally:
            self._breaks_at = None

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as `signal` calls it
        self.count += counts_as_press(number, self.count)
        if self._breaks_at is not None and self.count >= self._breaks_at:
            raise Interrupted
