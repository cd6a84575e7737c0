"""Handling of Ctrl-C: whatever a command is doing, the process ends within seconds of the second press.

Python handles a signal between two bytecode steps of its main thread, where the handler raises an exception. This is
not sufficient. C code may not return for minutes, or may drop the exception of Python code that it called. Libraries
and plug-ins may catch exceptions that they should not.

Therefore an exception that C code drops is raised again. In addition, a thread counts the presses as the system
delivers them, and ends the process where the exception does not. Whatever the process has started (trials, its own
cluster, MLflow's server) ends after the process.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from crowdsweep.cli.outcome import EXIT_INTERRUPTED
from crowdsweep.errors import ENDING_SIGNALS, Interrupted, counts_as_press

GRACE_S = 2.5
"""Seconds after the second press for writing and closing files."""

MOMENT_S = 0.02
"""Seconds before a dropped exception is raised again, in which the C code that dropped it continues."""

NO_PRESS = signal.SIGURG
"""Signal that interrupts the main thread without counting as a press; a process without a handler ignores it."""


class InterruptHandler:
    """Handler of SIGINT, SIGTERM and SIGHUP from its creation until the process ends.

    Each signal raises `Interrupted` in the main thread, unless a part of a command counts signals itself. A SIGHUP that
    the process was started to ignore (`nohup`) stays ignored. A SIGINT is handled even where it was ignored, as in the
    background jobs of a script, or blocked, as in a job of Ray.

    Attributes:
        presses: number of requests to end the process.
    """

    def __init__(self) -> None:
        self.presses = 0
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        threading.Thread(target=self._count, args=[reading], name="Ctrl-C", daemon=True).start()
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in ENDING_SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _interrupt)
        signal.signal(NO_PRESS, _interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*ENDING_SIGNALS, NO_PRESS))
        sys.unraisablehook = _raised_again

    def _count(self, reading: int) -> None:
        while heard := os.read(reading, 64):
            for number in heard:
                self.presses += counts_as_press(number, self.presses)
                if self.presses > 1:
                    _end_soon()


def _interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as `signal` calls it
    raise Interrupted


def _raised_again(dropped: "sys.UnraisableHookArgs") -> None:
    """Raises a dropped `Interrupted` again in the main thread; prints other exceptions, as Python does."""
    if not isinstance(dropped.exc_value, Interrupted):
        sys.__unraisablehook__(dropped)
        return
    # The signal comes a moment later, as an exception that is raised here would be dropped again.
    main = threading.main_thread().ident or 0
    again = threading.Timer(MOMENT_S, signal.pthread_kill, (main, NO_PRESS))
    again.daemon = True
    again.start()


def _end_soon() -> None:
    time.sleep(GRACE_S)
    with suppress(OSError):
        os.write(2, b"interrupted; what was still at work was left\n")
    os._exit(EXIT_INTERRUPTED)
