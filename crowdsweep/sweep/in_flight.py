"""Trials that an executor has been given, and how many batches of each shape they make: counted as they come and go."""

from collections import Counter
from collections.abc import Iterator, Sequence

from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweepfile.records import Resources


class InFlight:
    """The keys of trials that were submitted and have not finished; False when there are none.

    Each question costs the same however many there are.
    """

    def __init__(self) -> None:
        self._batch_of: dict[str, int] = {}  # key → number of its batch
        self._left: dict[int, int] = {}  # number of a batch → trials of it that have not finished
        self._shape_of: dict[int, Resources | None] = {}  # number of a batch → what it asked for
        self._batches: Counter[Resources | None] = Counter()
        self._numbered = 0

    def __len__(self) -> int:
        return len(self._batch_of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch_of)

    def __contains__(self, key: str) -> bool:
        return key in self._batch_of

    def batches(self, shape: Resources | None) -> int:
        """Returns how many batches that asked for such a slot have a trial left."""
        return self._batches[shape]

    def add(self, specs: Sequence[TrialSpec], shape: Resources | None) -> None:
        """Notes a batch."""
        self._numbered += 1
        self._batch_of.update((spec.key, self._numbered) for spec in specs)
        self._left[self._numbered], self._shape_of[self._numbered] = len(specs), shape
        self._batches[shape] += 1

    def remove(self, key: str) -> None:
        """Notes that a trial is over; of one that is not there nothing is known."""
        number = self._batch_of.pop(key, None)
        if number is None:
            return
        self._left[number] -= 1
        if not self._left[number]:
            del self._left[number]
            self._batches[self._shape_of.pop(number)] -= 1
