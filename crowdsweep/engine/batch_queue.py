"""Batches that wait for a slot, by the resources that they ask for: each question costs the same however many wait."""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from crowdsweep.engine.executor import Batch
from crowdsweep.sweepfile.records import Resources


class BatchQueue:
    """Batches in the order in which they came, those that run again first; False when there are none.

    Args:
        default: what batches ask for that say nothing.
    """

    def __init__(self, default: Resources) -> None:
        self._default = default
        self._queues: dict[Resources, deque[tuple[int, Batch]]] = {}
        self._later = itertools.count(1)
        self._earlier = itertools.count(0, -1)

    def __bool__(self) -> bool:
        return any(self._queues.values())

    def add(self, batch: Batch) -> None:
        """Queues a batch behind all others."""
        self._queue(batch).append((next(self._later), batch))

    def add_first(self, batches: Sequence[Batch]) -> None:
        """Queues batches before all others, the first of them first."""
        for batch in reversed(batches):
            self._queue(batch).appendleft((next(self._earlier), batch))

    def take(self, runs: Callable[[Resources], bool]) -> Batch | None:
        """Takes the first batch whose resources somebody can run; None where there is none."""
        fitting = [queue for resources, queue in self._queues.items() if queue and runs(resources)]
        return min(fitting, key=lambda queue: queue[0][0]).popleft()[1] if fitting else None

    def counts(self) -> Mapping[Resources, int]:
        """Returns how many batches wait for each kind of resources, the kind of the first batch first."""
        waiting = [(resources, queue) for resources, queue in self._queues.items() if queue]
        return {resources: len(queue) for resources, queue in sorted(waiting, key=lambda one: one[1][0][0])}

    def clear(self) -> None:
        """Drops all."""
        self._queues.clear()

    def _queue(self, batch: Batch) -> deque[tuple[int, Batch]]:
        return self._queues.setdefault(batch.resources or self._default, deque())
