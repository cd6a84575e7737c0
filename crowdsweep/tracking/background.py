"""Work on a thread of its own, for a mirror that must never delay a sweep: a bounded queue, retries with back-off."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from crowdsweep.errors import error_words

_log = logging.getLogger(__name__)

Job = Callable[[], None]

_LOOK_S = 0.1


class Rejected(Exception):
    """What a job raises when trying again cannot help; the next job goes on."""


class Background:
    """Runs jobs one after another, in order.

    A job that raises is tried again with a growing delay, and dropped after `attempts`. The first failure is reported
    as a warning; later ones only at debug level, so that a server that is down does not fill the terminal. Once
    `close` has been called, a job that fails ends it: what is left is dropped.

    Args:
        name: what is written to, for messages and as the thread's name.
        limit: most jobs that may wait.
        attempts: how often a job is tried.
        first_delay_s, longest_delay_s: between two attempts; it doubles.
        when_idle: called when the queue is empty and something was done, at most every `idle_s` seconds.
        patience_s: how long `close` waits in all.
        stalled_s: how long it waits for one job.
        words: of an error, for messages.
    """

    def __init__(
        self,
        name: str,
        *,
        limit: int = 10_000,
        attempts: int = 8,
        first_delay_s: float = 1.0,
        longest_delay_s: float = 60.0,
        when_idle: Job | None = None,
        idle_s: float = 10.0,
        patience_s: float = 60.0,
        stalled_s: float = 30.0,
        words: Callable[[Exception], str] = error_words,
    ) -> None:
        self._name = name
        self._limit = limit
        self._attempts = attempts
        self._first_delay_s = first_delay_s
        self._longest_delay_s = longest_delay_s
        self._when_idle = when_idle
        self._idle_s = idle_s
        self._patience_s = patience_s
        self._stalled_s = stalled_s
        self._ended_at = 0.0  # when the last job did
        self._words = words
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._abandoned = False
        self._reported = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, *, beyond_limit: bool = False) -> bool:
        """Queues a job and returns at once; False where there is no room or it was closed."""
        with self._changed:
            full = len(self._jobs) >= self._limit and not beyond_limit
            if full or self._closing.is_set():
                return False
            self._jobs.append(job)
            self._changed.notify()
        return True

    def close(self, last: Job | None = None, wait: Callable[[float], bool] | None = None) -> None:
        """Runs what is queued and then `last`; returns when that is done, or fails, or takes too long.

        Args:
            last: job.
            wait: asked again and again, with the seconds that have gone by, whether to go on waiting.
        """
        with self._changed:
            if not self._closing.is_set() and last is not None:
                self._jobs.append(last)
            self._closing.set()
            self._changed.notify()
        began = time.monotonic()
        while self._thread.is_alive():
            now = time.monotonic()
            gone_s, stalled_s = now - began, now - max(began, self._ended_at)
            too_long = gone_s > self._patience_s or stalled_s > self._stalled_s
            if too_long or (wait is not None and not wait(gone_s)):
                break
            self._thread.join(min(_LOOK_S, self._patience_s))
        self._abandoned = True

    def _run(self) -> None:
        fresh = False
        idle_at = time.monotonic() + self._idle_s
        while not self._abandoned:
            with self._changed:
                if not self._jobs and not self._closing.is_set():
                    self._changed.wait(max(0.0, idle_at - time.monotonic()) if fresh else None)
                job = self._jobs.popleft() if self._jobs else None
            if job is not None:
                fresh = True
                if not self._attempt(job):
                    return
            elif self._closing.is_set():
                return
            elif fresh and time.monotonic() >= idle_at:
                fresh = False
                idle_at = time.monotonic() + self._idle_s
                if self._when_idle is not None:
                    self._attempt(self._when_idle)

    def _attempt(self, job: Job) -> bool:
        """Returns whether to go on with the next job."""
        delay_s = self._first_delay_s
        for _ in range(self._attempts):
            closing = self._closing.is_set()
            try:
                job()
            except Rejected as error:
                self._report(error)
                break
            except Exception as error:  # noqa: BLE001 - whatever a mirror's library raises, the sweep goes on
                self._report(error)
                if closing or self._abandoned:
                    return False
                self._closing.wait(delay_s)
                delay_s = min(2 * delay_s, self._longest_delay_s)
            else:
                break
        self._ended_at = time.monotonic()
        return True

    def _report(self, error: Exception) -> None:
        level = logging.DEBUG if self._reported else logging.WARNING
        _log.log(
            level,
            "%s cannot be written, the sweep goes on and it is tried again: %s",
            self._name,
            self._words(error),
        )
        self._reported = True
