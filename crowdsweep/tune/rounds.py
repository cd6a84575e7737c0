"""Scores of several seeds, which come one by one, as one curve of their means."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev


@dataclass(frozen=True, kw_only=True)
class Round:
    """One step of all seeds.

    Attributes:
        step: epochs or EM steps made.
        mean: of the seeds' scores; of one that had ended before, its last.
        deviation: their standard deviation.
    """

    step: int
    mean: float
    deviation: float


class Rounds:
    """Puts the scores of a batch together.

    The seeds of a batch report in turn at each step, or one seed after another to its end, or parts of the batch do so.
        A step is passed on once every seed has begun and it is known which take part in it: each has reached it, or the
        seed that reports is beyond it.

    Args:
        keys: of the trials.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._scores: dict[str, dict[int, float]] = {key: {} for key in keys}
        self._told = 0

    def take(self, key: str, step: int, score: float) -> list[Round]:
        """Takes a score, and returns the steps that can be told now, in their order."""
        self._scores[key][step] = score
        if not all(self._scores.values()):
            return []
        together = min(max(own) for own in self._scores.values())
        return self._upto(max(step - 1, min(step, together)))

    def rest(self) -> list[Round]:
        """Returns what has not been told, once the batch has ended; of trials without a score nothing."""
        self._scores = {key: own for key, own in self._scores.items() if own}
        return self._upto(max((max(own) for own in self._scores.values()), default=0))

    def _upto(self, last: int) -> list[Round]:
        steps = sorted({step for own in self._scores.values() for step in own if self._told < step <= last})
        self._told = max([self._told, *steps])
        return [self._at(step) for step in steps]

    def _at(self, step: int) -> Round:
        known = [[score for at, score in own.items() if at <= step] for own in self._scores.values()]
        latest = [own[-1] for own in known if own]
        return Round(step=step, mean=fmean(latest), deviation=pstdev(latest))
