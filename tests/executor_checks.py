"""What every executor must do, as checks that an executor's tests call one by one.

Each check takes a fresh executor for the datasets of `datasets()`. A trial here is a real one, small enough to take a
few milliseconds: the engine is on trial, not the model.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from crowdsweep.data import catalogue
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.executor import Batch, Executor
from crowdsweep.models import registered
from crowdsweep.record.events import Event, TrialFinished, TrialStarted
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.spec import TrialSpec

PATIENCE_S = 60.0
_DATASETS = ("anesthesia", "digits")


def datasets() -> dict[str, CrowdDataset]:
    """Returns two small base datasets by fingerprint."""
    loaded = [catalogue.load(name, {}) for name in _DATASETS]
    return {base.fingerprint: base for base in loaded}


def specs_on(base: CrowdDataset, model: str, n_seeds: int, **params: object) -> list[TrialSpec]:
    """Returns trials of one cell."""
    info = registered.model_info(model)
    return [
        TrialSpec(
            model=model,
            params=registered.full_params(model, params),
            model_version=info.version,
            dataset=base.name,
            fingerprint=base.fingerprint,
            seed=seed,
        )
        for seed in range(n_seeds)
    ]


def batch_of(specs: Sequence[TrialSpec]) -> Batch:
    """Returns these trials as one batch."""
    return Batch(specs=specs)


def drained(executor: Executor, n_finished: int) -> list[Event]:
    """Polls until so many trials have finished, and once more for anything that should not come.

    Raises:
        TimeoutError: they do not come within `PATIENCE_S`.
    """
    events: list[Event] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(finished(events)) < n_finished:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(finished(events))} of {n_finished} trials after {PATIENCE_S} s; got {events}")
        events += executor.poll(1.0)
    return [*events, *executor.poll(0.05)]


def finished(events: Sequence[Event]) -> list[TrialResult]:
    """Returns the results among events."""
    return [event.result for event in events if isinstance(event, TrialFinished)]


def check_each_trial_finishes_once(executor: Executor) -> None:
    """Every trial of every batch, on whichever dataset, starts before it finishes, and finishes exactly once."""
    small, larger = datasets().values()
    batches = [batch_of(specs_on(small, "dawid-skene", n, smoothing=0.01 * n)) for n in (1, 5, 2, 3)]
    batches.append(batch_of(specs_on(larger, "majority-vote", 4)))
    for batch in batches:
        executor.submit(batch)
    wanted = [spec.key for batch in batches for spec in batch.specs]
    events = drained(executor, len(wanted))
    results = finished(events)
    assert Counter(result.key for result in results) == Counter(wanted)
    assert all(result.status is Status.OK for result in results), [result.failure for result in results]
    for key in wanted:
        kinds = [type(event) for event in events if _key_of(event) == key]
        assert kinds[:1] == [TrialStarted], f"trial {key}: {kinds}"


def check_numbers_are_those_of(executor: Executor, reference: Executor) -> None:
    """The same specs give the same numbers, in other batches and on another engine."""
    small = next(iter(datasets().values()))
    specs = specs_on(small, "dawid-skene", 6, smoothing=0.1)
    executor.submit(batch_of(specs))
    for spec in specs:
        reference.submit(batch_of([spec]))
    got, expected = (_metrics(drained(each, len(specs))) for each in (executor, reference))
    assert set(got) == set(expected) == {spec.key for spec in specs}
    for key, metrics in expected.items():
        assert set(got[key]) == set(metrics)
        for name, value in metrics.items():
            assert abs(got[key][name] - value) <= 1e-6 * max(1.0, abs(value)), (name, got[key][name], value)


def check_a_poisoned_trial_fails_alone(executor: Executor) -> None:
    """A trial that cannot be run is a failed result; the others of its batch and of other batches are not touched."""
    small = next(iter(datasets().values()))
    good = specs_on(small, "dawid-skene", 3)
    poisoned = replace(good[0], model="no-such-model", seed=77)
    executor.submit(batch_of([good[0], poisoned, good[1]]))
    executor.submit(batch_of([good[2]]))
    results = {result.key: result for result in finished(drained(executor, 4))}
    failure = results[poisoned.key].failure
    assert failure is not None
    assert "no-such-model" in failure.message
    assert all(results[spec.key].status == "ok" for spec in good)


def check_stopped_before_it_begins(executor: Executor) -> None:
    """A waiting trial that is stopped never runs; the others do."""
    small = next(iter(datasets().values()))
    first = [specs_on(small, "dawid-skene", 1, smoothing=0.5 + 0.01 * n) for n in range(executor.slots_for())]
    waiting = specs_on(small, "one-coin", 2)
    for specs in [*first, waiting]:
        executor.submit(batch_of(specs))
    executor.stop(waiting[0].key)
    results = finished(drained(executor, executor.slots_for() + 1))
    assert {result.key for result in results} == {specs[0].key for specs in first} | {waiting[1].key}


def check_stop_of_a_finished_trial_changes_nothing(executor: Executor) -> None:
    """Stopping what is over is allowed, and the slot goes on."""
    small = next(iter(datasets().values()))
    specs = specs_on(small, "majority-vote", 2)
    executor.submit(batch_of(specs[:1]))
    drained(executor, 1)
    executor.stop(specs[0].key)
    executor.submit(batch_of(specs[1:]))
    assert [result.key for result in finished(drained(executor, 1))] == [specs[1].key]


def check_a_trial_that_was_stopped_may_come_again(executor: Executor) -> None:
    """A stop is forgotten when its trial is submitted anew."""
    small = next(iter(datasets().values()))
    (spec,) = specs_on(small, "uniform", 1)
    executor.stop(spec.key)
    executor.submit(batch_of([spec]))
    assert [result.status for result in finished(drained(executor, 1))] == [Status.OK]


def check_polling_with_nothing_to_do(executor: Executor) -> None:
    """An idle executor has no events and does not make its caller wait for ever."""
    began = time.monotonic()
    assert list(executor.poll(0.05)) == []
    assert time.monotonic() - began < PATIENCE_S
    assert executor.slots_for() >= 1


CHECKS: Mapping[str, Callable[[Executor], None]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_each_trial_finishes_once,
        check_a_poisoned_trial_fails_alone,
        check_stopped_before_it_begins,
        check_stop_of_a_finished_trial_changes_nothing,
        check_a_trial_that_was_stopped_may_come_again,
        check_polling_with_nothing_to_do,
    )
}


def _metrics(events: Sequence[Event]) -> dict[str, Mapping[str, float]]:
    return {result.key: result.metrics for result in finished(events)}


def _key_of(event: Event) -> str | None:
    match event:
        case TrialStarted(key=key):
            return key
        case TrialFinished(result=result):
            return result.key
        case _:
            return None
