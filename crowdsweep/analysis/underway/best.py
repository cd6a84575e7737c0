"""The best model of each dataset so far, by the rules of the report.

Each dataset has one metric: the one that the report would rank by, given the trials so far. Models that saw gold do not
count, nor do re-scored points other than the selected one of their search. Before the first trial of the report phase,
points of searches are compared by the metric that is searched for; `Best.phase` is then `search`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crowdsweep.metrics.metric_table import Goal
from crowdsweep.metrics.ranking import ranking_metric
from crowdsweep.metrics.wording import goal_of
from crowdsweep.record.naming import dataset_words
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.spec import Phase, Place, TrialSpec


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best cell of a dataset so far: its mean over `seeds` trials of the report or search phase."""

    model: str
    metric: str
    value: float
    seeds: int
    phase: Phase = "report"


@dataclass(kw_only=True)
class _Cell:
    """Sums of each metric over the successful trials of one point of one model."""

    model: str
    search: str
    phase: Phase
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def mean(self, metric: str) -> float:
        return self.sums[metric] / self.counts[metric]


class BestByDataset:
    """Running sums of metrics, from which the best cell of each dataset is found."""

    def __init__(self, config: Mapping[str, Any], plan: PlanRecord) -> None:
        wanted = config.get("metric")
        goal = goal_of(wanted["name"]) if wanted else None
        self._wanted: tuple[str, Goal] | None = (wanted["name"], wanted.get("goal", goal)) if wanted and goal else None
        cells = [*plan.cells, *plan.searches]
        self._saw_gold = {cell.key for cell in cells if cell.sees_gold}
        self._searched_for = {cell.key: cell.metric for cell in plan.searches}
        self._gold = {row.place: row.gold for row in plan.datasets}
        self._among = {row.dataset for row in plan.datasets}
        self._names: dict[Place, str] = {}
        self._cells: dict[Place, dict[tuple[Phase, str, str], _Cell]] = {}

    def expect(self, spec: TrialSpec, label: str, search: str) -> None:
        """Registers a trial before it has run.

        The order matters: the first registered re-scored point with a successful trial represents its search.
        """
        if (search or spec.cell_key) not in self._saw_gold:
            place = spec.place
            if place not in self._names:
                self._names[place] = dataset_words(spec.dataset, spec.dataset_params, self._among)
            cells = self._cells.setdefault(place, {})
            cells.setdefault((spec.phase, search, spec.cell_key), _Cell(model=label, search=search, phase=spec.phase))

    def add(self, spec: TrialSpec, search: str, metrics: Mapping[str, float]) -> None:
        """Adds the metrics of a registered trial that succeeded."""
        cells = self._cells.get(spec.place, {})
        cell = cells.get((spec.phase, search, spec.cell_key))
        if cell is not None:
            for name, value in metrics.items():
                cell.sums[name] = cell.sums.get(name, 0.0) + value
                cell.counts[name] = cell.counts.get(name, 0) + 1

    def found(self) -> dict[str, Best]:
        """Returns dataset, in words → its best cell, for datasets that have one."""
        bests = ((self._names[place], self._best(place, list(cells.values()))) for place, cells in self._cells.items())
        return {dataset: best for dataset, best in bests if best is not None}

    def _best(self, place: Place, cells: Sequence[_Cell]) -> Best | None:
        scored = [cell for cell in cells if cell.counts]
        reported: dict[str, _Cell] = {}  # the first point of each search, and every fixed point
        for number, cell in enumerate(scored):
            if cell.phase == "report":
                reported.setdefault(cell.search or str(number), cell)
        if reported:
            scored = list(reported.values())
            present = dict.fromkeys(name for cell in scored for name in cell.counts)
            metric, goal = ranking_metric(list(present), self._wanted, self._gold.get(place))
        else:
            searched = (self._searched_for.get(cell.search, "") for cell in scored)
            metric = next((name for name in searched if name), "")
            goal = goal_of(metric) or "maximize"
        able = [cell for cell in scored if metric in cell.counts]
        if not able:
            return None
        best = (max if goal == "maximize" else min)(able, key=lambda cell: cell.mean(metric))
        value, seeds = best.mean(metric), best.counts[metric]
        return Best(model=best.model, metric=metric, value=value, seeds=seeds, phase=best.phase)
