"""What a slot gives to a running batch: its reports become events, and a stop reaches it at the next report."""

import time
from collections.abc import Callable, Collection, Sequence

from crowdsweep.trial.events import TrialProgressed

INTERVAL_S = 0.5


class AllStopped(BaseException):
    """Nobody wants what a batch is doing. No `Exception`: a model's own `except` and `run_batch` let it through."""


class Progress:
    """Called by `run_batch` for every step of every trial; passes a trial's report on every `INTERVAL_S` seconds.

    Args:
        emit: takes the events that are passed on; called in the thread that runs the batch.
        keys: of the batch's trials.
        stopped: keys that were asked to stop; another thread adds to it while the batch runs.
    """

    def __init__(self, emit: Callable[[TrialProgressed], None], keys: Sequence[str], stopped: Collection[str]) -> None:
        self._emit = emit
        self._keys = keys
        self._stopped = stopped
        self._due = dict.fromkeys(keys, time.monotonic() + INTERVAL_S)

    def __call__(self, key: str, step: int, objective: float) -> None:
        """Takes one report.

        Raises:
            AllStopped: every trial of the batch was asked to stop.
        """
        if self._stopped and all(key in self._stopped for key in self._keys):
            raise AllStopped
        now = time.monotonic()
        if now >= self._due[key]:
            self._due[key] = now + INTERVAL_S
            self._emit(TrialProgressed(key=key, step=step, objective=objective))
