"""The trials that wait for a slot, and the trials that an executor has been given."""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from crowdsweep.models import registered
from crowdsweep.record.spec import TrialSpec
from crowdsweep.resources import Resources
from crowdsweep.trial.learning_curve import CurveSpec

_Group = tuple[list[TrialSpec], CurveSpec, bool]


class Waiting:
    """Groups of trials, each of one point, in the order of their arrival; false when there are none.

    Args:
        pack: largest number of trials in a batch.
    """

    def __init__(self, pack: int) -> None:
        self._pack = pack
        self._queues: dict[Resources, tuple[deque[_Group], deque[_Group]]] = {}
        self._trials: dict[Resources, int] = {}

    def __bool__(self) -> bool:
        return any(self._trials.values())

    @property
    def shapes(self) -> list[Resources]:
        """The resources that waiting trials ask for."""
        return [shape for shape, trials in self._trials.items() if trials]

    def add(
        self, specs: Sequence[TrialSpec], curve_spec: CurveSpec, resources: Resources, *, whole: bool = False
    ) -> None:
        """Queues the trials of one point.

        With `whole`, they are not spread over idle slots, nor joined by those of other points, since the cost of each
        depends on how many run in one batch.
        """
        reported, searched = self._queues.setdefault(resources, (deque(), deque()))
        (reported if specs[0].phase == "report" else searched).append((list(specs), curve_spec, whole))
        self._trials[resources] = self._trials.get(resources, 0) + len(specs)

    def take(self, resources: Resources, idle: int) -> tuple[list[TrialSpec], CurveSpec] | None:
        """Takes the trials of the next batch; None where none wait. The waiting trials are spread over the idle slots.

        The next points of a search join whose trials can be fitted together with the first one's (`ModelInfo.varies`),
        as long as all of theirs fit into the batch. Those of the report do not: their times are compared.

        Args:
            idle: number of idle slots with these resources.
        """
        if not self._trials.get(resources):
            return None
        reported, searched = self._queues[resources]
        queue = reported or searched
        specs, curve_spec, whole = queue.popleft()
        size = self._pack if whole else min(self._pack, max(1, -(-self._trials[resources] // max(1, idle))))
        while queue and not whole and len(specs) + len(queue[0][0]) <= size and _may_join(queue[0], specs, curve_spec):
            more, further, _ = queue.popleft()
            specs, curve_spec = [*specs, *more], replace(curve_spec, bars={**curve_spec.bars, **further.bars})
        taken, left = specs[:size], specs[size:]
        if left:
            queue.appendleft((left, curve_spec, whole))
        self._trials[resources] -= len(taken)
        return taken, curve_spec


def _may_join(group: _Group, specs: Sequence[TrialSpec], curve_spec: CurveSpec) -> bool:
    """Whether the trials of a group, which waits, can be fitted together with these."""
    (other, *_), further, whole = group
    first = specs[0]
    if whole or first.phase == "report" or replace(further, bars={}) != replace(curve_spec, bars={}):
        return False
    if any(getattr(other, name) != getattr(first, name) for name in ("model", "fingerprint", "dataset_params")):
        return False
    varied = registered.model_info(first.model).varies
    return bool(varied) and other.batch_key(varied) == first.batch_key(varied)


class InFlight:
    """Keys of trials that were submitted and have not finished; false when there are none.

    Each query costs the same, however many trials there are.
    """

    def __init__(self) -> None:
        self._batch_of: dict[str, int] = {}  # key → number of its batch
        self._left: dict[int, int] = {}  # number of a batch → trials of it that have not finished
        self._shape_of: dict[int, Resources] = {}  # number of a batch → what it asked for
        self._batches: Counter[Resources] = Counter()
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._batch_of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch_of)

    def __contains__(self, key: str) -> bool:
        return key in self._batch_of

    def batches(self, shape: Resources) -> int:
        """Returns the number of batches that asked for these resources and have unfinished trials."""
        return self._batches[shape]

    def add(self, specs: Sequence[TrialSpec], shape: Resources) -> None:
        """Adds the trials of a batch."""
        self._numbered += 1
        self._batch_of.update((spec.key, self._numbered) for spec in specs)
        self._left[self._numbered], self._shape_of[self._numbered] = len(specs), shape
        self._batches[shape] += 1

    def remove(self, key: str) -> None:
        """Removes a trial that is over; a key that is not there is ignored."""
        number = self._batch_of.pop(key, None)
        if number is None:
            return
        self._left[number] -= 1
        if not self._left[number]:
            del self._left[number]
            self._batches[self._shape_of.pop(number)] -= 1
