"""Fits and points that the early stopping of searches ended, and the steps that this saved."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from crowdsweep.analysis.sections.training import Steps
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState


@dataclass(frozen=True, kw_only=True)
class StoppedFits:
    """The fits of one search, of which some were stopped early.

    Attributes:
        metric: that curves are of.
        whole: curves of the fits that went to their end.
        stopped: curves of the others, up to where they were stopped.
        steps: epochs or EM steps of all of them together.
        steps_whole: how many there would have been, had each stopped fit gone on for as long as usual: for the median
            of the whole ones.
    """

    metric: str
    whole: Sequence[Steps]
    stopped: Sequence[Steps]
    steps: int
    steps_whole: float

    @property
    def words(self) -> str:
        """What was stopped and saved, in a sentence."""
        n = len(self.whole) + len(self.stopped)
        share = 100 * self.steps / self.steps_whole if self.steps_whole else 100.0
        return (
            f"{len(self.stopped)} of {n} fits were stopped early: {self.steps:,} steps in all, of about "
            f"{self.steps_whole:,.0f} without ({share:.0f} %)"
        )


def stopped_fits(state: JournalState, trials: Iterable[ShownTrial]) -> dict[str, StoppedFits]:
    """Returns search key → its fits, of searches of which at least one was stopped early."""
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
