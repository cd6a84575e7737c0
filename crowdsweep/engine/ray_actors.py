"""The executor on Ray: runs batches on a pool of long-lived actors, one per slot."""

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from crowdsweep.engine.batch_queue import BatchQueue
from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.devices import refusal
from crowdsweep.engine.executor import Batch, ignore
from crowdsweep.engine.ray_slot import CONTROL, Update, WorkerLost
from crowdsweep.engine.retry_policy import STARTING_S, Decision, RetryPolicy, tell_loss, unfinished
from crowdsweep.engine.slot_pool import LOOKS_S, Actor, SlotPool, ping
from crowdsweep.errors import BadInput, InfeasibleRequest
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
from crowdsweep.trial.model_calls import MOST_CHARACTERS, legible

GROWTH = 4
"""On a cluster with an autoscaler, `slots_for` adds this number, or the number of slots if that is larger.

Batches that wait are what makes the autoscaler add nodes.
"""
_BEGINNING = "error raised in its creation task"
_BAD_INPUT = f"{BadInput.__module__}.{BadInput.__name__}"
_REPEATED = (_BAD_INPUT, "ModuleNotFoundError", "ImportError")  # which another slot on the node would begin with too
_LOW_ON_MEMORY = "running low on memory"
_MEMORY_USED = re.compile(r"was (\S+) used / (\S+) limit")
_NEED_LESS = "a smaller `pack`, or more CPUs for a slot (`resources`), need less"
_WORDS_OF_NODES = ("node has died", "node is dead", "node was terminated", _LOW_ON_MEMORY, "unschedulable")

_log = logging.getLogger(__name__)


class RayExecutor:
    """Executor whose slots are actors on a Ray cluster that this process is connected to.

    The slots follow the cluster's nodes and the waiting batches (`SlotPool`). An actor or its worker process may die,
    or is killed where its trials run too long. Its unfinished trials then go back to the front of the queue as
    `RetryPolicy` says.

    Args:
        datasets: base datasets by fingerprint; each is put into the object store once, when it is first needed.
        cluster: the cluster; closed with the executor.
        resources: those that batches may ask for, the sweep's first.
        trial_minutes: minutes after which a trial is ended; None for no limit.
        make_pool: makes the pool of slots.

    Raises:
        InfeasibleRequest: for one of the resources, a slot fits on no node of the cluster, and there is no autoscaler.
            `poll` raises it where batches need a GPU and no node has one that torch can use. `poll` also raises it
            where no slot starts on any node that has what some batches ask for.
    """

    def __init__(
        self,
        datasets: Mapping[str, CrowdDataset],
        cluster: Cluster,
        resources: Sequence[Resources] = (Resources(),),
        trial_minutes: float | None = None,
        make_pool: Callable[[Cluster], SlotPool] = SlotPool,
    ) -> None:
        cluster.check_room(*resources)
        self._datasets = datasets
        self._cluster = cluster
        self._asked = resources
        self._need_gpus = [asked for asked in resources if asked.gpu > 0 and asked.gpu_needed]
        self._pool = make_pool(cluster)
        self._listener: Callable[[TrialProgressed], None] = ignore
        self._stored: dict[str, Any] = {}
        self._waiting = BatchQueue()
        self._stopped: set[str] = set()
        self._saved: dict[str, Any] = {}  # references to the latest checkpoints of unfinished trials, by key
        self._retries = RetryPolicy(trial_minutes=trial_minutes)
        self._events: list[Event] = []

    def slots_for(self, resources: Resources | None = None) -> int:
        """See `Executor.slots_for`."""
        fit = self._pool.fit(resources or self._asked[0])
        return fit + max(GROWTH, fit) if self._pool.may_grow else fit

    def submit(self, batch: Batch) -> None:
        """See `Executor.submit`."""
        self._stopped.difference_update(spec.key for spec in batch.specs)
        self._saved.update((key, ray.put(content)) for key, content in batch.saved.items())
        self._waiting.add(replace(batch, saved={}))  # `_dispatch` passes the references in `_saved` on

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """See `Executor.poll`."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._cluster.check()
            self._dispatch()
            self._pool.adjust(self._waiting.counts())
            self._collect(0.0 if self._events else max(0.0, deadline - time.monotonic()))
            if self._events or time.monotonic() >= deadline or not (self._waiting or self.running):
                events, self._events = self._events, []
                return events

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        """See `Executor.listen`."""
        self._listener = listener

    def stop(self, key: str) -> None:
        """See `Executor.stop`."""
        self._stopped.add(key)
        for actor in self._pool.actors:
            if key in actor.unfinished:
                actor.handle.stop.options(concurrency_group=CONTROL).remote(key)

    def close(self) -> None:
        """See `Executor.close`."""
        self._waiting.clear()
        if ray.is_initialized() and not self._cluster.is_lost:
            self._pool.close()
        self._pool.actors = []
        self._cluster.close()

    @property
    def running(self) -> bool:
        """Whether any slot has a batch."""
        return any(actor.unfinished for actor in self._pool.actors)

    def process_ids(self) -> list[int]:
        """Returns the process ids of the slots that are up, for diagnosis and for tests that kill them."""
        return [ray.get(ping(actor.handle)) for actor in self._pool.actors if actor.up]

    def _collect(self, timeout_s: float) -> None:
        """Waits at most `timeout_s` for the first update of any actor, and handles all that have come."""
        by_source = {actor.waits_on: actor for actor in self._pool.actors if actor.waits_on is not None}
        if not by_source:
            time.sleep(min(timeout_s, LOOKS_S))  # until a node may have joined
            return
        sources = list(by_source)
        ready, _ = ray.wait(sources, num_returns=len(sources), timeout=0)
        if not ready and timeout_s > 0:
            patience_s = min(timeout_s, LOOKS_S) if self._waiting else timeout_s
            ready, _ = ray.wait(sources, num_returns=1, timeout=patience_s)
        for source in ready:
            self._advance(by_source[source])
        self._end_what_hangs()
        self._dispatch()

    def _advance(self, actor: Actor) -> None:
        """Handles one update of an actor: it is up, its batch has progressed or ended, or it died."""
        try:
            if not actor.up:
                reason: str = ray.get(actor.waits_on)
                if reason:
                    self._do_without(actor, refusal(actor.device, reason, actor.host))
                    return
                self._pool.is_up(actor)
                return
            try:
                reference = next(actor.waits_on)
            except StopIteration:
                actor.waits_on, actor.unfinished, actor.deadline = None, {}, None
                actor.idle_since = time.monotonic()
                return
            self._take(actor, ray.get(reference))
        except RayTaskError as error:  # a bug of crowdsweep; `run_batch` catches those of models
            raise error.as_instanceof_cause() from None
        except RayError as error:  # the actor, its node or an object that it sent is lost
            self._replace_lost(actor, error)

    def _do_without(self, actor: Actor, reason: str) -> None:
        """Ends a slot whose GPU cannot be used; its node gets no further slot with a GPU.

        Raises:
            InfeasibleRequest: no other node has a GPU for the batches that need one.
        """
        is_news = self._pool.do_without_gpus_of(actor)
        if not all(map(self._pool.fit, self._need_gpus)):
            nodes = self._pool.without_gpus
            raise InfeasibleRequest(f"{reason}. So it is on {', '.join(nodes)}" if len(nodes) > 1 else reason)
        if is_news:
            _log.warning("%s. No slot with a GPU is started on this node any more; the sweep continues", reason)

    def _end_what_hangs(self) -> None:
        now = time.monotonic()
        for actor in [one for one in self._pool.actors if one.deadline is not None and now >= one.deadline]:
            self._pool.end(actor)
            self._queue_again(actor, "it ran longer than budget.trial_minutes", self._retries.after_overrun)

    def _take(self, actor: Actor, updates: Sequence[Update]) -> None:
        if not updates and actor.batch is not None:  # models and data are loaded: the trials' time begins
            actor.deadline = self._deadline(actor.batch, 0.0)
        for record in updates:
            match record:
                case TrialProgressed():
                    self._listener(record)
                case TrialResult(key=key):
                    del actor.unfinished[key]
                    self._finish(replace(record, host=actor.host or record.host))  # of two nodes on a host, which
                case TrialSaved(key=key, content=content):
                    self._saved[key] = ray.put(content)  # on the driver's node, so that it outlives the slot's node
                    self._retries.saved(key)
                    self._events.append(record)
                case TrialsNoted():
                    self._events.append(record)
                case WorkerLost(reason=reason):  # the actor makes another worker for its next batch
                    after_death = partial(self._retries.after_death, reason=reason)
                    self._queue_again(actor, reason, after_death)
                    actor.unfinished = {}
        if not actor.unfinished:
            actor.deadline = None
            actor.idle_since = time.monotonic()
            actor.waits_on = None  # the stream's end need not be awaited: the actor queues its next batch

    def _replace_lost(self, actor: Actor, error: Exception) -> None:
        """Removes a dead actor and queues its unfinished trials again; the pool starts another actor when needed."""
        blameless = _is_blameless(error)
        if not actor.up and (not blameless or _lacks_memory(error)):  # a next actor there would end alike
            self._do_without_node(actor, error)
            return
        with_node = blameless and not _lacks_memory(error)
        reason = legible(str(error).partition("\n")[0], MOST_CHARACTERS)
        _log.debug("%s was lost: %s", actor.name, reason)
        if with_node:
            reason = f"its node {actor.host} is gone"
        elif blameless:
            used = _MEMORY_USED.search(str(error))
            amounts = f" ({used[1]} of {used[2]} used)" if used else ""
            reason = f"Ray ended it, as its node {actor.host} ran low on memory{amounts}: {_NEED_LESS}"
        self._pool.forget(actor)
        after_death = partial(self._retries.after_death, reason=reason, blameless=blameless, with_node=with_node)
        taken_back = blameless and actor.node in self._pool.drained
        self._queue_again(actor, reason, self._retries.after_notice if taken_back else after_death)

    def _do_without_node(self, actor: Actor, error: Exception) -> None:
        """Removes a slot that ended before it was up; a node on which no slot starts gets no further one.

        Raises:
            InfeasibleRequest: no other node has what some batches ask for.
        """
        reason = _why_stillborn(error)
        self._pool.forget(actor)
        at_once = reason.startswith(_REPEATED)
        reason = legible(reason.removeprefix(f"{_BAD_INPUT}: "), MOST_CHARACTERS)
        why = self._pool.do_without_node_of(actor, reason, at_once=at_once)
        if why and any(map(self._pool.lost_with_nodes, self._asked)):
            raise InfeasibleRequest(
                f"expected a node on which trials can run, found none that has what they need: "
                f"{'; '.join(self._pool.useless)}. Correct this (clusters/Dockerfile has what a node needs), and run "
                f"the sweep again: what has finished is kept"
            )
        if why:
            _log.warning("no slot is started on this node any more; the sweep continues without it: %s", why)

    def _queue_again(self, actor: Actor, reason: str, decide: Decision) -> None:
        if actor.batch is None:
            return
        left = unfinished(replace(actor.batch, specs=list(actor.unfinished.values())), self._stopped)
        if left is None:
            return
        again, given_up = decide(left, device=actor.device)
        self._waiting.add_first(again)
        tell_loss(_log, actor.name, left, reason, again)
        self._events.append(BatchLost(keys=[spec.key for spec in left.specs], reason=reason, slot=actor.name))
        for result in given_up:
            self._finish(result)

    def _finish(self, result: TrialResult) -> None:
        self._saved.pop(result.key, None)
        self._events.append(TrialFinished(result=result))

    def _deadline(self, batch: Batch, more_s: float) -> float | None:
        limit_s = self._retries.limit_s(len(batch.specs))
        return None if limit_s is None else time.monotonic() + limit_s + more_s

    def _dispatch(self) -> None:
        """Sends waiting batches to idle slots of matching shapes."""
        for actor in self._pool.actors if self._waiting else ():
            if actor.is_idle and (batch := self._wanted(actor)) is not None:
                actor.unfinished = {spec.key: spec for spec in batch.specs}
                actor.batch = batch
                actor.deadline = self._deadline(batch, STARTING_S)
                actor.waits_on = actor.handle.run.options(num_returns="streaming").remote(
                    batch,
                    [self._place(batch.dataset)],
                    {spec.key: [self._saved[spec.key]] for spec in batch.specs if spec.key in self._saved},
                    reports_begin=actor.deadline is not None,
                )
                self._events += [TrialStarted(key=spec.key, slot=actor.name) for spec in batch.specs]

    def _wanted(self, actor: Actor) -> Batch | None:
        """Takes the first waiting batch that can run on a slot, without trials that were stopped; None for none."""
        while (batch := self._waiting.take(actor.takes)) is not None:
            if (wanted := unfinished(batch, self._stopped)) is not None:
                return wanted
        return None

    def _place(self, fingerprint: str) -> Any:
        if fingerprint not in self._stored:
            self._stored[fingerprint] = ray.put(self._datasets[fingerprint])
        return self._stored[fingerprint]


def _why_stillborn(error: Exception) -> str:
    """Returns why a slot ended before it was up: the last line of Python's traceback, else the first of Ray's error."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1] if _BEGINNING in str(error) else lines[0]


def _lacks_memory(error: Exception) -> bool:
    """Whether a slot was ended for lack of memory on its node."""
    return isinstance(error, OutOfMemoryError) or _LOW_ON_MEMORY in str(error)


def _is_blameless(error: Exception) -> bool:
    """Whether a slot was lost with its node or for lack of memory there, and not through its trials."""
    if isinstance(error, ActorUnavailableError | NodeDiedError | ObjectLostError | OutOfMemoryError | RaySystemError):
        return True
    return any(words in str(error) for words in _WORDS_OF_NODES)
