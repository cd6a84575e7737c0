"""A trial whose node is taken back after a notice is run again, however often that happens; a node that is lost
without one counts against what ran there. A batch is made smaller only where that may help."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from executor_checks import batch_of
from mirror_checks import spec
from ray.exceptions import ActorDiedError, NodeDiedError, OutOfMemoryError

from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.retry_policy import LOSS_LIMIT
from crowdsweep.engine.slot_pool import Actor
from crowdsweep.record.events import BatchLost, TrialFinished
from crowdsweep.record.result import SLOT_LOST
from crowdsweep.resources import Resources

pytestmark = pytest.mark.unchecked  # what stands for a cluster is none


@dataclass(kw_only=True)
class MadeUp:
    """A cluster that refuses nothing, and the pool of its slots."""

    actors: list[Actor] = field(default_factory=list[Actor])
    drained: set[str] = field(default_factory=set[str])

    def check_room(self, *shapes: Resources) -> None:
        """There is room."""

    def forget(self, actor: Actor) -> None:
        self.actors.remove(actor)


def executor_on(made: MadeUp) -> RayExecutor:
    return RayExecutor({}, made, make_pool=lambda _: made)  # pyright: ignore[reportArgumentType]: it stands for both


def lost(executor: RayExecutor, made: MadeUp, seeds: int, error: Exception) -> list[Any]:
    """Loses a slot of the node `spot` with a batch, and returns what is said of that."""
    specs = [spec(seed) for seed in range(seeds)]
    unfinished = {one.key: one for one in specs}
    actor = Actor(name="slot-0", handle=None, shape=Resources(), node="spot", host="there", waits_on=None, up=True)
    actor.batch, actor.unfinished = batch_of(specs), unfinished
    made.actors.append(actor)
    executor._events = []
    executor._replace_lost(actor, error)
    return executor._events


NODE_DIED = NodeDiedError("its node was preempted")


def test_a_trial_is_never_given_up_for_notices() -> None:
    made = MadeUp(drained={"spot"})
    executor = executor_on(made)
    for _ in range(3 * LOSS_LIMIT):
        assert [type(event) for event in lost(executor, made, 1, NODE_DIED)] == [BatchLost]
    assert made.actors == []


def test_a_batch_is_not_halved_for_a_notice() -> None:
    made = MadeUp(drained={"spot"})
    executor = executor_on(made)
    lost(executor, made, 4, NODE_DIED)
    again = executor._waiting.take(lambda _: True)
    assert again is not None
    assert len(again.specs) == 4
    assert not executor._waiting


@pytest.mark.parametrize(
    ("drained", "error"),
    [
        (set[str](), NODE_DIED),  # nobody said a word before
        ({"another"}, NODE_DIED),
        ({"spot"}, ActorDiedError()),  # it died by itself, on a node that was about to go
    ],
)
def test_other_losses_count(drained: set[str], error: Exception) -> None:
    made = MadeUp(drained=drained)
    executor = executor_on(made)
    said = [lost(executor, made, 1, error) for _ in range(LOSS_LIMIT)]
    ended = [event for event in said[-1] if isinstance(event, TrialFinished)]
    assert [event.result.key for event in ended] == [spec(0).key]
    kind = ended[0].result.failure
    assert kind is not None
    assert (kind.kind == SLOT_LOST) == isinstance(error, NodeDiedError)


def waiting(executor: RayExecutor) -> list[int]:
    """Returns the sizes of the batches that wait, and takes them."""
    sizes: list[int] = []
    while (batch := executor._waiting.take(lambda _: True)) is not None:
        sizes.append(len(batch.specs))
    return sizes


def test_a_batch_that_was_lost_with_its_node_is_only_halved_in_the_end() -> None:
    executor = executor_on(made := MadeUp())
    sizes: list[list[int]] = []
    for _ in range(LOSS_LIMIT):
        lost(executor, made, 4, NODE_DIED)
        sizes.append(waiting(executor))
    assert sizes == [[4]] * (LOSS_LIMIT - 1) + [[2, 2]]


@pytest.mark.parametrize("error", [ActorDiedError(), OutOfMemoryError("it took too much")])
def test_a_batch_that_may_be_to_blame_is_halved_at_once(error: Exception) -> None:
    executor = executor_on(made := MadeUp())
    lost(executor, made, 4, error)
    assert waiting(executor) == [2, 2]


def test_a_loss_is_said_once_with_the_node_and_without_rays_words(caplog: pytest.LogCaptureFixture) -> None:
    executor = executor_on(made := MadeUp())
    with caplog.at_level("INFO", logger="crowdsweep"):
        (event,) = lost(executor, made, 4, NODE_DIED)
    assert event.reason == "its node there is gone"
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == "slot-0 was lost with 4 unfinished trials: its node there is gone; they run again"


def test_a_slot_that_ray_ended_for_memory_says_so_without_rays_words() -> None:
    executor = executor_on(made := MadeUp())
    words = (
        "1 worker(s) were killed due to the node running low on memory. Memory on the node (ID: b823d7f8) "
        "was 11.72GB used / 23.54GB limit (0.497768)"
    )
    (event,) = lost(executor, made, 4, OutOfMemoryError(words))
    assert event.reason == (
        "Ray ended it, as its node there ran low on memory (11.72GB of 23.54GB used): a smaller `pack`, or more "
        "CPUs for a slot (`resources`), need less"
    )
