"""Which trials of a journal its sweep asks for now, and as what.

A journal keeps every trial that its sweep ever asked for. What is shown of it is what the latest driver's plan asks
for: of a fixed point the trials of its cell; of a search the trials of its points, and the re-scored ones of the points
that it has selected. Trials of another point, dataset, fingerprint, model version or hold-out, of a model that was
taken out, or with seeds beyond those that are asked for, are left out, or marked where somebody wants to see them all.
"""

from collections.abc import Iterator, Mapping, Sequence
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


def answers(state: JournalState, *, every: bool = False) -> list[Answer]:
    """Returns what answers the sweep's question, in the order in which the trials were first planned; takes time in
    their number.

    A trial has an answer for each cell and search that it is asked for by.

    Args:
        state: what the journal says.
        every: also the trials that are not asked for, once for each phase in which they were.
    """
    roles = spelled_out(state)
    question = _Question(state)
    found: list[Answer] = []
    for key, spec in state.specs.items():
        asked = list(question.asks(spec, roles[key]))
        found += asked
        if every:
            known = {answer.phase for answer in asked}
            latest = {role.phase: role for role in roles[key] if role.phase not in known}
            found += [_answer(spec, role, asked=False) for role in latest.values()]
    return _with_chosen(found, state)


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


class _Question:
    """What the latest plan asks for, laid out for looking trials up."""

    def __init__(self, state: JournalState) -> None:
        plan = state.plan
        self._everything = plan.cells is None
        self._report_seeds = plan.report_seeds
        self._cells: dict[str, list[CellRecord]] = {}
        for cell in plan.cells or ():
            self._cells.setdefault(cell.key, []).append(cell)
        self._searches: dict[str, list[CellRecord]] = {}
        for search in plan.searches:
            self._searches.setdefault(search.key, []).append(search)
        heldout = {(row.dataset, canonical_json(dict(row.dataset_params))): row.heldout for row in plan.datasets}
        self._heldout = {
            search.key: heldout.get((search.dataset, canonical_json(dict(search.dataset_params))), 0.0)
            for search in plan.searches
        }
        self._points: dict[tuple[str, Phase], set[str]] = {}
        for search in plan.searches:
            points = points_of(state, search)
            selected = [number for number in state.selected.get(search.key, ()) if number in points]
            self._points[search.key, "search"] = {canonical_json(dict(point)) for point in points.values()}
            self._points[search.key, "report"] = {canonical_json(dict(points[number])) for number in selected}

    def asks(self, spec: TrialSpec, roles: Sequence[Role]) -> Iterator[Answer]:
        """Yields a trial's answers to this question."""
        if self._everything:
            yield from (_answer(spec, role, asked=True) for role in roles)
            return
        if spec.seed < self._report_seeds:
            for cell in self._cells.get(spec.cell_key, ()):
                role = Role(phase="report", label=cell.label, dataset=cell.dataset)
                yield _answer(spec, role, asked=True)
        latest = {(role.search, role.phase): role for role in roles if role.search in self._searches}
        for role in latest.values():
            if self._counts(spec, role):
                for search in self._searches[role.search]:
                    yield _answer(spec, replace(role, label=search.label, dataset=search.dataset), asked=True)

    def _counts(self, spec: TrialSpec, role: Role) -> bool:
        if canonical_json(dict(role.point)) not in self._points[role.search, role.phase]:
            return False
        return role.phase == "search" or (
            spec.seed < self._report_seeds and spec.heldout_fraction == self._heldout[role.search]
        )


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
    ran: dict[tuple[str, str], bool] = {}  # search, point → whether any re-scored trial of it is ok
    for answer in found:
        if answer.asked and answer.search and answer.phase == "report":
            place = answer.search, canonical_json(dict(answer.point))
            result = state.results.get(answer.spec.key)
            ran[place] = ran.get(place, False) or (result is not None and result.status is Status.OK)
    chosen: dict[str, str] = {}
    for search, points in _in_order(state, ran).items():
        chosen[search] = next((point for point in points if ran[search, point]), points[0])
    return [
        replace(
            answer,
            chosen=answer.asked
            and answer.phase == "report"
            and (not answer.search or chosen[answer.search] == canonical_json(dict(answer.point))),
        )
        for answer in found
    ]


def _in_order(state: JournalState, places: Mapping[tuple[str, str], bool]) -> dict[str, list[str]]:
    """Returns the re-scored points of each search, selected ones first and best first."""
    found: dict[str, list[str]] = {}
    for search, point in places:
        found.setdefault(search, []).append(point)
    for search, points in found.items():
        proposals = {one.number: canonical_json(dict(one.point)) for one in state.proposals.get(search, ())}
        order = {proposals[number]: place for place, number in enumerate(state.selected.get(search, ()))}
        points.sort(key=lambda point: order.get(point, len(order)))
    return found
