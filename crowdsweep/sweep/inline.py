"""Runs batches in this process, one after another: for small sweeps, debugging and tests."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.sweep.executor import Batch, ignore
from crowdsweep.sweep.reports import Reports
from crowdsweep.trial.events import Event, TrialFinished, TrialProgressed, TrialStarted
from crowdsweep.trial.runner import run_batch

SLOT = "inline"


class InlineExecutor:
    """One slot: this process and the thread that calls `poll`.

    `poll` runs at most one batch, from beginning to end, whatever its timeout; the listener hears of it meanwhile.
    `stop` may be called by the listener, or from another thread.

    Args:
        datasets: base datasets by fingerprint.
        device: a torch device, given to every batch.
    """

    def __init__(self, datasets: Mapping[str, CrowdDataset], device: str = "cpu") -> None:
        self._datasets = datasets
        self._device = device
        self._waiting: deque[Batch] = deque()
        self._stopped: set[str] = set()
        self._listener: Callable[[TrialProgressed], None] = ignore
        self._lock = threading.Lock()

    @property
    def slots(self) -> int:
        return 1

    def submit(self, batch: Batch) -> None:
        """See `Executor.submit`."""
        with self._lock:
            self._stopped.difference_update(spec.key for spec in batch.specs)
            self._waiting.append(batch)

    def poll(self, timeout_s: float) -> Sequence[Event]:  # noqa: ARG002 - what it waits for is its own work
        """Runs the next batch, and returns what happened in it."""
        with self._lock:
            if not self._waiting:
                return []
            batch = self._waiting.popleft()
            specs = [spec for spec in batch.specs if spec.key not in self._stopped]
        if not specs:
            return []
        reports = Reports(self._listener, [spec.key for spec in specs], self._stopped)
        results = run_batch(specs, self._datasets[batch.dataset], self._device, reports, batch.watch)
        started = [TrialStarted(key=spec.key, slot=SLOT) for spec in specs]
        return [*started, *(TrialFinished(result=result) for result in results)]

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        """See `Executor.listen`."""
        self._listener = listener

    def stop(self, key: str) -> None:
        """See `Executor.stop`."""
        with self._lock:
            self._stopped.add(key)

    def close(self) -> None:
        """See `Executor.close`."""
        self._waiting.clear()
