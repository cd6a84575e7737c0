"""A queue of the batches that wait for a slot, grouped by resources: no operation gets slower as more batches wait."""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from crowdsweep.engine.executor import Batch
from crowdsweep.resources import Resources


class BatchQueue:
    """Queue of batches, first in, first out; batches that run again come first. Falsy when it is empty."""

    def __init__(self) -> None:
        self._queues: dict[Resources, deque[tuple[int, Batch]]] = {}
        self._later = itertools.count(1)
        # Numbers that descend from 0 stand before all that ascend from 1: no batch has to be numbered again.
        self._earlier = itertools.count(0, -1)

    def __bool__(self) -> bool:
        return any(self._queues.values())

    def add(self, batch: Batch) -> None:
        """Queues a batch behind all others."""
        self._queue(batch).append((next(self._later), batch))

    def add_first(self, batches: Sequence[Batch]) -> None:
        """Queues batches before all others, in the order given."""
        for batch in reversed(batches):
            self._queue(batch).appendleft((next(self._earlier), batch))

    def take(self, runs: Callable[[Resources], bool]) -> Batch | None:
        """Removes and returns the first batch for whose resources `runs` is true; None where there is none."""
        fitting = [queue for resources, queue in self._queues.items() if queue and runs(resources)]
        return min(fitting, key=lambda queue: queue[0][0]).popleft()[1] if fitting else None

    def counts(self) -> Mapping[Resources, int]:
        """Returns the number of waiting batches by resources, in the order of the first batch of each."""
        waiting = [(resources, queue) for resources, queue in self._queues.items() if queue]
        return {resources: len(queue) for resources, queue in sorted(waiting, key=lambda one: one[1][0][0])}

    def clear(self) -> None:
        """Removes all batches."""
        self._queues.clear()

    def _queue(self, batch: Batch) -> deque[tuple[int, Batch]]:
        return self._queues.setdefault(batch.resources, deque())
