"""Ctrl-C in every state of every command: the process is gone seconds after the second press, whatever it does.

Python hears a signal between two steps of its main thread, and raises an exception there. That is not enough by itself:
code in C may not come back for minutes, or drops the exception of Python code that it called; libraries and plug-ins
catch what is not theirs. So what C drops is raised again; and a thread counts the presses as the system delivers them,
and ends the process where the exception does not. What the process has started (trials, a cluster of its own, MLflow's
server) ends when it is gone.
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
"""For what is written and closed after the second press."""

MOMENT_S = 0.02
"""In which code in C goes on that dropped an exception."""

NO_PRESS = signal.SIGURG
"""Interrupts what the main thread waits in, and counts for nothing; where nobody hears it, the system ignores it."""


class Attention:
    """Hears SIGINT, SIGTERM and SIGHUP from now on, until the process ends.

    Each raises `Interrupted` in the main thread, where no part of a command counts them itself. A SIGHUP that the
    process was started to ignore (`nohup`) stays ignored; a SIGINT is heard also where a script's background job
    ignores it.

    Attributes:
        presses: how often it was asked to end.
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
    """Raises an `Interrupted` again in the main thread; prints other exceptions, as Python does."""
    if not isinstance(dropped.exc_value, Interrupted):
        sys.__unraisablehook__(dropped)
        return
    # A moment later: what is raised in here would be dropped once more.
    main = threading.main_thread().ident or 0
    again = threading.Timer(MOMENT_S, signal.pthread_kill, (main, NO_PRESS))
    again.daemon = True
    again.start()


def _end_soon() -> None:
    time.sleep(GRACE_S)
    with suppress(OSError):
        os.write(2, b"interrupted; what was still at work was left\n")
    os._exit(EXIT_INTERRUPTED)
