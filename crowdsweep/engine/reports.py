"""Reports of a running batch: they become events, and a stop reaches the batch at its next report."""

import time
from collections.abc import Callable, Collection, Sequence

from crowdsweep.record.events import TrialProgressed

INTERVAL_S = 0.5


class Reports:
    """Called by `run_batch` for every report of every trial; the answer is whether the trial goes on.

    Passed on is every report with a score, since somebody may decide by it, and of the others one in `INTERVAL_S`.

    Args:
        emit: takes the events that are passed on; called in the thread that runs the batch.
        keys: of the batch's trials.
        stopped: keys that were asked to stop; `emit` or another thread adds to it while the batch runs.
    """

    def __init__(self, emit: Callable[[TrialProgressed], None], keys: Sequence[str], stopped: Collection[str]) -> None:
        self._emit = emit
        self._stopped = stopped
        self._due = dict.fromkeys(keys, time.monotonic() + INTERVAL_S)

    def __call__(self, event: TrialProgressed) -> bool:
        """Takes one report."""
        now = time.monotonic()
        if event.score is not None or now >= self._due[event.key]:
            self._due[event.key] = now + INTERVAL_S
            self._emit(event)
        return event.key not in self._stopped
