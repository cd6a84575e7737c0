"""Which trials of a journal its sweep asks for now, and as what.

A journal keeps every trial that its sweep ever asked for. What is shown of it is what the latest driver's plan asks
for: of a fixed point the trials of its cell; of a search the trials of its points, and the re-scored ones of the points
that it has selected. Trials of another point, dataset, fingerprint, model version or hold-out, of a model that was
taken out, or with seeds beyond those that are asked for, are left out, or marked where somebody wants to see them all.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crowdsweep.journal.first_format import spelled_out
from crowdsweep.journal.state import JournalState, Role
from crowdsweep.trial.plan_record import CellRecord
from crowdsweep.trial.result import Status
from crowdsweep.trial.spec import Phase, TrialSpec, canonical_json


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One trial in one of its roles.

    Attributes:
        spec: of the trial.
        phase, label, dataset, search, point: as in `Role`.
        asked: whether the sweep asks for it now.
        chosen: whether the report counts it: it is asked for in the report phase, at a fixed point or at the point that
            stands for its search: the best one that has a result. Never so in the search phase, whose scores did the
            choosing.
    """

    spec: TrialSpec
    phase: Phase
    label: str
    dataset: str
    search: str
    point: Mapping[str, Any]
    asked: bool
    chosen: bool = False

    @property
    def shown(self) -> TrialSpec:
        """The trial's spec with what its role says: the same key, and the dataset, phase and point that it has here."""
        return replace(self.spec, dataset=self.dataset, phase=self.phase, point=self.point)


def answers(state: JournalState, *, every: bool = False) -> list[Answer]:
    """Returns what answers the sweep's question, in the order of its plan; takes time in the number of trials.

    A trial has an answer for each cell and search that asks for it.

    Args:
        state: what the journal says.
        every: also the trials that are not asked for, once for each phase in which they were.
    """
    roles = spelled_out(state)
    question = _Question(state)
    found: list[tuple[Place, Answer]] = []
    for number, (key, spec) in enumerate(state.specs.items()):
        asked = list(question.asks(number, spec, roles[key]))
        found += asked
        if every:
            known = {answer.phase for _, answer in asked}
            latest = {role.phase: role for role in roles[key] if role.phase not in known}
            found += [(_LAST, _answer(spec, role, asked=False)) for role in latest.values()]
    found.sort(key=lambda pair: pair[0])
    return _with_chosen([answer for _, answer in found], state)


def one_each(found: Iterable[Answer]) -> dict[str, Answer]:
    """Returns trial key → the one answer that stands for it: what is asked for before what is not, then the report
    before the search, then the first."""
    best: dict[str, Answer] = {}
    for answer in found:
        known = best.get(answer.spec.key)
        if known is None or _weight(answer) > _weight(known):
            best[answer.spec.key] = answer
    return best


def left_out(state: JournalState) -> int:
    """Returns the number of finished trials that the sweep does not ask for now."""
    return len(state.results.keys() - {answer.spec.key for answer in answers(state)})


def asked_searches(state: JournalState) -> list[CellRecord]:
    """Returns the searches that the sweep asks for and that have proposed a point."""
    if state.plan.cells is not None:
        return [search for search in state.plan.searches if search.key in state.proposals]
    told = {search.key: search for search in state.plan.searches}
    found: list[CellRecord] = []
    for key, (first, *_) in state.proposals.items():
        search = told.get(key) or CellRecord(key=key, label=first.model, metric="value", goal="maximize")
        place = {"model": first.model, "dataset": first.dataset, "dataset_params": first.dataset_params}
        found.append(replace(search, **place))
    return found


def points_of(state: JournalState, search: CellRecord) -> dict[int, Mapping[str, Any]]:
    """Returns the points of a search that count towards it now, by number."""
    proposals = state.proposals.get(search.key, ())
    limit = search.points or len(proposals)  # the first format does not say how many may be tried
    return {proposal.number: proposal.point for proposal in proposals if proposal.number < limit}


Place = tuple[int, ...]
"""Where an answer stands among the others: as the plan lays them out, so that it does not matter when a trial was first
planned."""
_LAST: Place = (2,)


class _Question:
    """What the latest plan asks for, laid out for looking trials up."""

    def __init__(self, state: JournalState) -> None:
        plan = state.plan
        self._everything = plan.cells is None
        self._report_seeds = plan.report_seeds
        self._cells: dict[str, list[tuple[int, CellRecord]]] = {}
        for number, cell in enumerate(plan.cells or ()):
            self._cells.setdefault(cell.key, []).append((number, cell))
        self._searches: dict[str, list[tuple[int, CellRecord]]] = {}
        self._points: dict[tuple[str, Phase], dict[str, int]] = {}
        for number, search in enumerate(plan.searches):
            self._searches.setdefault(search.key, []).append((number, search))
            points = points_of(state, search)
            selected = [points[n] for n in state.selected.get(search.key, ()) if n in points]
            self._points[search.key, "search"] = _numbered(points.values())
            self._points[search.key, "report"] = _numbered(selected)
        heldout = {(row.dataset, canonical_json(dict(row.dataset_params))): row.heldout for row in plan.datasets}
        self._heldout = {
            search.key: heldout.get((search.dataset, canonical_json(dict(search.dataset_params))), 0.0)
            for search in plan.searches
        }

    def asks(self, number: int, spec: TrialSpec, roles: Sequence[Role]) -> Iterator[tuple[Place, Answer]]:
        """Yields what a trial, the `number`th that was ever planned, answers of this question."""
        if self._everything:
            yield from (((number,), _answer(spec, role, asked=True)) for role in roles)
            return
        if spec.seed < self._report_seeds:
            for place, cell in self._cells.get(spec.cell_key, ()):
                role = Role(phase="report", label=cell.label, dataset=cell.dataset)
                yield (0, place, spec.seed), _answer(spec, role, asked=True)
        for role in {(role.search, role.phase): role for role in roles if role.search in self._searches}.values():
            point = self._points[role.search, role.phase].get(canonical_json(dict(role.point)))
            if point is None or (role.phase == "report" and not self._is_reported(spec, role.search)):
                continue
            for place, search in self._searches[role.search]:
                own = replace(role, label=search.label, dataset=search.dataset)
                yield (1, place, int(role.phase == "report"), point, spec.seed), _answer(spec, own, asked=True)

    def _is_reported(self, spec: TrialSpec, search: str) -> bool:
        return spec.seed < self._report_seeds and spec.heldout_fraction == self._heldout[search]


def _numbered(points: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Returns the places of points, the first where one comes again."""
    places: dict[str, int] = {}
    for point in points:
        places.setdefault(canonical_json(dict(point)), len(places))
    return places


def _weight(answer: Answer) -> tuple[bool, bool]:
    return answer.asked, answer.phase == "report"


def _answer(spec: TrialSpec, role: Role, *, asked: bool) -> Answer:
    return Answer(
        spec=spec,
        phase=role.phase,
        label=role.label,
        dataset=role.dataset,
        search=role.search,
        point=role.point,
        asked=asked,
    )


def _with_chosen(found: Sequence[Answer], state: JournalState) -> list[Answer]:
    """Marks what the report counts. Of a search that is the first of its selected points, best first, that has a result
    that is ok, else the first: the order of selection decides, never the numbers that are reported."""
    rescored: dict[str, dict[str, bool]] = {}  # search → its re-scored points, and whether any of their trials is ok
    for answer in found:
        if answer.asked and answer.search and answer.phase == "report":
            point, result = canonical_json(dict(answer.point)), state.results.get(answer.spec.key)
            points = rescored.setdefault(answer.search, {})
            points[point] = points.get(point, False) or (result is not None and result.status is Status.OK)
    chosen: dict[str, str] = {}
    for search, points in rescored.items():
        proposed = {one.number: one.point for one in state.proposals.get(search, ())}
        order = _numbered(proposed[number] for number in state.selected.get(search, ()))
        ranked = sorted(points, key=lambda point: order.get(point, len(order)))
        chosen[search] = next((point for point in ranked if points[point]), ranked[0])
    return [replace(answer, chosen=_is_chosen(answer, chosen)) for answer in found]


def _is_chosen(answer: Answer, chosen: Mapping[str, str]) -> bool:
    if not answer.asked or answer.phase != "report":
        return False
    return not answer.search or chosen[answer.search] == canonical_json(dict(answer.point))
