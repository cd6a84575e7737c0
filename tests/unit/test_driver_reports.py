"""The event loop and what running trials report: learning curves, progress, stops."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from driven import by_point, config_of, drive, numbers
from fakes import FakeExecutor, MemoryJournal

from crowdsweep.record.events import (
    Event,
    TrialFinished,
    TrialProgressed,
)
from crowdsweep.record.result import Status
from crowdsweep.sweep.interrupts import Interrupts
from crowdsweep.sweep.plan import Plan, make_plan
from crowdsweep.sweep.search_run import searcher_of
from crowdsweep.trial.learning_curve import CurveSpec


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(config_of())


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


def test_each_batch_has_a_learning_curve_of_the_metric_of_its_search_every_so_many_steps() -> None:
    searched = {"name": "soft-mv", "search": {"dropout": {"values": [0.0, 0.5]}}}
    plan = make_plan(config_of(datasets=["digits"], models=["majority-vote", searched], report_every=7))
    _, slots = drive(
        plan,
        MemoryJournal(),
        lambda spec: {"dev_accuracy": 0.5},
        make_searcher=searcher_of,
    )
    seen = {(batch.specs[0].model, batch.specs[0].phase): batch.curve_spec for batch in slots.batches}
    assert seen == {
        ("majority-vote", "report"): CurveSpec(metric="heldout_loglik", every=7),
        ("soft-mv", "search"): CurveSpec(metric="dev_accuracy", every=7),
        ("soft-mv", "report"): CurveSpec(metric="dev_accuracy", every=7),
    }
    asked = make_plan(config_of(datasets=["digits"], models=["soft-mv"], metric="dev_kl"))
    _, slots = drive(asked, MemoryJournal(), lambda spec: {"dev_kl": 0.5})
    assert {batch.curve_spec for batch in slots.batches} == {CurveSpec(metric="dev_kl", every=10)}


def test_mirrors_hear_every_report() -> None:
    plan = make_plan(config_of(models=["majority-vote"], seeds={"report": 6}))
    heard: list[Event] = []

    class Mirror:
        def handle(self, event: Event) -> None:
            if isinstance(event, TrialProgressed):
                heard.append(event)

        def close(self) -> None: ...

    outcome, _ = drive(plan, MemoryJournal(), mirrors=[Mirror()], kind=ReportingExecutor)
    assert (outcome.status, outcome.finished, outcome.failed) == ("done", 6, 0)
    keys = [spec.key for spec in plan.cells[0].report_specs()]
    assert Counter((event.key, event.step) for event in heard) == {(key, step): 1 for key in keys for step in (1, 2, 3)}


def test_a_trial_that_was_stopped_as_a_driver_ended_is_run_again() -> None:
    plan = make_plan(config_of(models=["majority-vote"], seeds={"report": 6}))
    ended = MemoryJournal()
    drive(plan, ended)
    finished = [event for event in ended.events if isinstance(event, TrialFinished)]
    others = [event for event in ended.events if not isinstance(event, TrialFinished)]
    stopped = [TrialFinished(result=replace(event.result, status=Status.STOPPED)) for event in finished]
    resumed = MemoryJournal([*others, *stopped])
    assert {result.status for result in resumed.state.results.values()} == {Status.STOPPED}
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
