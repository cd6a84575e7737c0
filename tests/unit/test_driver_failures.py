"""The event loop when trials, points, searches or slots fail, and when a person breaks it off."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from driven import by_point, by_seed, config_of, drive, numbers
from fakes import FakeExecutor, HistorySearcher, MemoryJournal

from crowdsweep.record.events import (
    Event,
    TrialFinished,
    TrialStarted,
)
from crowdsweep.record.result import SLOT_LOST, Failure, Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweep.allowance import FEWEST_POINTS, FEWEST_TRIALS, Allowance
from crowdsweep.sweep.interrupts import Interrupts
from crowdsweep.sweep.plan import SEARCH_SEED, Plan, make_plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(config_of())


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
        def tell(self, number: int, value: float | None, further: Sequence[float] = ()) -> None:
            if number == 2:
                raise RuntimeError("singular matrix")
            super().tell(number, value, further)

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
