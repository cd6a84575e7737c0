"""The run of one search: asks its searcher for points, tells it their values, and selects the best points at the end.

The proposals of a search depend only on the values of its points, never on the number of slots or on which trial ends
first. Point n is asked for when exactly the points 0 … n - `sampler.parallel` have been told. Points are told in the
order of their numbers. So a sweep that is killed and resumed, or that runs on another cluster, proposes the same
points. Searches do not wait for each other, so several searches keep more slots busy than one.

A resumed driver replays the search from its start. It takes each proposal and value from the record, by number, where
the record has it. Where the record lacks one, it asks the searcher again, or computes the value from the results. So a
lost row of the record, wherever it stood, is restored as it was, and later rows stay valid.

With early stopping of fits (`early_stop: median`), the bars of point n are made when the point is asked for. They
depend only on the results of the points 0 … n - `sampler.parallel`, whatever other trials have ended by then. So the
search is replayed in order even where its points are known, and points wait for each other even where the sampler does
not learn. The value of a point with stopped fits is the mean of the scores that its fits had.

With racing (`early_stop: wilcoxon`), a point first runs on some of its seeds. It runs on the rest unless it is pruned
against the best of the points 0 … n - `sampler.parallel` that ran on all their seeds; this, too, depends on numbers and
not on time. The value of a pruned point is that of the best point, less the mean by which it is behind on the seeds
that both have. Its own mean would be compared with means over other seeds, which may be harder.

With several objectives, the searcher is told all of them, each as a mean over the search seeds. They are metrics, or
the seconds and memory in the rows of trials. Seconds and memory are measured, so another sweep proposes other points; a
resumed sweep reads them from the record and proposes the same points. Only the first objective selects points.

Where held-out annotations decide, a point with half of its fits flagged (`trial.flags`) or more is selected only if no
other is left. Held-out annotations cannot reveal exchanged classes. Nor can they reveal a fit that knows nothing of the
classes and predicts the crowd's favourite label. The searcher is told the value of such a point all the same.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import log
from statistics import fmean

from crowdsweep.metrics.metric_table import COSTS, by_held_out
from crowdsweep.metrics.wording import goal_of
from crowdsweep.record.bar import Bar
from crowdsweep.record.events import Event, PointProposed, PointScored, PointsSelected
from crowdsweep.record.objectives import objective_of
from crowdsweep.record.result import Failure, Status, TrialResult
from crowdsweep.record.spec import TrialSpec, canonical_json
from crowdsweep.record.state import JournalState
from crowdsweep.search.contract import Goal, PointSearcher, Proposal
from crowdsweep.search.racing import should_prune
from crowdsweep.search.searchers import make_searcher
from crowdsweep.sweep.cells import Search
from crowdsweep.sweep.early_stop import bars_of

Results = Mapping[str, TrialResult]
_LEAST_COST = 1e-6  # of costs whose logarithm is taken: a clock may measure zero seconds


class SearchFailed(Exception):
    """The failure of one search's own searcher, with its exception as `__cause__`. The other searches continue."""


@contextmanager
def _blaming_the_searcher() -> Generator[None]:
    try:
        yield
    except Exception as error:
        raise SearchFailed(f"{type(error).__name__}: {error}") from error


@dataclass(kw_only=True)
class Step:
    """The outcome of one step of a search.

    It has events for the journal, trials to run (one list for each point), and the bars that end some of them early, by
    trial key.
    """

    events: list[Event] = field(default_factory=list[Event])
    groups: list[list[TrialSpec]] = field(default_factory=list[list[TrialSpec]])
    bars: dict[str, Bar] = field(default_factory=dict[str, Bar])


def searcher_of(search: Search) -> PointSearcher:
    """Returns a new searcher, already told the search's points of earlier sweeps."""
    told = [(one.point, (one.value, *_sampler_values(search, one.further))) for one in search.told]
    further: list[Goal] = [goal for name in search.metric.further if (goal := goal_of(name))]
    return make_searcher(search.space, search.sampler, search.metric.goal, search.limit, told, further)


def _sampler_values(search: Search, further: Sequence[float]) -> list[float]:
    """Returns the values of the further objectives as a sampler is told them: costs as logarithms.

    Samplers judge by differences, and a cost that is twice as high should count the same at any level.
    """
    named = zip(search.metric.further, further, strict=True)
    return [log(max(value, _LEAST_COST)) if name in COSTS else value for name, value in named]


class SearchRun:
    """The state of one search.

    Args:
        search: the search; what it was told first comes from the journal where it has that.
        searcher: a new searcher, which is brought to the state that the journal has.
        state: what the journal has of an earlier driver; any row of it may be missing.
    """

    def __init__(self, search: Search, searcher: PointSearcher, state: JournalState) -> None:
        self.search = search
        self._searcher = searcher
        self._parallel = search.sampler.parallel
        self._window = self._parallel if search.sampler.learns or search.early_stop else search.limit
        proposals = [one for one in state.proposals.get(search.key, ()) if one.number < search.limit]
        self._recorded = {one.number: Proposal(number=one.number, point=one.point) for one in proposals}
        values, further = state.values.get(search.key, {}), state.further.get(search.key, {})
        self._recorded_values: dict[int, tuple[float | None, tuple[float, ...]]] = {
            number: (value, tuple(further.get(number, ())))
            for number, value in values.items()
            if number in self._recorded
        }
        self._points: list[Proposal] = []  # point n is at index n
        self._values: dict[int, float | None] = {}
        self._exhausted = False
        self._specs: dict[int, list[TrialSpec]] = {}  # point → its trials that are wanted so far
        self._held_back: dict[int, list[TrialSpec]] = {}  # point → trials that wait until it is raced
        self._stopped: dict[int, float] = {}  # pruned point → its value
        self._known_selection = state.selected.get(search.key)
        self.selected: Sequence[int] | None = None

    def restored(self) -> Step:
        """Returns the trials of the points that an earlier driver asked for. Call it once, before `advance`.

        With early stopping of fits it returns none: each point waits until `advance` asks for it again.
        """
        if self.search.early_stop is not None:
            return Step()
        return Step(groups=[self._search_specs(proposal) for proposal in self._recorded.values()])

    def advance(self, results: Results) -> Step:
        """Tells and asks for points as far as the results allow, and selects the best points once all are told.

        Asking comes first: a point is asked for before one more is told, however late the driver looks.
        """
        step = Step()
        while self.selected is None:
            self._race(step, results)
            if self._may_ask:
                self._ask(step, results)
            elif self._may_tell(results):
                self._tell(step, results)
            elif len(self._values) == len(self._points):
                self._select(step, results)
            else:
                break
        return step

    def judged(self, spec: TrialSpec, result: TrialResult) -> TrialResult:
        """Returns the result of a trial; a failure where a search trial lacks an objective of the search."""
        lacks = [name for name in self.search.metric.objectives if objective_of(result, name) is None]
        if spec.phase != "search" or result.status is not Status.OK or not lacks:
            return result
        has = ", ".join(sorted(result.metrics)) or "none"
        message = f"the search needs {', '.join(lacks)}, which {spec.model} does not give here; it gives {has}"
        return replace(result, status=Status.FAILED, failure=Failure(kind="MissingMetric", message=message))

    @property
    def _may_ask(self) -> bool:
        asked = len(self._points)
        return not self._exhausted and asked < self.search.limit and asked - len(self._values) < self._window

    def _ask(self, step: Step, results: Results) -> None:
        known = self._recorded.get(len(self._points))
        if known is not None:
            with _blaming_the_searcher():
                self._searcher.adopt(known)
            self._points.append(known)
            if self.search.early_stop is not None:
                self._want(step, known, results)
            return
        with _blaming_the_searcher():
            proposal = self._searcher.ask()
        if proposal is None:
            self._exhausted = True
            return
        self._points.append(proposal)
        dataset = self.search.cell.dataset
        event = PointProposed(
            search=self.search.key,
            number=proposal.number,
            point=proposal.point,
            model=self.search.cell.info.name,
            dataset=dataset.name,
            dataset_params=dataset.params,
        )
        step.events.append(event)
        self._want(step, proposal, results)

    def _may_tell(self, results: Results) -> bool:
        number = len(self._values)
        return number < len(self._points) and number not in self._held_back and self._all_ran(number, results)

    def _tell(self, step: Step, results: Results) -> None:
        number = len(self._values)
        recorded = self._recorded_values.get(number)
        value, further = recorded or (None, ())
        if value is None or len(further) != len(self.search.metric.further):  # not recorded, or failed
            scores = self._scores(number, results)
            value = self._stopped.get(number, fmean(scores.values()) if scores else None)
            further = self._further(number, results) if scores else ()
        self._values[number] = value
        told = () if value is None else _sampler_values(self.search, further)
        with _blaming_the_searcher():
            self._searcher.tell(number, value, told)
        if recorded != (value, further):
            step.events.append(PointScored(search=self.search.key, number=number, value=value, further=further))

    def _select(self, step: Step, results: Results) -> None:
        """Ends the search: its best distinct points run on the report seeds.

        Points are ranked by value, then by number; flagged points come last.
        """
        sign = -1.0 if self.search.metric.goal == "maximize" else 1.0
        ranked = sorted(
            (self._is_flagged(number, results), sign * value, number)
            for number, value in self._values.items()
            if value is not None
        )
        distinct: dict[str, int] = {}
        for _, _, number in ranked:
            distinct.setdefault(canonical_json(dict(self._points[number].point)), number)
        self.selected = tuple(distinct.values())[: self.search.rescored]
        if self.selected != self._known_selection:
            step.events.append(PointsSelected(search=self.search.key, numbers=self.selected))
        step.groups += [self.search.cell.report_specs(self._points[number].point) for number in self.selected]

    def _want(self, step: Step, proposal: Proposal, results: Results) -> None:
        """Adds the trials of a point, and the bars that end them early."""
        specs = self._search_specs(proposal)
        step.groups.append(specs)
        if self.search.early_stop is not None:
            earlier = [self._specs[number] for number in range(proposal.number - self._parallel + 1)]
            step.bars |= bars_of(self.search.early_stop, self.search, specs, earlier, results)

    def _search_specs(self, proposal: Proposal) -> list[TrialSpec]:
        specs = self.search.cell.specs(self.search.seeds, "search", proposal.point, self.search.heldout)
        if self.search.early_stop is not None:
            specs = [replace(spec, early_stop=self.search.key) for spec in specs]
        first, rest = specs[: self.search.raced], specs[self.search.raced :] if self.search.raced else []
        self._specs[proposal.number] = first
        if rest:
            self._held_back[proposal.number] = rest
        return first

    def _race(self, step: Step, results: Results) -> None:
        """Adds the remaining trials of points whose first seeds have run, unless the points are pruned or failed."""
        for number in sorted(self._held_back):
            rivals = range(number - self._parallel + 1)
            if len(self._values) < len(rivals):
                break
            if not self._all_ran(number, results):
                continue
            rest = self._held_back.pop(number)
            if scores := self._scores(number, results):
                worth = self._value_if_pruned(scores, rivals, results)
                if worth is None:
                    self._specs[number] = [*self._specs[number], *rest]
                    step.groups.append(rest)
                else:
                    self._stopped[number] = worth

    def _value_if_pruned(self, scores: Mapping[int, float], rivals: range, results: Results) -> float | None:
        """Returns the value of a pruned point; None where it is not pruned, or no complete point can be its rival."""
        goal = self.search.metric.goal
        sign = -1.0 if goal == "maximize" else 1.0
        known = ((value, rival) for rival in rivals if (value := self._values[rival]) is not None)
        complete = [(sign * value, rival) for value, rival in known if rival not in self._stopped]
        if not complete:
            return None
        loss, rival = min(complete)
        best = self._scores(rival, results)
        if not should_prune(scores, best, goal):
            return None
        return sign * loss + fmean(scores[seed] - best[seed] for seed in scores)

    def _is_flagged(self, number: int, results: Results) -> bool:
        if not by_held_out(self.search.metric.name):
            return False
        flagged = [bool(results[spec.key].flags) for spec in self._specs[number] if spec.key in results]
        return bool(flagged) and 2 * sum(flagged) >= len(flagged)

    def _all_ran(self, number: int, results: Results) -> bool:
        return all(spec.key in results for spec in self._specs[number])

    def _scores(self, number: int, results: Results) -> dict[int, float]:
        """Returns a point's scores by seed.

        They are empty where any of its trials failed, or lacks an objective because it ran for another metric.
        """
        metric = self.search.metric
        done = {spec.seed: results[spec.key] for spec in self._specs[number]}
        needed = [(result, name) for result in done.values() for name in metric.objectives]
        if any(result.status is Status.FAILED or objective_of(result, name) is None for result, name in needed):
            return {}
        return {seed: result.metrics[metric.name] for seed, result in done.items()}

    def _further(self, number: int, results: Results) -> tuple[float, ...]:
        """Returns the means of the further objectives, for a point that has scores."""
        done = [results[spec.key] for spec in self._specs[number]]
        names = self.search.metric.further
        return tuple(fmean(value for one in done if (value := objective_of(one, name)) is not None) for name in names)
