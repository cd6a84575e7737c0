"""The failures that a sweep allows before it stops: `budget.failed_trials`, a share of its points.

A point of which some seeds fail counts by the share of these seeds. At least `FEWEST_POINTS` points may fail, however
small the allowed share: a few bad points of a small search should not end the sweep. A sweep of a single point counts
its trials in place of points. Trials that the infrastructure lost are not counted.
"""

from collections.abc import Collection
from dataclasses import dataclass

from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.plan import Plan

FEWEST_POINTS = 3
FEWEST_TRIALS = 2  # in a sweep of a single point


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The number of failures that a sweep allows.

    Attributes:
        share: `budget.failed_trials`.
        n_points: largest number of points of the sweep; re-scored points count twice, as they run twice.
        n_search, n_report: number of trials of a point in each phase.
    """

    share: float
    n_points: int
    n_search: int
    n_report: int

    @classmethod
    def of(cls, plan: Plan) -> "Allowance":
        """Returns the allowance of a plan."""
        seeds = plan.config.seeds
        n_points = len(plan.cells) + sum(search.limit + search.rescored for search in plan.searches)
        return cls(
            share=plan.config.budget.failed_trials, n_points=n_points, n_search=seeds.search, n_report=seeds.report
        )

    def exceeded(self, failed: Collection[TrialSpec]) -> bool:
        """Whether more trials have failed than the sweep allows."""
        if self.n_points == 1:
            return len(failed) > max(FEWEST_TRIALS, self.share * self.n_report)
        in_search = sum(spec.phase == "search" for spec in failed)
        points = in_search / self.n_search + (len(failed) - in_search) / self.n_report
        return points > max(FEWEST_POINTS, self.share * self.n_points) + 1e-9

    def __str__(self) -> str:
        if self.n_points == 1:
            return f"{max(FEWEST_TRIALS, int(self.share * self.n_report))} trials of this one point"
        return f"{max(FEWEST_POINTS, int(self.share * self.n_points))} of {self.n_points} points"
