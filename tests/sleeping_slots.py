"""Slots that only sleep: each is a call of an asynchronous actor, so that a few processes stand for a thousand.

All else is the engine's: what chooses, feeds and hears slots cannot tell these from those that run models.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import ray

from crowdsweep.engine import ray_process
from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.executor import Batch
from crowdsweep.engine.ray_slot import CONTROL
from crowdsweep.engine.sharing import Sharing
from crowdsweep.engine.slot_pool import Actor, SlotPool
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.registry.plugin_transfer import PluginFolder
from crowdsweep.resources import Resources

BEGAN, ENDED = "began", "ended"
"""Metrics of a trial that slept: seconds since the epoch."""
_MOST_AT_ONCE = 2000


class SleepingSlots:
    """Many slots of one process; has the methods of `Slot`.

    Args:
        sleep_s: how long a batch takes.
    """

    def __init__(self, sleep_s: float) -> None:
        self._sleep_s = sleep_s

    async def run(self, batch: Batch, *_: Any, **__: Any) -> AsyncIterator[list[TrialResult]]:
        """Sleeps, and yields results that say when."""
        began = time.time()
        await asyncio.sleep(self._sleep_s)
        when = {BEGAN: began, ENDED: time.time()}
        yield [TrialResult(key=spec.key, status=Status.OK, metrics=when) for spec in batch.specs]

    async def stop(self, key: str) -> None:
        """No sleep is broken off."""

    async def why_unusable(self) -> str:
        """No device is needed for sleeping."""
        return ""


def sleeping_slots(sleep_s: float) -> Any:
    """Starts a process of sleeping slots, which takes no CPU of the cluster, and returns its handle."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it
    kind = ray.remote(concurrency_groups={CONTROL: 1}, max_concurrency=_MOST_AT_ONCE)(SleepingSlots)
    return kind.options(num_cpus=0).remote(sleep_s)


class SleepingPool(SlotPool):
    """Slots that share processes.

    Args:
        cluster: that they lie on; its CPUs need not exist.
        plugins, sharing: as for `SlotPool`.
        sleep_s: how long a batch takes.
        processes: how many there are.
    """

    def __init__(
        self,
        cluster: Cluster,
        plugins: Sequence[PluginFolder] | None = None,
        sharing: Sharing | None = None,
        *,
        sleep_s: float,
        processes: int,
    ) -> None:
        super().__init__(cluster, plugins, sharing)
        self._processes = [sleeping_slots(sleep_s) for _ in range(processes)]

    def _started(self, shape: Resources, node: str) -> Actor:
        handle = self._processes[len(self.actors) % len(self._processes)]
        up = handle.why_unusable.options(concurrency_group=CONTROL).remote()
        return Actor(name=next(self._names), handle=handle, shape=shape, node=node, waits_on=up)

    def end(self, actor: Actor) -> None:
        """Forgets a slot; its process is others' as well."""
        self.forget(actor)

    def close(self) -> None:
        """Ends the processes too."""
        super().close()
        for handle in self._processes:
            ray.kill(handle)


def serve(number: int, *, sleep_s: float, processes: int) -> None:
    """Does what `ray_process.serve` does, with slots that sleep."""
    ray_process.serve(number, partial(SleepingPool, sleep_s=sleep_s, processes=processes))
