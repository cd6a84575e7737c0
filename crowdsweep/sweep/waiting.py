"""Trials that wait for a slot, by what they ask for: what is reported first, and each group cut into batches."""

from collections import deque
from collections.abc import Sequence

from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweepfile.records import Resources
from crowdsweep.trial.learning_curve import CurveSpec


class Waiting:
    """Groups of trials, each of one cell, in the order in which they came; False when there are none.

    Args:
        pack: most trials of a batch.
    """

    def __init__(self, pack: int) -> None:
        self._pack = pack
        self._queues: dict[Resources | None, tuple[deque[_Group], deque[_Group]]] = {}
        self._trials: dict[Resources | None, int] = {}

    def __bool__(self) -> bool:
        return any(self._trials.values())

    @property
    def shapes(self) -> list[Resources | None]:
        """What is asked for by trials that wait."""
        return [shape for shape, trials in self._trials.items() if trials]

    def add(
        self, specs: Sequence[TrialSpec], curve_spec: CurveSpec, resources: Resources | None, *, whole: bool = False
    ) -> None:
        """Queues the trials of one cell; `whole`: they are not spread over idle slots, as what each costs hangs on how
        many run as one batch."""
        reported, searched = self._queues.setdefault(resources, (deque(), deque()))
        (reported if specs[0].phase == "report" else searched).append((list(specs), curve_spec, whole))
        self._trials[resources] = self._trials.get(resources, 0) + len(specs)

    def take(self, resources: Resources | None, idle: int) -> tuple[list[TrialSpec], CurveSpec] | None:
        """Takes the trials of the next batch; None where none wait. What waits is spread over the idle slots.

        Args:
            resources: what the batch asks for.
            idle: how many of its slots have nothing to do.
        """
        if not self._trials.get(resources):
            return None
        reported, searched = self._queues[resources]
        queue = reported or searched
        specs, curve_spec, whole = queue.popleft()
        size = self._pack if whole else min(self._pack, max(1, -(-self._trials[resources] // max(1, idle))))
        taken, left = specs[:size], specs[size:]
        if left:
            queue.appendleft((left, curve_spec, whole))
        self._trials[resources] -= len(taken)
        return taken, curve_spec


_Group = tuple[list[TrialSpec], CurveSpec, bool]
