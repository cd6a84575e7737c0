"""The event loop on a virtual clock: what is run, in which batches, how often, and when it stops."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from crowdsweep.search.contract import Sampler
from crowdsweep.search.searchers import make_searcher
from crowdsweep.sweep.allowance import FEWEST_POINTS, FEWEST_TRIALS, Allowance
from crowdsweep.sweep.driver import (
    Decide,
    Stands,
    SweepOutcome,
    run_again,
    run_sweep,
    stop_nobody,
)
from crowdsweep.sweep.interrupts import Interrupts
from crowdsweep.sweep.plan import SEARCH_SEED, Plan, make_plan
from crowdsweep.sweep.resume import MakeSearcher, hours_spent
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig
from crowdsweep.testing import fakes
from crowdsweep.testing.fakes import FakeClock, FakeExecutor, HistorySearcher, Killed, MemoryJournal
from crowdsweep.trial.artifacts import Artifact
from crowdsweep.trial.events import (
    Event,
    Mirror,
    PointProposed,
    PointScored,
    PointsSelected,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
    TrialProgressed,
    TrialStarted,
)
from crowdsweep.trial.plan_record import PlanRecord
from crowdsweep.trial.result import SLOT_LOST, Failure, Status, TrialResult
from crowdsweep.trial.spec import TrialSpec
from crowdsweep.trial.watch import Watch


def config_of(**changes: Any) -> SweepConfig:
    """A sweep with two fixed cells and one search over fractions."""
    mapping: dict[str, Any] = {
        "name": "tiny",
        "datasets": ["anesthesia"],
        "models": [
            "majority-vote",
            "uniform",
            {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}},
        ],
        "budget": {"points": 10},
        "seeds": {"search": 3, "report": 5, "rescored": 2},
        "pack": 4,
    }
    return parse_sweep({**mapping, **changes})


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(config_of())


def by_seed(spec: TrialSpec) -> Mapping[str, float]:
    smoothing = spec.params.get("smoothing", 0.0)
    return {"heldout_loglik": -((smoothing - 0.3) ** 2) + 0.001 * (spec.seed % 7), "train_accuracy": 0.5}


def drive(
    plan: Plan,
    journal: MemoryJournal,
    score: Callable[[TrialSpec], Mapping[str, float]] = by_seed,
    interrupts: Interrupts | None = None,
    mirrors: Sequence[Mirror] = (),
    kind: type[FakeExecutor] = FakeExecutor,
    decide: Decide = stop_nobody,
    stands: Stands = run_again,
    make_searcher: MakeSearcher = lambda search: HistorySearcher(limit=search.limit),
    retry_failed: bool = False,
    **executor: Any,
) -> tuple[SweepOutcome, FakeExecutor]:
    slots = kind(score=score, **executor)
    outcome = run_sweep(
        plan,
        executor=slots,
        journal=journal,
        make_searcher=make_searcher,
        mirrors=mirrors,
        clock=slots.clock,
        interrupts=interrupts,
        decide=decide,
        stands=stands,
        retry_failed=retry_failed,
    )
    return outcome, slots


def numbers(journal: MemoryJournal) -> dict[str, dict[str, float]]:
    return {key: dict(result.metrics) for key, result in journal.state.results.items()}


def decisions(journal: MemoryJournal) -> list[Event]:
    return [event for event in journal.events if isinstance(event, PointProposed | PointScored | PointsSelected)]


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


def test_a_point_with_a_failed_trial_is_told_as_failed_and_never_wins(plan: Plan) -> None:
    def poisoned(spec: TrialSpec) -> Mapping[str, float]:
        if spec.phase == "search" and spec.seed == SEARCH_SEED and spec.params["smoothing"] < 0.3:
            raise ValueError("boom")
        return by_seed(spec)

    relaxed = make_plan(config_of(budget={"points": 10, "failed_trials": 1.0}))
    journal = MemoryJournal()
    outcome, _ = drive(relaxed, journal, poisoned)
    (search,) = relaxed.searches
    points = [proposal.point["smoothing"] for proposal in journal.state.proposals[search.key]]
    values = journal.state.values[search.key]
    assert {number for number, value in values.items() if value is None} == {
        number for number, point in enumerate(points) if point < 0.3
    }
    assert outcome.failed == sum(point < 0.3 for point in points) > 0
    assert all(values[number] is not None for number in journal.state.selected[search.key])


def test_a_search_trial_without_the_metric_is_failed_and_says_which_there_are(plan: Plan) -> None:
    journal = MemoryJournal()
    outcome, _ = drive(plan, journal, lambda spec: {"train_accuracy": 1.0})
    failures = [result.failure for result in journal.state.results.values() if result.failure]
    assert {failure.kind for failure in failures} == {"MissingMetric"}
    assert "heldout_loglik" in failures[0].message
    assert "train_accuracy" in failures[0].message
    assert outcome.status == "over_budget"


def test_the_failure_budget_stops_a_sweep_that_goes_wrong() -> None:
    many = make_plan(config_of(models=["majority-vote"], seeds={"report": 100}, pack=1))

    def always(spec: TrialSpec) -> Mapping[str, float]:
        raise ValueError("boom")

    journal = MemoryJournal()
    outcome, slots = drive(many, journal, always)
    assert outcome.status == "over_budget"
    assert 10 < outcome.failed <= 10 + 1 + slots.slots  # a tenth, and what was running
    assert journal.state.status == "over_budget"
    again, slots = drive(many, MemoryJournal(journal.events), always)
    assert (again.status, again.ran) == ("over_budget", 0)


def test_a_few_failures_of_a_small_sweep_do_not_stop_it() -> None:
    small = make_plan(config_of(models=["majority-vote"], seeds={"report": 6}))

    def some(spec: TrialSpec) -> Mapping[str, float]:
        if spec.seed < FEWEST_TRIALS:
            raise ValueError("boom")
        return by_seed(spec)

    outcome, _ = drive(small, MemoryJournal(), some)
    assert (outcome.status, outcome.failed, outcome.finished) == ("done", FEWEST_TRIALS, 6)


def test_a_share_of_the_points_may_fail_and_at_least_a_few() -> None:
    cell = make_plan(config_of()).cells[0]
    reported = cell.specs(range(5), "report")
    searched = cell.specs(range(100, 103), "search")
    few = Allowance(share=0.1, n_points=4, n_search=3, n_report=5)
    assert not few.exceeded([*reported * FEWEST_POINTS])
    assert few.exceeded([*reported * FEWEST_POINTS, searched[0]])
    assert not few.exceeded([*searched * FEWEST_POINTS])
    assert few.exceeded([*searched * FEWEST_POINTS, reported[0]])
    many = Allowance(share=0.1, n_points=200, n_search=3, n_report=5)
    assert not many.exceeded(searched * 20)
    assert many.exceeded([*searched * 20, searched[0]])
    assert (str(few), str(many)) == ("3 of 4 points", "20 of 200 points")


@pytest.mark.parametrize("disorder", range(3))
def test_bad_points_of_a_small_search_do_not_end_the_sweep(disorder: int) -> None:
    small = make_plan(config_of(budget={"points": 5}, seeds={"search": 3, "report": 2}))
    bad: list[str] = []

    def diverging(spec: TrialSpec) -> Mapping[str, float]:
        if spec.phase == "search" and spec.params["smoothing"] > 0.7:
            bad.append(spec.key)
            raise ValueError("the objective is nan")
        return by_seed(spec)

    journal = MemoryJournal()
    outcome, _ = drive(small, journal, diverging, disorder=disorder)
    assert bad, "no point was bad: the test did not test anything"
    assert (outcome.status, outcome.failed, outcome.finished) == ("done", len(bad), outcome.planned)
    assert all(journal.state.selected.values())


@pytest.mark.parametrize("disorder", range(3))
def test_failed_trials_run_again_only_when_asked_to(plan: Plan, disorder: int) -> None:
    """And their searches end as those of a sweep that never failed, but for the points that were asked for since."""

    def broken(spec: TrialSpec) -> Mapping[str, float]:
        if spec.model == "uniform" or (spec.phase == "search" and spec.seed == SEARCH_SEED):
            raise ValueError("no memory left on this machine")
        return by_seed(spec)

    lenient = make_plan(config_of(budget={"points": 10, "failed_trials": 1.0}))
    journal = MemoryJournal()
    outcome, _ = drive(lenient, journal, broken, disorder=disorder)
    assert (outcome.status, outcome.failed) == ("done", 5 + 10)
    (search,) = lenient.searches
    assert set(journal.state.values[search.key].values()) == {None}
    same, slots = drive(lenient, MemoryJournal(list(journal.events)))
    assert (same.ran, same.failed, slots.ran) == (0, 15, [])
    retried = MemoryJournal(list(journal.events))
    again, slots = drive(lenient, retried, retry_failed=True, disorder=disorder + 7)
    assert (again.status, again.failed) == ("done", 0)
    assert Counter(slots.ran).most_common(1)[0][1] == 1
    assert {result.status for result in retried.state.results.values()} == {Status.OK}
    assert None not in retried.state.values[search.key].values()
    best = max(retried.state.values[search.key], key=lambda number: retried.state.values[search.key][number] or -9.0)
    assert retried.state.selected[search.key][0] == best
    assert retried.state.proposals == journal.state.proposals


@pytest.mark.parametrize("disorder", range(4))
def test_what_infrastructure_lost_is_tried_again_and_told_to_no_search(plan: Plan, disorder: int) -> None:
    class Losing(FakeExecutor):
        """Every third trial is lost with its slot."""

        def poll(self, timeout_s: float) -> Sequence[Event]:
            return [
                self.lost(event) if isinstance(event, TrialFinished) else event for event in super().poll(timeout_s)
            ]

        def lost(self, event: TrialFinished) -> TrialFinished:
            if int(event.result.key, 16) % 3:
                return event
            failure = Failure(kind=SLOT_LOST, message="its node is gone")
            return TrialFinished(result=TrialResult(key=event.result.key, status=Status.FAILED, failure=failure))

    reference, journal = MemoryJournal(), MemoryJournal()
    drive(plan, reference)
    outcome, _ = drive(plan, journal, kind=Losing, disorder=disorder)
    assert outcome.status == "incomplete"
    assert (outcome.failed, outcome.lost > 0) == (0, True)
    resumed = MemoryJournal(list(journal.events))
    again, _ = drive(plan, resumed, disorder=disorder + 3)
    assert (again.status, again.lost) == ("done", 0)
    assert numbers(resumed) == numbers(reference)
    assert by_point(resumed) == by_point(reference)


def test_a_search_whose_proposer_fails_leaves_the_others_alone() -> None:
    two = make_plan(
        config_of(
            models=[
                "majority-vote",
                {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}},
                {"name": "dawid-skene", "label": "other", "search": {"smoothing": {"min": 0.0, "max": 0.9}}},
            ]
        )
    )
    broken, sound = two.searches

    class Breaking(HistorySearcher):
        def tell(self, number: int, value: float | None) -> None:
            if number == 2:
                raise RuntimeError("singular matrix")
            super().tell(number, value)

    def searcher_of(search: Any) -> HistorySearcher:
        return (Breaking if search.key == broken.key else HistorySearcher)(limit=search.limit)

    journal = MemoryJournal()
    outcome, _ = drive(two, journal, make_searcher=searcher_of)
    assert outcome.status == "incomplete"
    assert outcome.broken == (
        f"the search of dawid-skene on {broken.cell.dataset} failed: RuntimeError: singular matrix",
    )
    assert len(journal.state.selected[sound.key]) == 2
    assert broken.key not in journal.state.selected
    resumed = MemoryJournal(list(journal.events))
    again, _ = drive(two, resumed)
    assert again.status == "done"
    assert len(resumed.state.selected[broken.key]) == 2


def test_ctrl_c_finishes_what_runs_and_takes_back_what_does_not(plan: Plan) -> None:
    interrupts = Interrupts()

    class Person:
        def handle(self, event: Event) -> None:
            if isinstance(event, TrialStarted):
                interrupts.count = 1

        def close(self) -> None: ...

    journal = MemoryJournal()
    outcome, slots = drive(plan, journal, interrupts=interrupts, mirrors=[Person()], slots=2)
    begun, waiting = slots.batches[:2], slots.batches[2]
    assert outcome.status == "interrupted"
    assert sorted(slots.ran) == sorted(spec.key for batch in begun for spec in batch.specs)
    assert slots.taken_back == [spec.key for spec in waiting.specs]
    resumed = MemoryJournal(journal.events)
    again, _ = drive(plan, resumed)
    assert again.status == "done"
    reference = MemoryJournal()
    drive(plan, reference)
    assert numbers(resumed) == numbers(reference)


def test_the_second_ctrl_c_stops_now(plan: Plan) -> None:
    interrupts = Interrupts()

    def score(spec: TrialSpec) -> Mapping[str, float]:
        interrupts.count = 2
        return by_seed(spec)

    outcome, _ = drive(plan, MemoryJournal(), score, interrupts, slots=3)
    assert outcome.status == "interrupted"
    assert outcome.ran <= 4  # the one batch that had ended


RACING: dict[str, Any] = {"early_stop": {"kind": "wilcoxon"}, "seeds": {"search": 8, "report": 5, "rescored": 2}}


@pytest.fixture(scope="module")
def raced() -> Plan:
    return make_plan(config_of(**RACING))


def searched(journal: MemoryJournal, plan: Plan) -> list[list[int]]:
    """The search seeds that each point of the only search ran on, counted from the first."""
    (search,) = plan.searches
    ran: dict[float, list[int]] = {}
    for key in journal.state.results:
        spec = journal.state.specs[key]
        if spec.phase == "search":
            ran.setdefault(spec.params["smoothing"], []).append(spec.seed - SEARCH_SEED)
    return [sorted(ran[proposal.point["smoothing"]]) for proposal in journal.state.proposals[search.key]]


def losses(plan: Plan, journal: MemoryJournal) -> list[float]:
    (search,) = plan.searches
    return [(proposal.point["smoothing"] - 0.3) ** 2 for proposal in journal.state.proposals[search.key]]


def test_hopeless_points_are_not_run_on_all_seeds(raced: Plan) -> None:
    """`by_seed` differs between points by the same at every seed, so a point is hopeless if and only if it is worse
    than the best that it is held against: those at least four numbers earlier, all seeds of which were run."""
    journal = MemoryJournal()
    outcome, slots = drive(raced, journal)
    seeds, loss = searched(journal, raced), losses(raced, journal)
    whole, stopped = list(range(8)), list(range(4))
    expected: list[list[int]] = []
    for number in range(10):
        rivals = [loss[rival] for rival in range(number - 3) if expected[rival] == whole]
        expected.append(stopped if rivals and loss[number] > min(rivals) else whole)
    assert seeds == expected
    assert stopped in seeds
    assert outcome.status == "done"
    assert Counter(slots.ran) == dict.fromkeys(journal.state.specs, 1)
    assert outcome.planned == outcome.finished == sum(map(len, seeds)) + 2 * 5 + 2 * 5


def test_a_stopped_point_is_worth_the_best_less_what_it_is_behind_on_the_same_seeds(raced: Plan) -> None:
    """The first seeds are easier by 10: a point that skipped the others must not look better for it."""

    def score(spec: TrialSpec) -> Mapping[str, float]:
        easier = 10.0 if spec.seed - SEARCH_SEED < 4 else 0.0
        return {"heldout_loglik": by_seed(spec)["heldout_loglik"] + easier}

    journal = MemoryJournal()
    drive(raced, journal, score)
    (search,) = raced.searches
    values, loss = journal.state.values[search.key], losses(raced, journal)
    mean = sum(0.001 * ((SEARCH_SEED + seed) % 7) for seed in range(8)) / 8 + 5.0
    assert [values[number] for number in range(10)] == pytest.approx([mean - part for part in loss])
    assert journal.state.selected[search.key][0] == loss.index(min(loss))


@pytest.mark.parametrize(("kind", "slots"), [("tpe", 1), ("tpe", 3), ("random", 50)])
def test_races_do_not_depend_on_slots_timing_or_a_driver_that_dies(kind: str, slots: int) -> None:
    plan = make_plan(config_of(**RACING, sampler={"kind": kind}))
    reference = MemoryJournal()
    drive(plan, reference)
    assert list(range(4)) in searched(reference, plan)
    for disorder in range(3):
        other = MemoryJournal()
        drive(plan, other, disorder=disorder, slots=slots)
        assert (by_point(other), numbers(other)) == (by_point(reference), numbers(reference))
    for dies_after in range(0, len(reference.state.results), 11):
        journal = MemoryJournal()
        with pytest.raises(Killed):
            drive(plan, journal, slots=slots, disorder=dies_after, die_after=dies_after)
        resumed = MemoryJournal(journal.events)
        before = set(resumed.state.results)
        outcome, again = drive(plan, resumed, disorder=dies_after + 1)
        assert before.isdisjoint(again.ran), "a finished trial was run again"
        assert (by_point(resumed), numbers(resumed)) == (by_point(reference), numbers(reference))
        assert outcome.planned == outcome.finished == len(reference.state.results)


def by_point(journal: MemoryJournal) -> list[Event]:
    """The decisions, in an order that does not depend on when points were asked for."""
    return sorted(decisions(journal), key=lambda event: (type(event).__name__, getattr(event, "number", -1)))


def test_a_point_that_fails_in_its_first_seeds_gets_no_more(raced: Plan) -> None:
    def poisoned(spec: TrialSpec) -> Mapping[str, float]:
        if spec.phase == "search" and spec.params["smoothing"] < 0.3 and spec.seed == SEARCH_SEED:
            raise ValueError("boom")
        return by_seed(spec)

    plan = make_plan(config_of(**RACING, budget={"points": 10, "failed_trials": 1.0}))
    journal = MemoryJournal()
    drive(plan, journal, poisoned)
    (search,) = plan.searches
    failed = [number for number, value in journal.state.values[search.key].items() if value is None]
    assert failed
    assert all(searched(journal, plan)[number] == list(range(4)) for number in failed)


def test_trials_that_were_run_for_another_metric_fail_a_point_and_not_the_sweep() -> None:
    """The metric of the sweep file was changed: the first points are asked for again, and lack it."""
    events: list[Event] = []
    drive(make_plan(config_of(metric="train_kl")), MemoryJournal(events), lambda spec: {"train_kl": 1.0})
    changed = make_plan(config_of(metric="train_js"))
    journal = MemoryJournal(events)
    outcome, _ = drive(changed, journal, lambda spec: {"train_js": 1.0})
    assert outcome.status == "done"
    values = journal.state.values[changed.searches[0].key]
    assert values[0] is None
    assert 1.0 in values.values()


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


class ReportingExecutor(FakeExecutor):
    """Each trial reports at steps 1, 2, 3 before its batch ends, and stops where it is told to, far worse than it would
    have been."""

    heard: list[TrialProgressed]
    told: set[str]

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        self.listener, self.heard, self.told = listener, [], set()

    def stop(self, key: str) -> None:
        self.told.add(key)
        super().stop(key)

    def poll(self, timeout_s: float) -> Sequence[Event]:
        events: list[Event] = []
        for event in super().poll(timeout_s):
            if not isinstance(event, TrialFinished):
                events.append(event)
                continue
            key, steps = event.result.key, 0
            while steps < 3 and key not in self.told:
                steps += 1
                self.listener(TrialProgressed(key=key, step=steps, objective=0.0, score=steps / 4))
            result = replace(event.result, iterations=steps)
            if key in self.told:
                worse = {name: value - 100.0 for name, value in result.metrics.items()}
                result = replace(result, status=Status.STOPPED, metrics=worse)
            events.append(TrialFinished(result=result))
        return events


def test_each_batch_is_watched_by_the_metric_of_its_search_every_so_many_steps() -> None:
    searched = {"name": "soft-mv", "search": {"dropout": {"values": [0.0, 0.5]}}}
    plan = make_plan(config_of(datasets=["digits"], models=["majority-vote", searched], report_every=7))
    _, slots = drive(
        plan,
        MemoryJournal(),
        lambda spec: {"dev_accuracy": 0.5},
        make_searcher=lambda search: make_searcher(search.space, Sampler(), search.metric.goal, search.limit),
    )
    seen = {(batch.specs[0].model, batch.specs[0].phase): batch.watch for batch in slots.batches}
    assert seen == {
        ("majority-vote", "report"): Watch(metric="heldout_loglik", every=7),
        ("soft-mv", "search"): Watch(metric="dev_accuracy", every=7),
        ("soft-mv", "report"): Watch(metric="dev_accuracy", every=7),
    }
    asked = make_plan(config_of(datasets=["digits"], models=["soft-mv"], metric="dev_kl"))
    _, slots = drive(asked, MemoryJournal(), lambda spec: {"dev_kl": 0.5})
    assert {batch.watch for batch in slots.batches} == {Watch(metric="dev_kl", every=10)}


def test_whoever_decides_hears_every_report_and_stops_trials() -> None:
    """A rule that stops whoever gets to step 2 with an odd seed."""
    plan = make_plan(config_of(models=["majority-vote"], seeds={"report": 6}))
    heard: list[Event] = []

    class Mirror:
        def handle(self, event: Event) -> None:
            if isinstance(event, TrialProgressed):
                heard.append(event)

        def close(self) -> None: ...

    seed_of = {spec.key: spec.seed for spec in plan.cells[0].report_specs(plan.report_seeds)}
    asked: list[TrialProgressed] = []

    def decide(event: TrialProgressed) -> list[str]:
        asked.append(event)
        return [event.key, "no such trial"] if event.step == 2 and seed_of[event.key] % 2 else []

    journal = MemoryJournal()
    outcome, _ = drive(plan, journal, mirrors=[Mirror()], kind=ReportingExecutor, decide=decide)
    assert (outcome.status, outcome.finished, outcome.failed) == ("done", 6, 0)
    ended = {seed_of[key]: (result.status, result.iterations) for key, result in journal.state.results.items()}
    assert ended == {seed: (Status.STOPPED, 2) if seed % 2 else (Status.OK, 3) for seed in range(6)}
    assert heard == asked
    assert len(asked) == 3 * 3 + 3 * 2


def test_a_stopped_trial_is_run_again_unless_whoever_stopped_it_says_that_it_stands() -> None:
    plan = make_plan(config_of(models=["majority-vote"], seeds={"report": 6}))
    journal = MemoryJournal()
    drive(plan, journal, kind=ReportingExecutor, decide=lambda event: [event.key] if event.step == 1 else [])
    assert {result.status for result in journal.state.results.values()} == {Status.STOPPED}
    standing, slots = drive(plan, MemoryJournal(list(journal.events)), stands=lambda result: result.iterations == 1)
    assert (standing.finished, slots.ran) == (6, [])
    resumed = MemoryJournal(list(journal.events))
    outcome, slots = drive(plan, resumed)
    assert (outcome.finished, len(slots.ran)) == (6, 6)
    assert {result.status for result in resumed.state.results.values()} == {Status.OK}


def test_a_trial_that_a_driver_stops_as_it_ends_tells_a_search_nothing(plan: Plan) -> None:
    """It had begun when it was taken back, and comes back stopped, with the score of its first step."""
    interrupts = Interrupts()

    class Person:
        def handle(self, event: Event) -> None:
            if isinstance(event, TrialFinished):
                interrupts.count = 1

        def close(self) -> None: ...

    class Late(ReportingExecutor):
        def stop(self, key: str) -> None:
            self.told.add(key)  # it waits no more: it has begun

    journal = MemoryJournal()
    outcome, _ = drive(plan, journal, interrupts=interrupts, mirrors=[Person()], slots=2, kind=Late)
    stopped = {key for key, result in journal.state.results.items() if result.status is Status.STOPPED}
    assert outcome.status == "interrupted"
    assert stopped
    assert outcome.finished == len(journal.state.results) - len(stopped)
    resumed = MemoryJournal(list(journal.events))
    _, again = drive(plan, resumed)
    assert stopped <= set(again.ran)
    reference = MemoryJournal()
    drive(plan, reference)
    assert numbers(resumed) == numbers(reference)
    assert by_point(resumed) == by_point(reference)


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
