"""Fits that the early stopping of searches ended, and the training steps that this saved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from crowdsweep.analysis.sections.training import Steps
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState


@dataclass(frozen=True, kw_only=True)
class StoppedFits:
    """Fits of one search, some of which were stopped early.

    Attributes:
        whole: curves of the fits that were not stopped.
        stopped: curves of the stopped fits, up to their last step.
        steps: total number of epochs or EM steps.
        steps_whole: estimated total without early stopping: each stopped fit counts with the median number of steps of
            the other fits, or its own where that is larger.
    """

    metric: str
    whole: Sequence[Steps]
    stopped: Sequence[Steps]
    steps: int
    steps_whole: float

    @property
    def words(self) -> str:
        """A sentence on the number of stopped fits and the saved steps."""
        n = len(self.whole) + len(self.stopped)
        share = 100 * self.steps / self.steps_whole if self.steps_whole else 100.0
        return (
            f"{len(self.stopped)} of {n} fits were stopped early: {self.steps:,} steps in all, of about "
            f"{self.steps_whole:,.0f} without ({share:.0f} %)"
        )


def stopped_fits(state: JournalState, trials: Iterable[ShownTrial]) -> dict[str, StoppedFits]:
    """Returns search key → its fits, for searches in which at least one fit was stopped early."""
    results: dict[str, dict[str, TrialResult]] = {}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        if trial.spec.phase == "search" and trial.search and result is not None:
            results.setdefault(trial.search, {})[result.key] = result
    return {
        search: _fits(list(own.values()))
        for search, own in results.items()
        if any(result.stopped_early for result in own.values())
    }


def _fits(results: Sequence[TrialResult]) -> StoppedFits:
    stopped = [result for result in results if result.stopped_early]
    whole = [result for result in results if result.status is Status.OK]
    usual = median(result.iterations for result in whole) if whole else 0
    long = sum(result.iterations for result in whole)
    return StoppedFits(
        metric=stopped[0].watched,
        whole=[result.curve for result in whole if len(result.curve) > 1],
        stopped=[result.curve for result in stopped],
        steps=long + sum(result.iterations for result in stopped),
        steps_whole=long + sum(max(usual, result.iterations) for result in stopped),
    )
