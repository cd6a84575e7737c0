"""The inline executor: runs batches one after another in one worker process, for small sweeps, debugging and tests.

The worker is not the driver's process: whatever a model does to it (an exit, a crash, a hang in C, a closed file) fails
only one trial, and the driver always responds to Ctrl-C. The worker starts once, in about half a second; sending it a
batch takes less than a millisecond. `crowdsweep replay` runs a trial in the command's own process, for a debugger.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.devices import usable_device
from crowdsweep.engine.executor import Batch, ignore
from crowdsweep.engine.retry_policy import STARTING_S, Decision, RetryPolicy, tell_loss, unfinished
from crowdsweep.engine.work import BEGUN, BUG, DONE, NEWS, PROGRESS, Work
from crowdsweep.engine.worker import Forkserver, WorkerDied, bug_from_worker
from crowdsweep.errors import InfeasibleRequest
from crowdsweep.record.events import (
    BatchLost,
    Event,
    TrialFinished,
    TrialProgressed,
    TrialSaved,
    TrialsNoted,
    TrialStarted,
)
from crowdsweep.record.result import TrialResult
from crowdsweep.resources import Resources

SLOT = "inline"

_STOOD_STILL_S = 5.0
_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Running:
    """A batch that runs.

    Attributes:
        batch: what was sent to the worker.
        deadline: time (`time.monotonic`) after which it has run too long; None for never.
        looks_until: time until which the last look waited for the worker, at most.
    """

    batch: Batch
    deadline: float | None
    looks_until: float


class InlineExecutor:
    """Executor with one slot: a worker process that is replaced when it dies or hangs.

    When the process dies, the trials of its batch go back to the front of the queue as `RetryPolicy` says.

    Args:
        datasets: base datasets by fingerprint.
        resources: those that batches may ask for; only the device that they imply matters.
        trial_minutes: minutes after which a trial is ended; None for no limit.

    Raises:
        InfeasibleRequest: one of the resources needs a GPU, and torch cannot use it on this machine.
    """

    def __init__(
        self,
        datasets: Mapping[str, CrowdDataset],
        resources: Sequence[Resources] = (Resources(),),
        trial_minutes: float | None = None,
    ) -> None:
        self._datasets = datasets
        self._retries = RetryPolicy(trial_minutes=trial_minutes)
        self._forkserver = Forkserver()
        self._running: _Running | None = None
        self._waiting: deque[Batch] = deque()
        self._stopped: set[str] = set()
        self._saved: dict[str, bytes] = {}  # the latest checkpoints of trials that have not finished
        self._listener: Callable[[TrialProgressed], None] = ignore
        self._lock = threading.Lock()
        try:
            self._devices = {asked: usable_device(asked, self._forkserver) for asked in resources}
        except InfeasibleRequest:
            self._forkserver.close()
            raise

    def slots_for(self, resources: Resources | None = None) -> int:  # noqa: ARG002
        """See `Executor.slots_for`; always 1."""
        return 1

    def submit(self, batch: Batch) -> None:
        """See `Executor.submit`."""
        with self._lock:
            self._stopped.difference_update(spec.key for spec in batch.specs)
            self._saved.update(batch.saved)
            self._waiting.append(replace(batch, saved={}))

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """See `Executor.poll`; `stop` may be called by the listener, or from another thread."""
        until = time.monotonic() + timeout_s
        while True:
            try:
                if self._running is None:
                    return self._begin()
                if (events := self._look(self._running, until)) or time.monotonic() >= until:
                    return events
            except WorkerDied as death:
                reason = f"its process died: {death}"
                return self._lost(partial(self._retries.after_death, reason=reason), reason)

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
        self._running = None
        self._forkserver.close()

    def _begin(self) -> Sequence[Event]:
        """Sends the next waiting batch to the worker, if there is one."""
        with self._lock:
            wanted = None
            while self._waiting and wanted is None:
                wanted = unfinished(self._waiting.popleft(), self._stopped)
        if wanted is None:
            return []
        limit_s, now = self._retries.limit_s(len(wanted.specs)), time.monotonic()
        self._running = _Running(
            batch=wanted, deadline=None if limit_s is None else now + limit_s + STARTING_S, looks_until=now
        )
        worker = self._forkserver.worker()
        worker.send(
            Work(
                batch=replace(
                    wanted, saved={spec.key: self._saved[spec.key] for spec in wanted.specs if spec.key in self._saved}
                ),
                dataset=None if wanted.dataset in worker.has else self._datasets[wanted.dataset],
                device=self._devices[wanted.resources],
            )
        )
        return [TrialStarted(key=spec.key, slot=SLOT) for spec in wanted.specs]

    def _look(self, running: _Running, until: float) -> Sequence[Event]:
        """Handles the worker's next message, waiting until `until` for it; kills a worker past its deadline."""
        now = time.monotonic()
        if running.deadline is not None and now - running.looks_until > _STOOD_STILL_S:
            # This process was suspended (Ctrl-Z, SIGSTOP): its worker too, or what it has finished waits to be read.
            running.deadline += now - running.looks_until
        if running.deadline is not None and now >= running.deadline:
            self._forkserver.kill_worker()
            return self._lost(self._retries.after_overrun, "it ran longer than budget.trial_minutes")
        running.looks_until = max(now, until if running.deadline is None else min(until, running.deadline))
        match self._forkserver.receive(running.looks_until - now):
            case (str() as kind, _) if kind == BEGUN:
                limit_s = self._retries.limit_s(len(running.batch.specs))
                running.deadline = None if limit_s is None else time.monotonic() + limit_s
            case (str() as kind, TrialProgressed() as event) if kind == PROGRESS:
                self._listener(event)
                with self._lock:
                    self._forkserver.reply({spec.key for spec in running.batch.specs} & self._stopped)
            case (str() as kind, TrialSaved() | TrialsNoted() as event) if kind == NEWS:
                if isinstance(event, TrialSaved):
                    self._saved[event.key] = event.content
                    self._retries.saved(event.key)
                return [event]
            case (str() as kind, results) if kind == DONE:
                self._running = None
                return self._finished(results)
            case (str() as kind, (text, trace)) if kind == BUG:
                raise bug_from_worker(text, trace)
            case _:
                pass
        return []

    def _lost(self, decide: Decision, reason: str) -> Sequence[Event]:
        """Queues the unfinished trials of the running batch again, or fails them, as `decide` says."""
        self._forkserver.kill_worker()
        running, self._running = self._running, None
        left = None if running is None else unfinished(running.batch, self._stopped)
        if left is None:
            return []
        again, given_up = decide(left, device=self._devices[left.resources])
        with self._lock:
            self._waiting.extendleft(reversed(again))
        tell_loss(_log, SLOT, left, reason, again)
        events: list[Event] = [BatchLost(keys=[spec.key for spec in left.specs], reason=reason, slot=SLOT)]
        return [*events, *self._finished(given_up)]

    def _finished(self, results: Sequence[TrialResult]) -> list[Event]:
        for result in results:
            self._saved.pop(result.key, None)
        return [TrialFinished(result=result) for result in results]
