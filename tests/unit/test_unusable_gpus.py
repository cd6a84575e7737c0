"""A node whose GPU torch cannot use gets no slots with a GPU; the sweep goes on with the others, or is refused."""

from typing import Any

import pytest
from made_up_clusters import CPU, EITHER, GPU, Make, Pool, busy, maker, node

from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.slot_pool import Actor
from crowdsweep.errors import InfeasibleRequest
from crowdsweep.resources import Resources

pytestmark = pytest.mark.unchecked

WHY = "on {} none can: torch sees no GPU"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Make:
    return maker(monkeypatch)


def on(pool: Pool, name: str) -> Actor:
    """Returns the slot with a GPU of a node."""
    return next(actor for actor in pool.actors if actor.node == name and actor.shape.gpu)


def executor_on(pool: Pool, *asked: Resources) -> RayExecutor:
    cluster: Any = pool._cluster
    cluster.check_room = lambda *shapes: None
    return RayExecutor({}, cluster, asked, make_pool=lambda _: pool)


def found_unusable(executor: RayExecutor, pool: Pool, name: str) -> None:
    executor._do_without(on(pool, name), WHY.format(name))


def test_others_are_used_with_a_gpu_and_this_one_without(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    pool, _ = made(node("broken", 2, 1), node("sound", 2, 1))
    executor = executor_on(pool, GPU, CPU)
    assert pool.looked([GPU, GPU]) == {"broken": [(1, 1)], "sound": [(1, 1)]}
    found_unusable(executor, pool, "broken")
    busy(pool)
    assert pool.looked([GPU, CPU, CPU]) == {"sound": [(1, 1)], "broken": [(1, 0), (1, 0)]}
    assert executor.slots_for(GPU) == 1
    assert executor.slots_for(CPU) == 4
    assert caplog.text.count(f"{WHY.format('broken')}. No slot with a GPU is started on this node any more") == 1


def test_each_slot_of_a_node_finds_out_and_it_is_said_once(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    half = Resources(gpu=0.5)
    pool, _ = made(node("broken", 2, 1), node("sound", 2, 1))
    executor = executor_on(pool, half)
    pool.looked([half] * 3)
    found_unusable(executor, pool, "broken")
    found_unusable(executor, pool, "broken")
    assert pool.looked([half] * 3) == {"sound": [(1, 0.5)] * 2}
    assert caplog.text.count("No slot with a GPU") == 1


def test_a_slot_that_works_on_another_gpu_of_that_node_goes_on(made: Any) -> None:
    pool, _ = made(node("a", 4, 2))
    pool.looked([EITHER, EITHER])
    pool.do_without_gpus_of(pool.actors[1])
    busy(pool)
    assert pool.looked([EITHER] * 2) == {"a": [(1, 1), (1, 0), (1, 0)]}


def test_the_last_one_ends_a_sweep_that_needs_it_and_all_are_named(made: Any) -> None:
    pool, _ = made(node("first", 2, 1), node("second", 2, 1), node("none", 8))
    executor = executor_on(pool, CPU, GPU)
    pool.looked([GPU, GPU])
    found_unusable(executor, pool, "first")
    with pytest.raises(InfeasibleRequest, match=rf"{WHY.format('second')}\. So it is on first, second"):
        found_unusable(executor, pool, "second")


def test_what_a_slot_asks_for_beside_a_gpu_counts(made: Any) -> None:
    """A sound GPU on a node that such a slot does not fit on is of no use to it."""
    large = Resources(cpu=4.0, gpu=1.0)
    pool, _ = made(node("large", 4, 1), node("small", 2, 1))
    executor = executor_on(pool, GPU, large)
    pool.looked([large])
    with pytest.raises(InfeasibleRequest, match=WHY.format("large")):
        found_unusable(executor, pool, "large")


def test_what_can_do_without_goes_on_without_any(made: Any) -> None:
    pool, cluster = made(node("a", 3, 1), may_grow=True)
    executor = executor_on(pool, EITHER)
    pool.looked([EITHER])
    found_unusable(executor, pool, "a")
    assert pool.looked([EITHER] * 4) == {"a": [(1, 0)] * 3}
    assert all(shape.gpu == 0 for shape in cluster.asked[-1]), "an autoscaler is not asked for more of the same"


def test_an_autoscaler_is_not_taken_in_by_gpus_of_no_use(made: Any) -> None:
    """It has room for two slots, and would start no node for the second."""
    pool, cluster = made(node("broken", 2, 1), node("sound", 2, 1), may_grow=True)
    executor = executor_on(pool, GPU)
    pool.looked([GPU, GPU])
    found_unusable(executor, pool, "broken")
    busy(pool)
    pool.looked([GPU])
    assert sorted((shape.cpu, shape.gpu) for shape in cluster.asked[-1]) == [(0, 1), (1, 1), (1, 1)]


def test_a_node_that_joins_later_is_tried(made: Any) -> None:
    pool, cluster = made(node("broken", 1, 1))
    executor = executor_on(pool, EITHER)
    pool.looked([EITHER])
    found_unusable(executor, pool, "broken")
    cluster.there.append(node("new", 1, 1))
    assert pool.looked([EITHER] * 2) == {"new": [(1, 1)], "broken": [(1, 0)]}
