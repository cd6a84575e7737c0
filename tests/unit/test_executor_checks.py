"""The contract of executors catches what it is for: one that is broken in one way does not pass."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import executor_checks as checks
import pytest
from executor_checks import CHECKS
from fakes import FakeExecutor, scored

from crowdsweep.engine.executor import Batch
from crowdsweep.record.events import Event, TrialFinished, TrialStarted
from crowdsweep.record.spec import TrialSpec


def score(spec: TrialSpec) -> Mapping[str, float]:
    if spec.model == "no-such-model":
        raise ValueError("there is no-such-model")
    return {"train_accuracy": spec.seed / 10}


class SaysItTwice(FakeExecutor):
    def poll(self, timeout_s: float) -> Sequence[Event]:
        events = super().poll(timeout_s)
        return [*events, *(event for event in events if isinstance(event, TrialFinished))]


class NeverBegins(FakeExecutor):
    def poll(self, timeout_s: float) -> Sequence[Event]:
        return [event for event in super().poll(timeout_s) if not isinstance(event, TrialStarted)]


class LosesTheLast(FakeExecutor):
    def submit(self, batch: Batch) -> None:
        super().submit(replace(batch, specs=batch.specs[:4]))


class FailsTheWholeBatch(FakeExecutor):
    def submit(self, batch: Batch) -> None:
        guilty = any(spec.model == "no-such-model" for spec in batch.specs)
        specs = [replace(spec, model="no-such-model") for spec in batch.specs] if guilty else batch.specs
        super().submit(replace(batch, specs=specs))


class StopsNothing(FakeExecutor):
    def stop(self, key: str) -> None:
        """Does not listen."""


class StopsTheNeighbours(FakeExecutor):
    def stop(self, key: str) -> None:
        self._waiting = [batch for batch in self._waiting if all(spec.key != key for spec in batch.specs)]


class NeverForgets(FakeExecutor):
    gone: tuple[str, ...] = ()

    def submit(self, batch: Batch) -> None:
        if left := [spec for spec in batch.specs if spec.key not in self.gone]:
            super().submit(replace(batch, specs=left))

    def stop(self, key: str) -> None:
        self.gone = (*self.gone, key)
        super().stop(key)


class TalksInItsSleep(FakeExecutor):
    def poll(self, timeout_s: float) -> Sequence[Event]:
        return super().poll(timeout_s) or [TrialStarted(key="nothing", slot="nowhere")]


BROKEN = [
    (SaysItTwice, "each_trial_finishes_once"),
    (NeverBegins, "each_trial_finishes_once"),
    (LosesTheLast, "each_trial_finishes_once"),
    (FailsTheWholeBatch, "a_poisoned_trial_fails_alone"),
    (StopsNothing, "stopped_before_it_begins"),
    (StopsTheNeighbours, "stopped_before_it_begins"),
    (NeverForgets, "a_trial_that_was_stopped_may_come_again"),
    (TalksInItsSleep, "polling_with_nothing_to_do"),
    (SaysItTwice, "stop_of_a_finished_trial_changes_nothing"),
]


@pytest.mark.parametrize(("executor", "check"), BROKEN)
def test_a_broken_executor_is_caught(executor: type[FakeExecutor], check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PATIENCE_S", 0.5)
    with pytest.raises((AssertionError, TimeoutError, KeyError)):
        CHECKS[check](executor(score=score))


def test_every_check_catches_something() -> None:
    assert {check for _, check in BROKEN} == set(CHECKS)


def test_other_numbers_are_caught() -> None:
    def other(spec: TrialSpec) -> Mapping[str, float]:
        return {name: value + 1e-5 for name, value in score(spec).items()}

    with pytest.raises(AssertionError):
        checks.check_numbers_are_those_of(FakeExecutor(score=other), FakeExecutor(score=score))


def test_a_score_that_raises_something_else_is_no_result() -> None:
    """A mistake in a test is not taken for a model's failure."""
    (spec,) = checks.specs_on(next(iter(checks.datasets().values())), "uniform", 1)
    with pytest.raises(ZeroDivisionError):
        scored(spec, lambda _: {"train_accuracy": 1 / 0})
