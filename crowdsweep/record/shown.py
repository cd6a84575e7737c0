"""Selects the trials of a journal to show: those that the latest plan of the sweep asks for.

A journal keeps every trial that its sweep ever asked for. The trials shown are those of the latest driver's plan: for a
fixed point, the trials of its cell; for a search, the trials of its points, and the re-scored trials of the points that
it has selected. Left out are trials of another point, dataset, fingerprint, model version or hold-out, of a removed
model, or with seeds beyond those asked for. If the caller wants all trials, these are marked instead.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from crowdsweep.record.naming import dataset_words
from crowdsweep.record.plan_record import CellRecord, PlanRecord
from crowdsweep.record.result import Status
from crowdsweep.record.spec import Phase, TrialSpec, canonical_json
from crowdsweep.record.state import JournalState, Role


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownTrial:
    """A trial in one of its roles.

    Attributes:
        spec: of the trial, with the phase, dataset and point of this role.
        label: the sweep file's name for the model.
        search: key of the search that the trial belongs to; empty for a fixed point.
        asked: whether the latest plan asks for the trial.
        chosen: whether the report counts the trial: the plan asks for it in the report phase, at a fixed point or at
            the best point of its search that has a result. Never true in the search phase: its scores chose the point.
        among: all datasets of the sweep.
    """

    spec: TrialSpec
    label: str
    search: str = ""
    asked: bool = True
    chosen: bool = False
    among: frozenset[str] = frozenset()

    @property
    def on(self) -> str:
        """A short text for the dataset and its parameters, distinct among the datasets of the sweep."""
        return dataset_words(self.spec.dataset, self.spec.dataset_params, self.among)


def shown_trials(state: JournalState, *, every: bool = False, phase: Phase | None = None) -> list[ShownTrial]:
    """Returns the trials that the latest plan asks for, in the order of the plan; O(trials).

    A trial occurs once per cell and search that asks for it.

    Args:
        every: whether to add the trials that the plan does not ask for, once per phase in which they were planned.
        phase: of the trials; None for both.
    """
    question = _Question(state)
    found: list[_Found] = []
    for key, spec in state.specs.items():
        asked = list(question.asks(spec, state.roles[key], phase))
        found += asked
        if every:
            known = {one.role.phase for one in asked}
            latest = {
                one.phase: one for one in state.roles[key] if one.phase not in known and phase in (None, one.phase)
            }
            found += [_Found(_LAST, spec, role, "") for role in latest.values()]
    found.sort(key=lambda one: one.order)
    among = datasets_of(state.plan) or frozenset(one.role.dataset for one in found)
    chosen = _chosen(found, state)
    return [
        ShownTrial(
            spec=_as_planned(one.spec, one.role),
            label=one.role.label,
            search=one.role.search,
            asked=one.order is not _LAST,
            chosen=one.is_reported and chosen.get(one.role.search, one.point) == one.point,
            among=among,
        )
        for one in found
    ]


def datasets_of(plan: PlanRecord) -> frozenset[str]:
    """Returns all datasets of a plan, so that texts can tell apart folders of the same name (`naming.short_name`)."""
    return frozenset(row.dataset for row in plan.datasets)


def one_each(found: Iterable[ShownTrial]) -> dict[str, ShownTrial]:
    """Returns trial key → one role of the trial: preferably asked for, then in the report phase, then the first."""
    best: dict[str, ShownTrial] = {}
    for trial in found:
        known = best.get(trial.spec.key)
        if known is None or _weight(trial) > _weight(known):
            best[trial.spec.key] = trial
    return best


def left_out_as_data_changed(state: JournalState, shown: Iterable[ShownTrial]) -> Counter[str]:
    """Returns dataset → number of finished trials that are left out because the data changed.

    The plan asks for the same dataset with the same parameters, but for no trial with their fingerprint.
    """
    asked = {trial.spec.key: trial.spec for trial in shown}
    left = [state.specs[key] for key in state.results if key not in asked and key in state.specs]
    if not left:
        return Counter()
    now = {(spec.place, spec.fingerprint) for spec in asked.values()}
    places = {place for place, _ in now}
    return Counter(spec.dataset for spec in left if spec.place in places and (spec.place, spec.fingerprint) not in now)


def shown_searches(state: JournalState) -> list[CellRecord]:
    """Returns the searches of the latest plan that have proposed a point."""
    return [search for search in state.plan.searches if search.key in state.proposals]


def points_of(state: JournalState, search: CellRecord) -> dict[int, Mapping[str, Any]]:
    """Returns number → point for the proposals of a search within its current limit of points."""
    proposals = state.proposals.get(search.key, ())
    return {proposal.number: proposal.point for proposal in proposals if proposal.number < search.points}


Order = tuple[int, ...]
"""Sort key of a trial: its position in the plan, independent of when the trial was first asked for."""
_LAST: Order = (2,)


class _Found(NamedTuple):
    """A trial in one of its roles, with its sort key; `point` is the search's point in canonical JSON, else empty."""

    order: Order
    spec: TrialSpec
    role: Role
    point: str

    @property
    def is_reported(self) -> bool:
        return self.order is not _LAST and self.role.phase == "report"


class _Question:
    """An index of what the latest plan asks for, to look up trials."""

    def __init__(self, state: JournalState) -> None:
        plan = state.plan
        self._report_seeds = plan.report_seeds
        self._cells: dict[str, list[tuple[int, CellRecord]]] = {}
        for number, cell in enumerate(plan.cells):
            self._cells.setdefault(cell.key, []).append((number, cell))
        self._searches: dict[str, list[tuple[int, CellRecord]]] = {}
        self._points: dict[tuple[str, Phase], dict[str, int]] = {}
        for number, search in enumerate(plan.searches):
            self._searches.setdefault(search.key, []).append((number, search))
            points = points_of(state, search)
            selected = [points[n] for n in state.selected.get(search.key, ()) if n in points]
            self._points[search.key, "search"] = _numbered(points.values())
            self._points[search.key, "report"] = _numbered(selected)
        heldout = {row.place: row.heldout for row in plan.datasets}
        self._heldout = {search.key: heldout.get(search.place, 0.0) for search in plan.searches}

    def asks(self, spec: TrialSpec, roles: Sequence[Role], phase: Phase | None) -> Iterator[_Found]:
        """Yields the trial once for each role of the phase, or of both, in which the plan asks for it."""
        if self._cells and phase != "search" and spec.seed < self._report_seeds:
            for place, cell in self._cells.get(spec.cell_key, ()):
                role = Role(phase="report", label=cell.label, dataset=cell.dataset)
                yield _Found((0, place, spec.seed), spec, role, "")
        roles = [role for role in roles if role.search in self._searches and phase in (None, role.phase)]
        for role in {(role.search, role.phase): role for role in roles}.values():
            point = canonical_json(dict(role.point))
            number = self._points[role.search, role.phase].get(point)
            if number is None or (role.phase == "report" and not self._is_reported(spec, role.search)):
                continue
            for place, search in self._searches[role.search]:
                own = role
                if (role.label, role.dataset) != (search.label, search.dataset):  # renamed since the trial was planned
                    own = role._replace(label=search.label, dataset=search.dataset)
                yield _Found((1, place, int(role.phase == "report"), number, spec.seed), spec, own, point)

    def _is_reported(self, spec: TrialSpec, search: str) -> bool:
        return spec.seed < self._report_seeds and spec.heldout_fraction == self._heldout[search]


def _numbered(points: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Returns point, in canonical JSON, → its index among the distinct points."""
    places: dict[str, int] = {}
    for point in points:
        places.setdefault(canonical_json(dict(point)), len(places))
    return places


def _weight(trial: ShownTrial) -> tuple[bool, bool]:
    return trial.asked, trial.spec.phase == "report"


def _as_planned(spec: TrialSpec, role: Role) -> TrialSpec:
    if (spec.dataset, spec.phase, spec.point) == (role.dataset, role.phase, role.point):
        return spec
    return replace(spec, dataset=role.dataset, phase=role.phase, point=role.point)


def _chosen(found: Iterable[_Found], state: JournalState) -> dict[str, str]:
    """Returns search → the point that the report counts: its best selected point that has an ok result, else its best.

    The order of selection decides which point is best, never the reported scores.
    """
    rescored: dict[str, dict[str, bool]] = {}  # search → point → whether a trial is ok
    for one in found:
        if one.is_reported and one.role.search:
            result, points = state.results.get(one.spec.key), rescored.setdefault(one.role.search, {})
            points[one.point] = points.get(one.point, False) or (result is not None and result.status is Status.OK)
    chosen: dict[str, str] = {}
    for search, points in rescored.items():
        proposed = {one.number: one.point for one in state.proposals.get(search, ())}
        order = _numbered(proposed[number] for number in state.selected.get(search, ()) if number in proposed)
        ranked = sorted(points, key=lambda point: order.get(point, len(order)))
        chosen[search] = next((point for point in ranked if points[point]), ranked[0])
    return chosen
