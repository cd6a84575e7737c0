"""Reports of a running batch: passes them on as events, and tells a trial at its next report to stop."""

import time
from collections.abc import Callable, Collection, Sequence

from crowdsweep.record.events import TrialProgressed

INTERVAL_S = 0.5


class Reports:
    """Callback that `run_batch` calls for every report of every trial; returns whether the trial goes on.

    It passes on every report with a score, since early stopping may decide by it, and of the others at most one per
    trial in `INTERVAL_S`.

    Args:
        emit: called with each event that is passed on, in the thread that runs the batch.
        keys: keys of the batch's trials.
        stopped: keys of the trials that are to stop; `emit` or another thread adds to it while the batch runs.
    """

    def __init__(self, emit: Callable[[TrialProgressed], None], keys: Sequence[str], stopped: Collection[str]) -> None:
        self._emit = emit
        self._stopped = stopped
        self._due = dict.fromkeys(keys, time.monotonic() + INTERVAL_S)

    def __call__(self, event: TrialProgressed) -> bool:
        """Handles one report; returns False where the trial is to stop."""
        now = time.monotonic()
        if event.score is not None or now >= self._due[event.key]:
            self._due[event.key] = now + INTERVAL_S
            self._emit(event)
        return event.key not in self._stopped
