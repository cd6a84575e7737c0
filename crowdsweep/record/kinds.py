"""The table of event kinds that the journal keeps: how each is named, read, and applied to the state.

Each kind has its own version, raised when an older crowdsweep would misread the new rows; then the rows of the version
before are to stay readable.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from crowdsweep.record.events import (
    BatchLost,
    Event,
    PointProposed,
    PointScored,
    PointsSelected,
    PointsTold,
    RunsCreated,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
)
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.state import MutableState, Role


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of event.

    Attributes:
        event: the record class of the event.
        name: of the kind, in rows; never changes.
        version: of the rows that are written and read; the only one so far.
        take: applies an event to the state; an event without news changes nothing.
        news: returns what an event adds to the state, as a value that is equal for equal news; None if it adds nothing,
            so that the event is not written.
    """

    event: type[Any]
    name: str
    version: int
    take: Callable[[MutableState, Any], None]
    news: Callable[[MutableState, Any], Hashable | None] = lambda known, event: object()  # noqa: ARG005 - each is news


def news_of(known: MutableState, event: Event) -> Hashable | None:
    """Returns what an event adds to the state (`Kind.news`); None for nothing, or for a kind that is not journalled."""
    kind = BY_EVENT.get(type(event))
    return None if kind is None else kind.news(known, event)


def apply_event(known: MutableState, event: Event) -> None:
    """Applies one event of the journal to the state; O(1)."""
    known.rows += 1
    BY_EVENT[type(event)].take(known, event)


# Functions that apply each kind of event to the state, and find out whether it brings news.


def _begin(known: MutableState, event: SweepStarted) -> None:
    known.started.append(event)
    known.status = SweepStatus.RUNNING


def _warm_start(known: MutableState, event: PointsTold) -> None:
    known.told.setdefault(event.search, event)


def _news_of_told(known: MutableState, event: PointsTold) -> Hashable | None:
    """Only a search's first told points count, because its proposals depend on them."""
    return None if event.search in known.told else event.search


def _propose(known: MutableState, event: PointProposed) -> None:
    asked = known.proposals.setdefault(event.search, [])
    if not asked or asked[-1].number < event.number:
        asked.append(event)
    elif _news_of_proposal(known, event):
        insort(asked, event, key=_number)


def _news_of_proposal(known: MutableState, event: PointProposed) -> Hashable | None:
    """Each number has one point, the first written; a lost proposal may be written again after later ones."""
    asked = known.proposals.get(event.search, [])
    place = bisect_left(asked, event.number, key=_number)
    known_number = place < len(asked) and asked[place].number == event.number
    return None if known_number else (event.search, event.number)


def _number(event: PointProposed) -> int:
    return event.number


def _news_of_score(known: MutableState, event: PointScored) -> Hashable | None:
    known_values, further = (
        known.values.get(event.search, {}),
        known.further.get(event.search, {}).get(event.number, ()),
    )
    same = event.number in known_values and (known_values[event.number], further) == (event.value, tuple(event.further))
    return None if same else (event.search, event.number, event.value, tuple(event.further))


def _score(known: MutableState, event: PointScored) -> None:
    known.values.setdefault(event.search, {})[event.number] = event.value
    if event.further:
        known.further.setdefault(event.search, {})[event.number] = tuple(event.further)


def _select(known: MutableState, event: PointsSelected) -> None:
    known.selected[event.search] = tuple(event.numbers)


def _role(event: TrialPlanned) -> Role:
    spec = event.spec
    return Role(phase=spec.phase, label=event.label, dataset=spec.dataset, search=event.search, point=spec.point)


def _news_of_plan(known: MutableState, event: TrialPlanned) -> Hashable | None:
    spec, earlier = event.spec, known.roles.get(event.spec.key)
    if earlier is not None and _role(event) in earlier:
        return None
    return spec.key, spec.phase, event.label, spec.dataset, event.search


def _plan(known: MutableState, event: TrialPlanned) -> None:
    key, role = event.spec.key, _role(event)
    earlier = known.roles.get(key, ())
    if role in earlier:
        return
    roles = (*earlier, role)
    known.roles[key] = known.roles_before = roles if roles != known.roles_before else known.roles_before
    if not earlier or role.phase == "report" or all(other.phase != "report" for other in earlier):
        known.specs[key] = event.spec


def _rank(result: TrialResult) -> int:
    """Returns the rank of a result: a later one only replaces one of lower rank.

    A trial that only stopped with its driver has no result, and one that failed by the infrastructure hardly: both run
    again. Stopped early, it has one, which the search has been told: no later failure takes it back.
    """
    if result.status is Status.STOPPED:
        return 3 if result.stopped_early else 0
    if result.failure is not None:
        return 1 if result.failure.of_infrastructure else 2
    return 4


def _news_of_finish(known: MutableState, event: TrialFinished) -> Hashable | None:
    result = event.result
    before = known.results.get(result.key)
    if before is not None and _rank(before) >= _rank(result):
        return None
    return result.key, _rank(result)


def _finish(known: MutableState, event: TrialFinished) -> None:
    if _news_of_finish(known, event):
        known.results[event.result.key] = event.result


def _lose(known: MutableState, event: BatchLost) -> None:
    for key in event.keys:
        known.lost[key] = known.lost.get(key, 0) + 1


def _create(known: MutableState, event: RunsCreated) -> None:
    before = known.runs.get(event.tracking_uri)
    if before is not None and before.experiment_id == event.experiment_id:
        event = replace(event, runs={**before.runs, **event.runs})
    known.runs[event.tracking_uri] = event


def _end(known: MutableState, event: SweepFinished) -> None:
    known.finished.append(event)
    known.status = event.status


KINDS = (
    Kind(event=SweepStarted, name="sweep_started", version=2, take=_begin),
    Kind(event=PointsTold, name="points_told", version=1, take=_warm_start, news=_news_of_told),
    Kind(event=PointProposed, name="point_proposed", version=2, take=_propose, news=_news_of_proposal),
    Kind(event=PointScored, name="point_scored", version=2, take=_score, news=_news_of_score),
    Kind(event=PointsSelected, name="points_selected", version=2, take=_select),
    Kind(event=TrialPlanned, name="trial_planned", version=2, take=_plan, news=_news_of_plan),
    Kind(event=TrialFinished, name="trial_finished", version=2, take=_finish, news=_news_of_finish),
    Kind(event=BatchLost, name="batch_lost", version=1, take=_lose),
    Kind(event=RunsCreated, name="runs_created", version=1, take=_create),
    Kind(event=SweepFinished, name="sweep_finished", version=1, take=_end),
)
BY_EVENT: Mapping[type, Kind] = {kind.event: kind for kind in KINDS}
BY_NAME: Mapping[str, Kind] = {kind.name: kind for kind in KINDS}
