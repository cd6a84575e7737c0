"""The event loop on a virtual clock: what is run, in which batches, how often, and when it stops."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import fakes
import numpy as np
import pytest
from driven import by_seed, config_of, decisions, drive, numbers
from fakes import FakeClock, FakeExecutor, HistorySearcher, Killed, MemoryJournal

from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.events import (
    Event,
    PointProposed,
    PointScored,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
)
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.driver import (
    run_sweep,
)
from crowdsweep.sweep.plan import SEARCH_SEED, Plan, make_plan
from crowdsweep.sweep.resume import hours_spent


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(config_of())


def test_everything_planned_is_run_exactly_once(plan: Plan) -> None:
    journal = MemoryJournal()
    outcome, slots = drive(plan, journal)
    assert outcome.status == "done"
    assert outcome.failed == 0
    assert Counter(slots.ran) == dict.fromkeys(journal.state.specs, 1)
    assert outcome.planned == outcome.finished == outcome.ran == 2 * 5 + 10 * 3 + 2 * 5 == plan.n_trials
    seeds = {spec.seed for spec in journal.state.specs.values() if spec.phase == "search"}
    assert seeds == {SEARCH_SEED, SEARCH_SEED + 1, SEARCH_SEED + 2}


def test_the_best_points_are_rescored_on_fresh_seeds(plan: Plan) -> None:
    journal = MemoryJournal()
    drive(plan, journal)
    (search,) = plan.searches
    values = journal.state.values[search.key]
    best = sorted(values, key=lambda number: -values[number])[:2]
    assert list(journal.state.selected[search.key]) == best
    points = [journal.state.proposals[search.key][number].point for number in best]
    reported = {s.params["smoothing"] for s in journal.state.specs.values() if s.phase == "report" and s.point}
    assert reported == {point["smoothing"] for point in points}


def selected_smoothings(plan: Plan, journal: MemoryJournal) -> list[float]:
    (search,) = plan.searches
    proposals = journal.state.proposals[search.key]
    return [proposals[number].point["smoothing"] for number in journal.state.selected[search.key]]


def flag_below(monkeypatch: pytest.MonkeyPatch, smoothing: float, seeds: int) -> None:
    """Flags the trials of these points, of the first so many search seeds."""
    plain = fakes.scored

    def flagged(spec: TrialSpec, score: Callable[[TrialSpec], Mapping[str, float]]) -> TrialResult:
        hit = spec.params.get("smoothing", 1.0) < smoothing and spec.seed - SEARCH_SEED < seeds
        return replace(plain(spec, score), flags=("permuted",) if hit else ())

    monkeypatch.setattr(fakes, "scored", flagged)


def test_flagged_points_do_not_win_by_heldout_answers(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best value is at .3. A point is out with two of its three fits, in again where all points are out."""
    flag_below(monkeypatch, 0.5, seeds=2)
    journal = MemoryJournal()
    drive(plan, journal)
    assert min(selected_smoothings(plan, journal)) >= 0.5
    flag_below(monkeypatch, 2.0, seeds=3)
    everywhere = MemoryJournal()
    drive(plan, everywhere)
    assert min(selected_smoothings(plan, everywhere)) < 0.5


def test_one_flag_of_three_leaves_a_point_in(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    flag_below(monkeypatch, 0.5, seeds=1)
    journal = MemoryJournal()
    drive(plan, journal)
    assert min(selected_smoothings(plan, journal)) < 0.5


@pytest.mark.parametrize("disorder", range(6))
@pytest.mark.parametrize("slots", [1, 2, 7])
def test_what_a_search_decides_does_not_depend_on_slots_or_timing(plan: Plan, disorder: int, slots: int) -> None:
    reference, other = MemoryJournal(), MemoryJournal()
    drive(plan, reference)
    drive(plan, other, disorder=disorder, slots=slots)
    assert decisions(other) == decisions(reference)
    assert numbers(other) == numbers(reference)


@pytest.mark.parametrize("disorder", [0, 1])
def test_a_driver_that_dies_anywhere_is_gone_on_with(plan: Plan, disorder: int) -> None:
    reference = MemoryJournal()
    drive(plan, reference)
    for dies_after in range(0, plan.n_trials, 3):
        journal = MemoryJournal()
        with pytest.raises(Killed):
            drive(plan, journal, disorder=disorder, die_after=dies_after)
        resumed = MemoryJournal(journal.events)
        before = set(resumed.state.results)
        outcome, slots = drive(plan, resumed, disorder=disorder + 10)
        assert outcome.status == "done"
        assert before.isdisjoint(slots.ran), "a finished trial was run again"
        assert numbers(resumed) == numbers(reference)
        assert decisions(resumed) == decisions(reference)


def test_a_journal_cut_anywhere_gives_the_same_sweep(plan: Plan) -> None:
    """The driver may also die between two rows of one write."""
    reference = MemoryJournal()
    drive(plan, reference)
    for cut in range(1, len(reference.events), 5):
        resumed = MemoryJournal(list(reference.events[:cut]))
        drive(plan, resumed, disorder=cut)
        assert numbers(resumed) == numbers(reference)
        assert decisions(resumed) == decisions(reference)


def _raced() -> Plan:
    return make_plan(config_of(early_stop={"kind": "wilcoxon"}, seeds={"search": 6, "report": 2, "rescored": 2}))


@pytest.mark.parametrize("share", [0.6, 1.0])
@pytest.mark.parametrize("make", [lambda: make_plan(config_of()), _raced], ids=["plain", "raced"])
def test_a_lost_row_comes_back_as_it_was(make: Callable[[], Plan], share: float) -> None:
    """Whichever it is: what a search proposed, what a point was worth, the plan or the end of a trial."""
    plan = make()
    reference = MemoryJournal()
    drive(plan, reference)
    events = list(reference.events[: round(share * len(reference.events))])
    searched = [place for place, event in enumerate(events) if isinstance(event, PointProposed | PointScored)]
    others = [place for place in range(len(events)) if place not in searched][::7]
    for lost in [*searched, *others]:
        resumed = MemoryJournal([*events[:lost], *events[lost + 1 :]])
        outcome, slots = drive(plan, resumed, disorder=lost)
        assert outcome.status == "done"
        assert numbers(resumed) == numbers(reference)
        assert in_order(resumed) == in_order(reference)
        again = [event.result.key for event in (events[lost],) if isinstance(event, TrialFinished)]
        before = {event.result.key for event in events if isinstance(event, TrialFinished)}
        assert [key for key in slots.ran if key in before] == again, "only the trial whose end was lost is run again"


def in_order(journal: MemoryJournal) -> tuple[Any, ...]:
    """What the searches decided, whenever it was written down."""
    state = journal.state
    return {key: list(points) for key, points in state.proposals.items()}, state.values, state.selected


def test_a_finished_sweep_runs_nothing_more(plan: Plan) -> None:
    journal = MemoryJournal()
    drive(plan, journal)
    outcome, slots = drive(plan, MemoryJournal(journal.events))
    assert (outcome.status, outcome.ran, slots.ran) == ("done", 0, [])


def test_a_larger_budget_goes_on_with_the_same_search(plan: Plan) -> None:
    journal = MemoryJournal()
    drive(plan, journal)
    larger = make_plan(config_of(budget={"points": 14}))
    outcome, slots = drive(larger, MemoryJournal(journal.events))
    assert outcome.status == "done"
    searched = [spec for batch in slots.batches for spec in batch.specs if spec.phase == "search"]
    assert len(searched) == 4 * 3


def test_batches_hold_one_cell_and_at_most_pack_trials_and_never_flood_the_slots(plan: Plan) -> None:
    _, slots = drive(plan, MemoryJournal(), slots=3)
    assert all(len({spec.cell_key for spec in batch.specs}) == 1 for batch in slots.batches)
    assert max(len(batch.specs) for batch in slots.batches) <= 4
    assert slots.most_in_flight <= 3 + 1


def test_what_a_search_has_chosen_is_handed_over_before_what_others_still_search() -> None:
    """A person sees an answer soon: it does not wait for all points that another search has come up with."""
    short, long = {"values": [0.5, 0.7]}, {"min": 0.0, "max": 1.0}
    models = [
        {"name": "dawid-skene", "label": "short", "search": {"smoothing": short}},
        {"name": "dawid-skene", "label": "long", "search": {"smoothing": long}},
    ]
    both = make_plan(config_of(models=models, sampler={"parallel": 10}, pack=1))
    _, slots = drive(both, MemoryJournal(), slots=1)
    phases = [batch.specs[0].phase for batch in slots.batches]
    first = phases.index("report")
    assert "search" not in phases[first : first + 5]
    assert "search" in phases[first + 5 :]


def test_one_cell_is_spread_over_all_slots() -> None:
    lone = make_plan(config_of(models=["majority-vote"], seeds={"report": 12}, pack=20))
    _, slots = drive(lone, MemoryJournal(), slots=4)
    assert [len(batch.specs) for batch in slots.batches] == [3, 3, 3, 3]


@pytest.mark.parametrize("parallel", [1, 4, 7])
def test_so_many_points_are_open_as_the_sampler_says(parallel: int) -> None:
    journal = MemoryJournal()
    drive(make_plan(config_of(sampler={"parallel": parallel})), journal, slots=50)
    proposed = scored = most = 0
    for event in journal.events:
        proposed += isinstance(event, PointProposed)
        scored += isinstance(event, PointScored)
        most = max(most, proposed - scored)
    assert most == parallel


def test_results_are_durable_before_mirrors_hear_of_them(plan: Plan) -> None:
    journal = MemoryJournal()

    class Mirror:
        def handle(self, event: Event) -> None:
            if isinstance(event, TrialFinished):
                assert event.result.key in journal.state.results
            if isinstance(event, TrialPlanned):
                assert event.spec.key in journal.state.specs
            seen.append(event)

        def close(self) -> None:
            seen.append(None)

    seen: list[Event | None] = []
    slots = FakeExecutor(score=by_seed)
    run_sweep(
        plan, executor=slots, journal=journal, make_searcher=lambda s: HistorySearcher(s.limit), mirrors=[Mirror()]
    )
    assert isinstance(seen[-2], SweepFinished)
    assert seen[-1] is None
    assert sum(isinstance(event, TrialFinished) for event in seen) == plan.n_trials


def test_a_mirror_that_fails_is_reported_once_and_loses_nothing(plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def handle(self, event: Event) -> None:
            raise OSError("the database is locked")

        def close(self) -> None:
            raise OSError("still locked")

    journal, slots = MemoryJournal(), FakeExecutor(score=by_seed)
    outcome = run_sweep(
        plan, executor=slots, journal=journal, make_searcher=lambda s: HistorySearcher(s.limit), mirrors=[Broken()]
    )
    assert outcome.status == "done"
    assert len(journal.state.results) == plan.n_trials
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert "the database is locked" in caplog.text


def test_hours_count_all_drivers_of_a_sweep() -> None:
    short = make_plan(config_of(budget={"points": 10, "hours": 3 / 3600}))
    events: list[Event] = []
    ran: list[int] = []
    for start in (0.0, 1000.0, 2000.0):
        outcome, _ = drive(short, MemoryJournal(events), clock=FakeClock(start))
        assert outcome.status == "out_of_time"
        ran.append(outcome.ran)
    assert ran[0] > 0
    assert ran[1:] == [0, 0]
    longer = make_plan(config_of(budget={"points": 10, "hours": 1.0}))
    assert drive(longer, MemoryJournal(events), clock=FakeClock(3000.0))[0].status == "done"


@pytest.mark.parametrize("jump_s", [-3600.0, 7200.0])
def test_hours_are_those_of_a_watch_whatever_the_clock_is_set_to(jump_s: float) -> None:
    short = make_plan(config_of(budget={"points": 10, "hours": 3 / 3600}))
    slots, journal = FakeExecutor(score=by_seed), MemoryJournal()
    times = iter([1e9])

    def clock() -> float:
        return next(times, 1e9 + jump_s)  # set when the sweep has begun

    outcome = run_sweep(
        short,
        executor=slots,
        journal=journal,
        make_searcher=lambda s: HistorySearcher(s.limit),
        clock=clock,
        watch=slots.clock,
    )
    assert outcome.status == "out_of_time"
    assert outcome.ran == drive(short, MemoryJournal())[0].ran > 0


def test_hours_of_a_driver_that_died_are_those_of_its_trials() -> None:
    """Two spans that ended, 2 h and 3 h; one that did not, of which only the trials tell."""
    journal = MemoryJournal()
    for status, time in ((None, 0), (SweepStatus.DONE, 2), (None, 5), (None, 9), (SweepStatus.DONE, 12)):
        seconds = time * 3600.0
        if status:
            journal.handle(SweepFinished(status=status, time=seconds))
        else:
            journal.handle(
                SweepStarted(name="s", config={}, plan=PlanRecord(), environment={}, resumed=False, time=seconds)
            )
    assert hours_spent(journal.state, slots=2) == pytest.approx(5)
    for number in range(6):
        journal.handle(TrialFinished(result=TrialResult(key=str(number), status=Status.OK, wall_s=2 * 3600.0)))
    assert hours_spent(journal.state, slots=2) == pytest.approx(6)
    assert hours_spent(journal.state, slots=100) == pytest.approx(5)


def test_hours_end_a_sweep_that_can_go_on(plan: Plan) -> None:
    short = make_plan(config_of(budget={"points": 10, "hours": 3 / 3600}))
    journal = MemoryJournal()
    outcome, _ = drive(short, journal)
    assert outcome.status == "out_of_time"
    assert 0 < outcome.ran < short.n_trials


def test_a_sweep_whose_time_is_up_while_its_last_trials_run_is_done(plan: Plan) -> None:
    class Timed(FakeExecutor):
        def poll(self, timeout_s: float) -> Sequence[Event]:
            events = super().poll(timeout_s)
            times.append(clock.now)
            return events

    times, clock = list[float](), FakeClock()
    drive(plan, MemoryJournal(), kind=Timed, clock=clock)
    *_, last_but_one, last = sorted(set(times))
    short = make_plan(config_of(budget={"points": 10, "hours": (last_but_one - 1e-6) / 3600}))
    outcome, _ = drive(short, MemoryJournal(), clock=FakeClock())
    assert last_but_one < last
    assert (outcome.status, outcome.finished) == ("done", plan.n_trials)


def test_arrays_are_put_away_before_the_row_that_names_them(plan: Plan) -> None:
    class Carrying(FakeExecutor):
        def poll(self, timeout_s: float) -> Sequence[Event]:
            return [
                TrialFinished(result=replace(event.result, artifacts={"shares": np.array([0.5, 0.25])}))
                if isinstance(event, TrialFinished)
                else event
                for event in super().poll(timeout_s)
            ]

    class Watching(MemoryJournal):
        def handle_many(self, events: Iterable[Event]) -> None:
            for event in (events := list(events)):
                if isinstance(event, TrialFinished):
                    named.update(f"artifacts/{artifact.digest}.npy" for artifact in event.result.kept.values())
                    assert named <= self.files.keys()
                    assert not event.result.artifacts
            super().handle_many(events)

    named: set[str] = set()
    journal = Watching()
    drive(plan, journal, kind=Carrying)
    assert len(journal.files) == 1, "the same array is kept once"
    (artifact,) = {tuple(result.kept.items()) for result in journal.state.results.values()}
    assert artifact == (("shares", Artifact(digest=artifact[0][1].digest, dtype="<f8", shape=(2,))),)


def test_a_model_named_twice_shares_its_trials() -> None:
    twice = make_plan(config_of(models=["majority-vote", {"name": "majority-vote", "label": "again"}]))
    journal = MemoryJournal()
    outcome, slots = drive(twice, journal)
    assert (outcome.planned, len(slots.ran)) == (5, 5)
