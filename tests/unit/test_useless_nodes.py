"""A node on which no slot begins gets no other; the sweep goes on elsewhere, or is refused with the reason."""

import re
from typing import Any

import pytest
from executor_checks import batch_of, datasets, specs_on
from made_up_clusters import CPU, GPU, Make, Pool, busy, maker, node
from ray.exceptions import RayError

from crowdsweep.engine import slot_pool
from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.engine.slot_pool import BEGINS_S, STILLBORN_LIMIT
from crowdsweep.errors import InfeasibleRequest
from crowdsweep.resources import Resources

pytestmark = pytest.mark.unchecked

LACKING = RayError(
    "The actor died because of an error raised in its creation task, \x1b[36mray::Slot.__init__()\x1b[39m (pid=1)\n"
    "  File \"worker.py\"\nModuleNotFoundError: No module named 'crowdsweep'\n"
)
HUNGRY = RayError("1 worker(s) were killed due to the node running low on memory. Memory on the node was 9 of 10 GB")
VANISHED = RayError("The actor died unexpectedly before finishing this task.\n\tclass_name: Slot")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Make:
    return maker(monkeypatch)


def executor_on(pool: Pool, *asked: Resources) -> RayExecutor:
    cluster: Any = pool._cluster
    cluster.check_room = lambda *shapes: None
    return RayExecutor({}, cluster, asked, make_pool=lambda _: pool)


def ends_early(executor: RayExecutor, pool: Pool, name: str, error: RayError) -> None:
    actor = next(actor for actor in pool.actors if actor.node == name)
    actor.up = False
    executor._replace_lost(actor, error)


def test_where_the_package_lacks_no_second_slot_is_tried(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    pool, _ = made(node("bare", 2), node("sound", 2))
    executor = executor_on(pool, CPU)
    assert pool.looked([CPU] * 4) == {"bare": [(1, 0)] * 2, "sound": [(1, 0)] * 2}
    for _ in range(2):  # both of its slots find out
        ends_early(executor, pool, "bare", LACKING)
    busy(pool)
    assert pool.looked([CPU] * 4) == {"sound": [(1, 0)] * 2}
    assert executor.slots_for(CPU) == 2
    assert caplog.text.count("continues without it: bare: ModuleNotFoundError: No module named 'crowdsweep'") == 1
    assert "\x1b" not in caplog.text


def test_the_last_node_of_a_kind_ends_the_sweep_and_all_are_named(made: Any) -> None:
    pool, _ = made(node("first", 2, 1), node("second", 2, 1), node("plain", 8))
    executor = executor_on(pool, CPU, GPU)
    pool.looked([GPU, GPU])
    ends_early(executor, pool, "first", LACKING)
    with pytest.raises(InfeasibleRequest, match=r"found none .*: first: ModuleNotFound.*; second: ModuleNotFound"):
        ends_early(executor, pool, "second", LACKING)


@pytest.mark.parametrize("error", [VANISHED, HUNGRY])
def test_a_slot_that_merely_dies_is_tried_again(made: Any, error: RayError) -> None:
    pool, _ = made(node("shaky", 1))
    executor = executor_on(pool, CPU)
    for _ in range(STILLBORN_LIMIT - 1):
        pool.looked([CPU])
        ends_early(executor, pool, "shaky", error)
    pool.looked([CPU])
    pool.is_up(pool.actors[0])  # what it did before counts no more
    for _ in range(STILLBORN_LIMIT - 1):
        ends_early(executor, pool, "shaky", error)
        assert pool.looked([CPU]) == {"shaky": [(1, 0)]}
    with pytest.raises(InfeasibleRequest, match=re.escape(f"shaky: {str(error)[:30]}")):
        ends_early(executor, pool, "shaky", error)


def test_other_work_whose_nodes_are_away_is_waited_for(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    pool, cluster = made(node("bare", 2), node("sound", 2), node("gpu", 2, 1))
    executor = executor_on(pool, CPU, GPU)
    cluster.there = [one for one in cluster.there if one.name != "gpu"]  # it may come back
    pool.looked([CPU] * 4)
    ends_early(executor, pool, "bare", LACKING)
    assert "continues without it: bare" in caplog.text


def test_that_no_slot_begins_is_told_once(made: Any, caplog: pytest.LogCaptureFixture) -> None:
    pool, _ = made(node("held", 2))
    pool.looked([CPU] * 2)
    for actor in pool.actors:
        actor.up = False
    pool.looked([CPU] * 2)
    assert caplog.text == ""
    for actor in pool.actors:
        actor.idle_since -= BEGINS_S
    pool.looked([CPU] * 2)
    pool.looked([CPU] * 2)
    assert caplog.text.count("no slot has begun within 60 s: other work may hold its node") == 1
    pool.is_up(pool.actors[0])
    pool.looked([CPU] * 2)
    assert pool._said == ""


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_other_versions_on_every_node_are_refused_before_a_trial_begins(
    ray_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_pool, "versions_of_trials", lambda: {"numpy": "1.0", "crowdsweep": "0.0.1"})
    executor = RayExecutor(datasets(), ray_cluster)
    try:
        executor.submit(batch_of(specs_on(next(iter(datasets().values())), "uniform", 2)))
        with pytest.raises(
            InfeasibleRequest, match=r"the versions that the driver has.*crowdsweep 0.0.1, got .*numpy 1.0, got"
        ):
            executor.poll(60.0)
    finally:
        executor.close()
