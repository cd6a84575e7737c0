"""How much of a sweep may fail before it stops: `budget.failed_trials`, a share of its points.

A point of which some seeds fail counts by their share. However small the share, `FEWEST_POINTS` points may fail: a few
bad points of a small search are bad points, not the end of a sweep. Where the whole sweep is a single point, its trials
are counted in place of points. What infrastructure lost is not counted.
"""

from collections.abc import Collection
from dataclasses import dataclass

from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.plan import Plan

FEWEST_POINTS = 3
FEWEST_TRIALS = 2  # of a single point


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What may fail.

    Attributes:
        share: `budget.failed_trials`.
        n_points: of the sweep, at most; those that are re-scored count twice, as they run twice.
        n_search, n_report: trials of a point in each phase.
    """

    share: float
    n_points: int
    n_search: int
    n_report: int

    @classmethod
    def of(cls, plan: Plan) -> "Allowance":
        """Returns what a plan allows."""
        seeds = plan.config.seeds
        n_points = len(plan.cells) + sum(search.limit + min(seeds.rescored, search.limit) for search in plan.searches)
        return cls(
            share=plan.config.budget.failed_trials, n_points=n_points, n_search=seeds.search, n_report=seeds.report
        )

    def exceeded(self, failed: Collection[TrialSpec]) -> bool:
        """Whether more has failed than may fail."""
        if self.n_points == 1:
            return len(failed) > max(FEWEST_TRIALS, self.share * self.n_report)
        in_search = sum(spec.phase == "search" for spec in failed)
        points = in_search / self.n_search + (len(failed) - in_search) / self.n_report
        return points > max(FEWEST_POINTS, self.share * self.n_points) + 1e-9

    def __str__(self) -> str:
        if self.n_points == 1:
            return f"{max(FEWEST_TRIALS, int(self.share * self.n_report))} trials of this one point"
        return f"{max(FEWEST_POINTS, int(self.share * self.n_points))} of {self.n_points} points"
