"""A slot that is killed in the middle of a fit, and the next one that goes on from the checkpoint, on both engines."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from executor_checks import batch_of, datasets, drained, finished, specs_on

from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.executor import Executor
from crowdsweep.engine.inline import InlineExecutor
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.record.events import BatchLost, Event, TrialSaved, TrialsNoted
from crowdsweep.record.result import TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.trial.learning_curve import CurveSpec

ALWAYS = 1e-9  # minutes: after each epoch
TIMES = {"wall_s": 0.0, "batch_wall_s": 0.0, "peak_bytes": 0, "resumed": 0, "batch_size": 1}


@pytest.fixture
def executor(misbehaving: None) -> Iterator[InlineExecutor]:
    made = InlineExecutor(datasets())
    yield made
    made.close()


def specs_of(mark: Path, n_seeds: int) -> list[TrialSpec]:
    base = list(datasets().values())[1]
    return specs_on(base, "revoked", n_seeds, once=str(mark), hidden=[4], steps=0)


def ran(executor: Executor, specs: list[TrialSpec], minutes: float | None = ALWAYS, **more: object) -> list[Event]:
    batch = replace(batch_of(specs), curve_spec=CurveSpec(metric="dev_accuracy", every=2))
    executor.submit(replace(batch, checkpoint_minutes=minutes, **more))  # pyright: ignore[reportArgumentType]: fields
    return drained(executor, len(specs))


def numbers(events: list[Event]) -> dict[str, TrialResult]:
    return {result.key: replace(result, **TIMES) for result in finished(events)}


def notes(events: list[Event]) -> list[str]:
    return [event.words for event in events if isinstance(event, TrialsNoted)]


def check_a_killed_slot_is_gone_on_from(executor: Executor, mark: Path) -> None:
    mark.touch()
    specs = specs_of(mark, 1)
    undisturbed = ran(executor, specs, minutes=None)
    assert not [event for event in undisturbed if isinstance(event, TrialSaved)]
    assert len(finished(undisturbed)[0].curve) == 3
    mark.unlink()
    events = ran(executor, specs)
    assert len([event for event in events if isinstance(event, BatchLost)]) == 1
    assert notes(events) == ["continuing from step 3"]
    assert finished(events)[0].resumed == 3
    assert numbers(events) == numbers(undisturbed)


def test_inline(executor: InlineExecutor, tmp_path: Path) -> None:
    check_a_killed_slot_is_gone_on_from(executor, tmp_path / "killed")


def test_a_batch_that_is_halved_takes_its_checkpoints_along(executor: InlineExecutor, tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    mark.touch()
    specs = specs_of(mark, 3)
    undisturbed = ran(executor, specs, minutes=None)
    mark.unlink()
    events = ran(executor, specs)
    assert notes(events) == ["continuing from step 3"] * 2  # of one trial, and of the two others
    got, expected = finished(events), {result.key: result for result in finished(undisturbed)}
    for result in got:
        assert result.metrics == pytest.approx(dict(expected[result.key].metrics), rel=1e-6)
        assert result.iterations == expected[result.key].iterations


def test_a_checkpoint_that_is_not_believed_is_said(executor: InlineExecutor, tmp_path: Path) -> None:
    """The next driver hands over what lies in the store: a damaged one, and the one of another trial."""
    mark = tmp_path / "killed"
    mark.touch()
    specs = specs_of(mark, 2)
    written = ran(executor, specs)
    latest = {event.key: event.content for event in written if isinstance(event, TrialSaved)}
    first, second = (spec.key for spec in specs)
    good = ran(executor, specs[:1], saved={first: latest[first]})
    assert notes(good) == ["continuing from step 5"]
    assert numbers(good)[first].metrics == pytest.approx(dict(numbers(written)[first].metrics), rel=1e-6)
    damaged = latest[first][:-1] + bytes([latest[first][-1] ^ 1])
    for content, why in ((damaged, "damaged"), (latest[second], "made with another trial")):
        events = ran(executor, specs[:1], saved={first: content})
        assert len(notes(events)) == 1
        assert "starting again from the beginning, as its checkpoint was refused" in notes(events)[0]
        assert why in notes(events)[0]
        assert finished(events)[0].resumed == 0
        assert numbers(events)[first].metrics == pytest.approx(dict(numbers(written)[first].metrics), rel=1e-6)


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_ray(misbehaving: None, ray_cluster: Cluster, tmp_path: Path) -> None:
    executor = RayExecutor(datasets(), ray_cluster)
    try:
        check_a_killed_slot_is_gone_on_from(executor, tmp_path / "killed")
    finally:
        executor.close()
