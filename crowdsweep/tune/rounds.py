"""Combines the scores of several seeds, which arrive one by one, into one curve of their means."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev


@dataclass(frozen=True, kw_only=True)
class Round:
    """Scores of all seeds at one step.

    Attributes:
        step: number of epochs or EM steps.
        mean: mean of the seeds' scores; a seed that ended before this step counts with its last score.
        deviation: standard deviation of these scores.
    """

    step: int
    mean: float
    deviation: float


class Rounds:
    """Combines the scores of a batch's trials, one for each seed, step by step.

    The seeds of a batch report in turn at each step, or one seed after another to its end, or parts of the batch do so.
    A step is returned once every seed has a score and it is known which seeds take part in the step: all of them have
    reached it, or the seed that reports is beyond it.

    Args:
        keys: keys of the trials.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._scores: dict[str, dict[int, float]] = {key: {} for key in keys}
        self._told = 0

    def take(self, key: str, step: int, score: float) -> list[Round]:
        """Adds a score, and returns the steps that are complete now, in order."""
        self._scores[key][step] = score
        if not all(self._scores.values()):
            return []
        together = min(max(own) for own in self._scores.values())
        return self._upto(max(step - 1, min(step, together)))

    def rest(self) -> list[Round]:
        """Returns the remaining steps once the batch has ended; leaves out trials without a score."""
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
