"""The order of batches that wait, whatever they ask for."""

import pytest

from crowdsweep.engine.batch_queue import BatchQueue
from crowdsweep.engine.executor import Batch
from crowdsweep.resources import Resources
from crowdsweep.trial.learning_curve import CurveSpec

CPU, GPU = Resources(), Resources(gpu=1.0)


def batch(name: str, resources: Resources = CPU) -> Batch:
    return Batch(specs=[], curve_spec=CurveSpec(metric=name, every=1), resources=resources)


def taken(queue: BatchQueue, *runs: Resources) -> str | None:
    found = queue.take(lambda resources: resources in runs)
    return None if found is None else found.curve_spec.metric


@pytest.fixture
def queue() -> BatchQueue:
    made = BatchQueue()
    for one in (batch("a"), batch("b", GPU), batch("c", CPU), batch("d", GPU)):
        made.add(one)
    return made


def test_who_runs_everything_gets_what_came_first(queue: BatchQueue) -> None:
    assert [taken(queue, CPU, GPU) for _ in range(5)] == ["a", "b", "c", "d", None]
    assert not queue


def test_who_runs_one_kind_gets_the_first_of_it(queue: BatchQueue) -> None:
    assert [taken(queue, GPU) for _ in range(3)] == ["b", "d", None]
    assert queue.counts() == {CPU: 2}


def test_what_runs_again_comes_first_and_in_its_order(queue: BatchQueue) -> None:
    queue.add_first([batch("x", GPU), batch("y")])
    queue.add_first([batch("v"), batch("w", GPU)])
    assert list(queue.counts().items()) == [(CPU, 4), (GPU, 4)]
    assert [taken(queue, CPU, GPU) for _ in range(5)] == ["v", "w", "x", "y", "a"]
    assert taken(queue, GPU) == "b"


def test_nothing_is_left_when_it_is_cleared(queue: BatchQueue) -> None:
    queue.clear()
    assert not queue
    assert queue.counts() == {}
    assert taken(queue, CPU, GPU) is None
