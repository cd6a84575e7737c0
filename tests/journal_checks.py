"""What every journal must do, whatever keeps its rows; checks called one by one by its tests.

Each takes a function that opens one and the same journal, empty at first, after the one before was closed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from mirror_checks import failed, ok, one_of_each, spec

from crowdsweep.record.events import Event, TrialPlanned, TrialProgressed, TrialStarted
from crowdsweep.record.result import Status
from crowdsweep.record.state import JournalState


@runtime_checkable
class WritableJournal(Protocol):
    """What a driver needs of a journal, and whoever opened it."""

    @property
    def state(self) -> JournalState: ...
    def handle(self, event: Event) -> None: ...
    def handle_many(self, events: Iterable[Event]) -> None: ...
    def close(self) -> None: ...


OpenJournal = Callable[[], WritableJournal]


def check_keeps_what_it_is_told(open_journal: OpenJournal) -> None:
    """The state says all that happened, while the journal is open and when it is opened again."""
    good, bad = spec(0), spec(1)
    expected = {
        "name": "a-sweep",
        "status": "done",
        "specs": {good.key: good, bad.key: bad},
        "statuses": {good.key: Status.OK, bad.key: Status.FAILED},
        "metrics": {"test_accuracy": 0.75},
        "lost": {good.key: 1, bad.key: 1},
        "told": [({"smoothing": 0.2}, 0.5, "earlier")],
        "points": [(0, {"smoothing": 0.1})],
        "values": {0: None},
        "selected": (0,),
        "runs": {good.key: "r"},
    }
    journal = open_journal()
    journal.handle_many(one_of_each())
    _expect(_told(journal.state), expected)
    journal.close()
    journal = open_journal()
    _expect(_told(journal.state), expected)
    journal.close()


def check_keeps_no_progress(open_journal: OpenJournal) -> None:
    """That a trial began, and how it comes along, is nothing to go on from."""
    journal = open_journal()
    journal.handle_many(one_of_each())
    rows = journal.state.rows
    passing = (TrialStarted, TrialProgressed)
    _expect(rows, sum(not isinstance(event, passing) for event in one_of_each()))
    for event in (event for event in one_of_each() if isinstance(event, passing)):
        journal.handle(event)
    _expect(journal.state.rows, rows)
    journal.close()


def check_a_trial_stands_there_once(open_journal: OpenJournal) -> None:
    """A trial is planned once for each phase, and finishes once; only success supersedes failure."""
    one, other = spec(0), spec(1)
    journal = open_journal()
    ends: Sequence[Event] = [failed(one.key, "First"), failed(one.key, "Second"), ok(one.key, score=1.0)]
    ends = [*ends, ok(one.key, score=2.0), failed(one.key, "Third"), ok(other.key, score=3.0), failed(other.key)]
    for event in ends:
        journal.handle(event)
    plans = [TrialPlanned(spec=spec(2, phase=phase)) for phase in ("search", "search", "report", "search")]
    journal.handle_many(plans)
    journal.close()
    journal = open_journal()
    journal.handle_many([*ends, *plans])
    _expect(dict(journal.state.results[one.key].metrics), {"score": 1.0})
    _expect(dict(journal.state.results[other.key].metrics), {"score": 3.0})
    _expect([[role.phase for role in roles] for roles in journal.state.roles.values()], [["search", "report"]])
    _expect(journal.state.rows, 3 + 2)
    journal.close()


def check_goes_on_where_it_stopped(open_journal: OpenJournal) -> None:
    """A sweep told to three drivers, one after another, is the sweep that one was told."""
    events = one_of_each()
    for part in (events[:4], events[4:8], events[8:]):
        journal = open_journal()
        before = _told(journal.state)
        journal.handle_many(part)
        journal.close()
        journal = open_journal()
        if _told(journal.state) == before:
            raise AssertionError(f"nothing was kept of {part}")
        journal.close()
    journal = open_journal()
    parted = _told(journal.state)
    journal.handle_many(events)  # what is news of it: drivers, points and runs are told again, trials are not
    _expect(_told(journal.state)["statuses"], parted["statuses"])
    _expect(len(journal.state.specs), len(parted["specs"]))
    _expect(parted["status"], "done")
    journal.close()


CHECKS = (
    check_keeps_what_it_is_told,
    check_keeps_no_progress,
    check_a_trial_stands_there_once,
    check_goes_on_where_it_stopped,
)


def _told(state: JournalState) -> dict[str, Any]:
    """Returns what a state says of `one_of_each`, as plain values that can be compared."""
    ok_metrics = [dict(result.metrics) for result in state.results.values() if result.status is Status.OK]
    return {
        "name": state.name,
        "status": state.status,
        "specs": dict(state.specs),
        "statuses": {key: result.status for key, result in state.results.items()},
        "metrics": ok_metrics[0] if ok_metrics else {},
        "lost": dict(state.lost),
        "told": [(dict(one.point), one.value, one.source) for told in state.told.values() for one in told.points],
        "points": [(point.number, dict(point.point)) for point in state.proposals.get("s", ())],
        "values": dict(state.values.get("s", {})),
        "selected": state.selected.get("s", ()),
        "runs": {key: run for created in state.runs.values() for key, run in created.runs.items()},
    }


def _expect(got: object, expected: object) -> None:
    if got != expected:
        raise AssertionError(f"expected {expected!r}, got {got!r}")
