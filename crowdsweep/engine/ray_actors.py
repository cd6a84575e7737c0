"""Runs batches on a pool of long-lived Ray actors, one for each slot."""

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import ray
from ray.exceptions import (
    ActorUnavailableError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    RaySystemError,
    RayTaskError,
)

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.devices import device_of
from crowdsweep.engine.executor import Batch, ignore
from crowdsweep.engine.ray_slot import CONTROL, News, Slot, WorkerLost, slot_options
from crowdsweep.engine.retry_policy import STARTING_S, RetryPolicy, unfinished
from crowdsweep.errors import InfeasibleRequest, SlotLost
from crowdsweep.record.events import BatchLost, Event, TrialFinished, TrialProgressed, TrialStarted
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.registry.carried import carried
from crowdsweep.sweepfile.records import Resources
from crowdsweep.trial.model_calls import MOST_CHARACTERS, legible

STILLBORN_LIMIT = 6
_WORDS_OF_NODES = ("node has died", "node is dead", "node was terminated", "running low on memory")
Decision = Callable[[Batch], tuple[list[Batch], list[TrialResult]]]

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class _Actor:
    """One slot, seen from the driver.

    Attributes:
        waits_on: what news comes by: why a new actor cannot use its device, or the stream of its batch; None when idle.
        batch: the latest that it was given.
        unfinished: those of its specs that have no result yet, by key.
        deadline: after which its batch has run too long; None for never.
    """

    name: str
    handle: Any
    waits_on: Any
    up: bool = False
    unfinished: dict[str, TrialSpec] = field(default_factory=dict)
    batch: Batch | None = None
    deadline: float | None = None


class RayExecutor:
    """A pool of actors, all of one shape, on a cluster that this process is connected to.

    When an actor or the process of its models dies, or is killed since its trials ran too long, those that it had not
    finished go back to the front of the queue as `RetryPolicy` says. Each dead actor is replaced.

    Args:
        datasets: base datasets by fingerprint; each goes to the object store when it is first needed, once.
        cluster: to run on; closed with the executor.
        resources: of one slot.
        trial_minutes: after which a trial is ended; None for never.

    Raises:
        InfeasibleRequest: the cluster has no node that such a slot fits on. `poll` raises it where a slot's torch
            cannot use the GPU that it was given.
    """

    def __init__(
        self,
        datasets: Mapping[str, CrowdDataset],
        cluster: Cluster,
        resources: Resources,
        trial_minutes: float | None = None,
    ) -> None:
        self._datasets = datasets
        self._cluster = cluster
        self._plugins = carried()
        self._options = slot_options(float(resources.cpu), float(resources.gpu))
        self._device = device_of(resources)
        self._class = ray.remote(concurrency_groups={CONTROL: 1})(Slot)  # pyright: ignore[reportCallIssue]: its stubs lack the keyword
        self._listener: Callable[[TrialProgressed], None] = ignore
        self._stored: dict[str, Any] = {}
        self._waiting: deque[Batch] = deque()
        self._stopped: set[str] = set()
        self._retries = RetryPolicy(device=self._device, trial_minutes=trial_minutes)
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
            self._cluster.check()
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
        if ray.is_initialized() and not self._cluster.is_lost:
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
        up = handle.why_unusable.options(concurrency_group=CONTROL).remote()
        return _Actor(name=next(self._names), handle=handle, waits_on=up)

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
        self._end_what_hangs()
        self._feed()

    def _advance(self, actor: _Actor) -> None:
        """Takes one piece of news from an actor: it is up, its batch has news or has ended, or it died."""
        try:
            if not actor.up:
                if reason := ray.get(actor.waits_on):
                    raise InfeasibleRequest(reason)
                actor.up, actor.waits_on = True, None
                self._stillborn = 0
                return
            try:
                reference = next(actor.waits_on)
            except StopIteration:
                actor.waits_on, actor.unfinished, actor.deadline = None, {}, None
                return
            self._take(actor, ray.get(reference))
        except RayTaskError as error:  # our own bug, not a model's: `run_batch` keeps those
            raise error.as_instanceof_cause() from None
        except RayError as error:  # the actor, its node or what it had sent is gone
            self._replace_lost(actor, error)

    def _end_what_hangs(self) -> None:
        now = time.monotonic()
        for actor in [one for one in self._actors if one.deadline is not None and now >= one.deadline]:
            ray.kill(actor.handle)
            self._actors[self._actors.index(actor)] = self._new_actor()
            self._queue_again(actor, "it ran longer than budget.trial_minutes", self._retries.after_overrun)

    def _take(self, actor: _Actor, news: Sequence[News]) -> None:
        if not news and actor.batch is not None:  # its models and data are there: the time of its trials begins
            actor.deadline = self._deadline(actor.batch, 0.0)
        for record in news:
            match record:
                case TrialProgressed():
                    self._listener(record)
                case TrialResult(key=key):
                    del actor.unfinished[key]
                    self._news.append(TrialFinished(result=record))
                case WorkerLost(reason=reason):  # the actor has another one for its next batch
                    after_death = partial(self._retries.after_death, reason=reason, blameless=False)
                    self._queue_again(actor, reason, after_death)
                    actor.unfinished = {}
        if not actor.unfinished:
            actor.deadline = None
            actor.waits_on = None  # the stream's end is not waited for: the slot takes its next batch behind it

    def _replace_lost(self, actor: _Actor, error: Exception) -> None:
        """Replaces a dead actor, and queues again what it had not finished."""
        reason = legible(str(error).partition("\n")[0], MOST_CHARACTERS)
        self._stillborn += not actor.up
        if self._stillborn >= STILLBORN_LIMIT:
            raise SlotLost(f"{STILLBORN_LIMIT} actors in a row died before they were up; the last one said: {error}")
        _log.warning("%s was lost with %d unfinished trials: %s", actor.name, len(actor.unfinished), reason)
        self._actors[self._actors.index(actor)] = self._new_actor()
        after_death = partial(self._retries.after_death, reason=reason, blameless=_is_blameless(error))
        self._queue_again(actor, reason, after_death)

    def _queue_again(self, actor: _Actor, reason: str, decide: Decision) -> None:
        if actor.batch is None:
            return
        left = unfinished(replace(actor.batch, specs=list(actor.unfinished.values())), self._stopped)
        if left is None:
            return
        again, given_up = decide(left)
        self._waiting.extendleft(reversed(again))
        self._news.append(BatchLost(keys=[spec.key for spec in left.specs], reason=reason, slot=actor.name))
        self._news += [TrialFinished(result=result) for result in given_up]

    def _deadline(self, batch: Batch, more_s: float) -> float | None:
        limit_s = self._retries.limit_s(len(batch.specs))
        return None if limit_s is None else time.monotonic() + limit_s + more_s

    def _feed(self) -> None:
        """Gives waiting batches to idle slots."""
        for actor in self._actors:
            if actor.up and actor.waits_on is None:
                batch = next(self._wanted(), None)
                if batch is None:
                    return
                actor.unfinished = {spec.key: spec for spec in batch.specs}
                actor.batch = batch
                actor.deadline = self._deadline(batch, STARTING_S)
                actor.waits_on = actor.handle.run.options(num_returns="streaming").remote(
                    batch.specs,
                    batch.dataset,
                    [self._place(batch.dataset)],
                    batch.watch,
                    says_when_it_begins=actor.deadline is not None,
                )
                self._news += [TrialStarted(key=spec.key, slot=actor.name) for spec in batch.specs]

    def _wanted(self) -> Iterator[Batch]:
        """Yields waiting batches, less the trials that were stopped meanwhile."""
        while self._waiting:
            wanted = unfinished(self._waiting.popleft(), self._stopped)
            if wanted is not None:
                yield wanted

    def _place(self, fingerprint: str) -> Any:
        if fingerprint not in self._stored:
            self._stored[fingerprint] = ray.put(self._datasets[fingerprint])
        return self._stored[fingerprint]


def _is_blameless(error: Exception) -> bool:
    """Whether a slot was lost with its node, or for want of memory there, and not by what it ran."""
    if isinstance(error, ActorUnavailableError | NodeDiedError | ObjectLostError | OutOfMemoryError | RaySystemError):
        return True
    return any(words in str(error) for words in _WORDS_OF_NODES)


def _ping(handle: Any) -> Any:
    return handle.ping.options(concurrency_group=CONTROL).remote()
