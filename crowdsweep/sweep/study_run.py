"""One search on its way: asks its searcher, tells it what points are worth, and ends with the best of them.

The proposals of a study depend on nothing but the values of its points: never on how many slots there are, nor on
which trial ends first. Point n is asked for exactly when the points 0 … n - `WINDOW` have been told and no more, and
points are told in the order of their numbers. So a sweep that is killed and goes on, or that runs on another cluster,
proposes the same points; what keeps more slots busy than one study can is that studies do not wait for each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from crowdsweep.search.contract import PointSearcher, Proposal
from crowdsweep.sweep.plan import Plan, Study
from crowdsweep.trial.events import Event, PointProposed, PointScored, PointsSelected
from crowdsweep.trial.result import Failure, TrialResult
from crowdsweep.trial.spec import TrialSpec, canonical_json

WINDOW = 4  # points of one study that are open at once; the searcher guesses at the open ones
Results = Mapping[str, TrialResult]


@dataclass(kw_only=True)
class Step:
    """What one step of a study brought: events for the journal, and trials to run, a list for each point."""

    events: list[Event] = field(default_factory=list[Event])
    groups: list[list[TrialSpec]] = field(default_factory=list[list[TrialSpec]])


class StudyRun:
    """The state of one study.

    Args:
        study: what is searched.
        plan: that it belongs to.
        searcher: a new one; what the journal knows is restored into it.
        proposals, values, selected: of an earlier driver, as the journal has them.
        window: points that may be open at once. A searcher that does not learn may have all of them open.
    """

    def __init__(
        self,
        study: Study,
        plan: Plan,
        searcher: PointSearcher,
        proposals: list[PointProposed],
        values: Mapping[int, float | None],
        selected: Sequence[int] | None = None,
        window: int = WINDOW,
    ) -> None:
        self.study = study
        self._plan = plan
        self._searcher = searcher
        self._window = window
        self._points = [Proposal(number=proposal.number, point=proposal.point) for proposal in proposals]
        self._values = dict(values)
        self._exhausted = False
        self._specs: dict[int, list[TrialSpec]] = {}
        self._known_selection = selected
        self.selected: Sequence[int] | None = None
        if proposals:
            searcher.restore(self._points, self._values)

    @property
    def best(self) -> float | None:
        """The best value so far, in the metric's own units; None before there is one."""
        values = [value for value in self._values.values() if value is not None]
        if not values:
            return None
        return max(values) if self.study.metric.goal == "maximize" else min(values)

    def restored(self) -> Step:
        """Returns the trials of the points that an earlier driver asked for; call it once, first."""
        return Step(groups=[self._search_specs(proposal) for proposal in self._points])

    def advance(self, results: Results) -> Step:
        """Tells what can be told, asks for what may be asked for, and selects where all is told.

        Asking comes first: a point is asked for before one more is told, however late the driver looks.
        """
        step = Step()
        while self.selected is None:
            if self._may_ask:
                self._ask(step)
            elif self._may_tell(results):
                self._tell(step, results)
            elif len(self._values) == len(self._points):
                self._select(step)
            else:
                break
        return step

    def judged(self, spec: TrialSpec, result: TrialResult) -> TrialResult:
        """Returns the result, failed where a search trial lacks the metric that the search is for."""
        name = self.study.metric.name
        if spec.phase != "search" or result.status == "failed" or name in result.metrics:
            return result
        has = ", ".join(sorted(result.metrics)) or "none"
        message = f"the search needs {name}, which {spec.model} does not give here; it gives {has}"
        return replace(result, status="failed", failure=Failure(kind="MissingMetric", message=message))

    @property
    def _may_ask(self) -> bool:
        asked = len(self._points)
        return not self._exhausted and asked < self.study.limit and asked - len(self._values) < self._window

    def _ask(self, step: Step) -> None:
        proposal = self._searcher.ask()
        if proposal is None:
            self._exhausted = True
            return
        self._points.append(proposal)
        dataset = self.study.cell.dataset
        event = PointProposed(
            study=self.study.key,
            number=proposal.number,
            point=proposal.point,
            model=self.study.cell.info.name,
            dataset=dataset.name,
            dataset_params=dataset.params,
        )
        step.events.append(event)
        step.groups.append(self._search_specs(proposal))

    def _may_tell(self, results: Results) -> bool:
        number = len(self._values)
        return number < len(self._points) and all(spec.key in results for spec in self._specs[number])

    def _tell(self, step: Step, results: Results) -> None:
        number = len(self._values)
        done = [results[spec.key] for spec in self._specs[number]]
        failed = any(result.status == "failed" for result in done)
        name = self.study.metric.name
        value = None if failed else sum(result.metrics[name] for result in done) / len(done)
        self._values[number] = value
        self._searcher.tell(number, value)
        step.events.append(PointScored(study=self.study.key, number=number, value=value))

    def _select(self, step: Step) -> None:
        """Ends the study: the best points that differ, by value and then by number, go on to the report seeds."""
        sign = -1.0 if self.study.metric.goal == "maximize" else 1.0
        ranked = sorted((sign * value, number) for number, value in self._values.items() if value is not None)
        distinct: dict[str, int] = {}
        for _, number in ranked:
            distinct.setdefault(canonical_json(dict(self._points[number].point)), number)
        self.selected = tuple(distinct.values())[: self._plan.config.seeds.rescored]
        if self.selected != self._known_selection:
            step.events.append(PointsSelected(study=self.study.key, numbers=self.selected))
        step.groups += [
            self.study.cell.specs(self._plan.report_seeds, "report", self._points[number].point)
            for number in self.selected
        ]

    def _search_specs(self, proposal: Proposal) -> list[TrialSpec]:
        specs = self.study.cell.specs(self._plan.search_seeds, "search", proposal.point, self.study.heldout)
        self._specs[proposal.number] = specs
        return specs
