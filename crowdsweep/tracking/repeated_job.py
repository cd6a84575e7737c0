"""A job that is repeated on a thread of its own, for a mirror that must never delay a sweep."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from crowdsweep.errors import error_words

_log = logging.getLogger(__name__)

_LOOK_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Intervals and time limits of a repeated job, in seconds.

    Attributes:
        every_s: shortest time from the end of one run to the start of the next.
        first_delay_s, longest_delay_s: first and longest delay after failures; the delay doubles with each.
        patience_s: how long `close` waits in total.
        stalled_s: how long `close` waits for one step of the job.
        last_s: how long the last run is retried if it fails.
    """

    every_s: float = 2.0
    first_delay_s: float = 1.0
    longest_delay_s: float = 60.0
    patience_s: float = 60.0
    stalled_s: float = 30.0
    last_s: float = 2.0


class RepeatedJob:
    """Runs a job when there is something new, and once more at the end.

    A job that raises is run again after a growing delay. The first failure is logged as a warning, later ones only at
    debug level, so that a server that is down does not fill the terminal. The last run is retried for some seconds,
    since the cause of a failure may have passed by then.

    Args:
        name: what the job writes to, for messages and as the thread's name.
        job: receives whether this is the last run; returns the least seconds to rest. It calls `goes_on` between steps.
    """

    def __init__(
        self,
        name: str,
        job: Callable[[bool], float],
        *,
        timing: Timing | None = None,
        words: Callable[[Exception], str] = error_words,
    ) -> None:
        self._name = name
        self._job = job
        self._timing = timing or Timing()
        self._words = words
        self._changed = threading.Event()
        self._closing = threading.Event()
        self._abandoned = False
        self._reported = False
        self._stepped_at = 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Requests a run because there is something new; returns at once."""
        self._changed.set()

    def goes_on(self) -> bool:
        """Marks a step of the job as done; returns False where nobody waits for the remaining steps."""
        self._stepped_at = time.monotonic()
        return not self._abandoned

    def close(self, wait: Callable[[float], bool] | None = None) -> None:
        """Runs the job for the last time; returns when it has finished, failed, or taken too long.

        Args:
            wait: called repeatedly with the elapsed seconds; returns whether to go on waiting.
        """
        self._closing.set()
        self._changed.set()
        began = time.monotonic()
        while self._thread.is_alive():
            now = time.monotonic()
            gone_s, stalled_s = now - began, now - max(began, self._stepped_at)
            too_long = gone_s > self._timing.patience_s or stalled_s > self._timing.stalled_s
            if too_long or (wait is not None and not wait(gone_s)):
                break
            self._thread.join(min(_LOOK_S, self._timing.patience_s))
        self._abandoned = True

    def _run(self) -> None:
        delay_s = self._timing.first_delay_s
        while not self._closing.is_set():
            self._changed.wait()
            self._changed.clear()
            if self._closing.is_set():
                break
            rest_s = self._done(last=False)
            if rest_s is not None:
                delay_s = self._timing.first_delay_s
                self._closing.wait(max(self._timing.every_s, rest_s))
            else:
                self._changed.set()
                self._closing.wait(delay_s)
                delay_s = min(2 * delay_s, self._timing.longest_delay_s)
        self._last()

    def _last(self) -> None:
        delay_s, until = self._timing.first_delay_s, time.monotonic() + self._timing.last_s
        while not self._abandoned and self._done(last=True) is None and time.monotonic() + delay_s < until:
            again = time.monotonic() + delay_s
            while not self._abandoned and time.monotonic() < again:
                time.sleep(min(_LOOK_S, delay_s))
            delay_s = min(2 * delay_s, self._timing.longest_delay_s)

    def _done(self, *, last: bool) -> float | None:
        """Runs the job; returns the seconds to rest, or None where it failed."""
        try:
            rest_s = self._job(last)
        except Exception as error:  # noqa: BLE001 - whatever a mirror's library raises, the sweep goes on
            self._report(error)
            return None
        self._stepped_at = time.monotonic()
        return rest_s

    def _report(self, error: Exception) -> None:
        level = logging.DEBUG if self._reported else logging.WARNING
        _log.log(
            level,
            "%s cannot be written; the sweep continues, and writing is tried again: %s",
            self._name,
            self._words(error),
        )
        self._reported = True
