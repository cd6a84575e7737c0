"""Runs batches on a pool of long-lived Ray actors, one for each slot."""

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.errors import SlotLost
from crowdsweep.registry.carried import carried
from crowdsweep.sweep.cluster import Cluster
from crowdsweep.sweep.executor import Batch, ignore
from crowdsweep.sweep.ray_slot import CONTROL, News, Slot, slot_options
from crowdsweep.sweepfile.records import Resources
from crowdsweep.trial.events import BatchLost, Event, TrialFinished, TrialProgressed, TrialStarted
from crowdsweep.trial.result import Failure, Status, TrialResult
from crowdsweep.trial.spec import TrialSpec

LOSS_LIMIT = 3
STILLBORN_LIMIT = 6
GPU_DEVICE = "cuda:0"  # Ray shows a slot its own GPU as the first one

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Actor:
    """One slot, seen from the driver.

    Attributes:
        waits_on: what news comes by: the `ping` of a new actor, or the stream of its batch; None when idle.
        batch: the latest that it was given.
        unfinished: those of its specs that have no result yet, by key.
    """

    name: str
    handle: Any
    waits_on: Any
    up: bool = False
    unfinished: dict[str, TrialSpec] = field(default_factory=dict)
    batch: Batch | None = None


class RayExecutor:
    """A pool of actors, all of one shape, on a cluster that this process is connected to.

    When an actor dies, the trials that it had not finished go back to the front of the queue in two halves, so that
    one that kills its actor ends up alone; a trial that has killed `LOSS_LIMIT` actors while alone is failed with
    kind `SlotLost`. Each dead actor is replaced.

    Args:
        datasets: base datasets by fingerprint; each goes to the object store when it is first needed, once.
        cluster: to run on; closed with the executor.
        resources: of one slot.

    Raises:
        InfeasibleRequest: the cluster has no node that such a slot fits on.
    """

    def __init__(self, datasets: Mapping[str, CrowdDataset], cluster: Cluster, resources: Resources) -> None:
        self._datasets = datasets
        self._cluster = cluster
        self._plugins = carried()
        self._options = slot_options(float(resources.cpu), float(resources.gpu))
        self._device = GPU_DEVICE if resources.gpu > 0 else "cpu"
        self._class = ray.remote(concurrency_groups={CONTROL: 1})(Slot)  # pyright: ignore[reportCallIssue]: its stubs lack the keyword
        self._listener: Callable[[TrialProgressed], None] = ignore
        self._stored: dict[str, Any] = {}
        self._waiting: deque[Batch] = deque()
        self._stopped: set[str] = set()
        self._lost_alone: dict[str, int] = {}
        self._stillborn = 0
        self._news: list[Event] = []
        self._names = (f"slot-{number}" for number in itertools.count())
        self._slots = cluster.slots(resources)
        self._actors = [self._new_actor() for _ in range(self._slots)]

    @property
    def slots(self) -> int:
        return self._slots

    def submit(self, batch: Batch) -> None:
        """See `Executor.submit`."""
        self._stopped.difference_update(spec.key for spec in batch.specs)
        self._waiting.append(batch)
        self._feed()

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """See `Executor.poll`."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._collect(0.0 if self._news else max(0.0, deadline - time.monotonic()))
            if self._news or time.monotonic() >= deadline or not (self._waiting or self.running):
                news, self._news = self._news, []
                return news

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        """See `Executor.listen`."""
        self._listener = listener

    def stop(self, key: str) -> None:
        """See `Executor.stop`."""
        self._stopped.add(key)
        for actor in self._actors:
            if key in actor.unfinished:
                actor.handle.stop.options(concurrency_group=CONTROL).remote(key)

    def close(self) -> None:
        """See `Executor.close`."""
        self._waiting.clear()
        if ray.is_initialized():
            for actor in self._actors:
                ray.kill(actor.handle)
        self._actors = []
        self._cluster.close()

    @property
    def running(self) -> bool:
        """Whether any slot has a batch."""
        return any(actor.unfinished for actor in self._actors)

    def process_ids(self) -> list[int]:
        """Returns the process ids of the slots that are up, for diagnosis and for tests that kill them."""
        return [ray.get(_ping(actor.handle)) for actor in self._actors if actor.up]

    def _new_actor(self) -> _Actor:
        handle = self._class.options(**self._options).remote(self._device, self._plugins)
        return _Actor(name=next(self._names), handle=handle, waits_on=_ping(handle))

    def _collect(self, timeout_s: float) -> None:
        """Waits for the first news of any actor and takes all there are."""
        by_source = {actor.waits_on: actor for actor in self._actors if actor.waits_on is not None}
        if not by_source:
            return
        ready, _ = ray.wait(list(by_source), num_returns=1, timeout=timeout_s)
        if ready and len(by_source) > 1:
            ready, _ = ray.wait(list(by_source), num_returns=len(by_source), timeout=0)
        for source in ready:
            self._advance(by_source[source])
        self._feed()

    def _advance(self, actor: _Actor) -> None:
        """Takes one piece of news from an actor: it is up, its batch has news or has ended, or it died."""
        try:
            if not actor.up:
                ray.get(actor.waits_on)
                actor.up, actor.waits_on = True, None
                self._stillborn = 0
                return
            try:
                reference = next(actor.waits_on)
            except StopIteration:
                actor.waits_on, actor.unfinished = None, {}
                return
            self._take(actor, ray.get(reference))
        except RayTaskError as error:  # our own bug, not a model's: `run_batch` keeps those
            raise error.as_instanceof_cause() from None
        except RayError as error:  # the actor, its node or what it had sent is gone
            self._replace_lost(actor, error)

    def _take(self, actor: _Actor, news: Sequence[News]) -> None:
        for record in news:
            match record:
                case TrialProgressed():
                    self._listener(record)
                case TrialResult(key=key):
                    del actor.unfinished[key]
                    self._news.append(TrialFinished(result=record))
        if not actor.unfinished:
            actor.waits_on = None  # the stream's end is not waited for: the slot takes its next batch behind it

    def _replace_lost(self, actor: _Actor, error: Exception) -> None:
        """Replaces a dead actor, and queues again what it had not finished."""
        specs = [spec for key, spec in actor.unfinished.items() if key not in self._stopped]
        reason = str(error).splitlines()[0]
        self._stillborn += not actor.up
        if self._stillborn >= STILLBORN_LIMIT:
            raise SlotLost(f"{STILLBORN_LIMIT} actors in a row died before they were up; the last one said: {error}")
        _log.warning("%s was lost with %d unfinished trials: %s", actor.name, len(specs), reason)
        self._actors[self._actors.index(actor)] = self._new_actor()
        if not specs or actor.batch is None:
            return
        self._news.append(BatchLost(keys=[spec.key for spec in specs], reason=reason, slot=actor.name))
        if len(specs) > 1:
            middle = len(specs) // 2
            for half in (specs[middle:], specs[:middle]):
                self._waiting.appendleft(replace(actor.batch, specs=half))
            return
        key = specs[0].key
        self._lost_alone[key] = self._lost_alone.get(key, 0) + 1
        if self._lost_alone[key] < LOSS_LIMIT:
            self._waiting.appendleft(replace(actor.batch, specs=specs))
        else:
            message = f"its actor died {LOSS_LIMIT} times while it ran alone; the last time: {reason}"
            failure = Failure(kind="SlotLost", message=message)
            self._news.append(
                TrialFinished(result=TrialResult(key=key, status=Status.FAILED, device=self._device, failure=failure))
            )

    def _feed(self) -> None:
        """Gives waiting batches to idle slots."""
        for actor in self._actors:
            if actor.up and actor.waits_on is None:
                batch = next(self._wanted(), None)
                if batch is None:
                    return
                actor.unfinished = {spec.key: spec for spec in batch.specs}
                actor.batch = batch
                actor.waits_on = actor.handle.run.options(num_returns="streaming").remote(
                    batch.specs, batch.dataset, [self._place(batch.dataset)], batch.watch
                )
                self._news += [TrialStarted(key=spec.key, slot=actor.name) for spec in batch.specs]

    def _wanted(self) -> Iterator[Batch]:
        """Yields waiting batches, less the trials that were stopped meanwhile."""
        while self._waiting:
            batch = self._waiting.popleft()
            specs = [spec for spec in batch.specs if spec.key not in self._stopped]
            if specs:
                yield replace(batch, specs=specs)

    def _place(self, fingerprint: str) -> Any:
        if fingerprint not in self._stored:
            self._stored[fingerprint] = ray.put(self._datasets[fingerprint])
        return self._stored[fingerprint]


def _ping(handle: Any) -> Any:
    return handle.ping.options(concurrency_group=CONTROL).remote()
