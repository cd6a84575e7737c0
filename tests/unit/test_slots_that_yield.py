"""Slots that end for work which waits for a GPU or a node's own resource: as many as it takes, and none for nothing."""

from typing import Any

import pytest
from made_up_clusters import CPU, EITHER, GPU, Make, Pool, busy, maker, node

from crowdsweep.resources import Resources

pytestmark = pytest.mark.unchecked

WIDE = Resources(cpu=2.0, gpu=1.0)
OWN = Resources(custom={"tpu": 1.0})


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Make:
    return maker(monkeypatch)


def leaving(pool: Pool) -> list[str]:
    return sorted(actor.node for actor in pool.actors if actor.leaves)


def filled(pool: Pool, slots: int) -> None:
    """Has plain slots busy on all CPUs that are free."""
    assert sum(map(len, pool.looked([CPU] * slots).values())) == slots
    busy(pool)


def test_no_slot_ends_for_cpus_that_another_job_holds(made: Any) -> None:
    """It would be started again for the next plain batch, and end again for the same wish."""
    pool, _ = made(node("a", 4, 1), others={"a": {"CPU": 3.0}})
    filled(pool, 1)
    for _ in range(3):
        assert pool.looked([CPU, WIDE]) == {"a": [(1, 0)]}
        assert leaving(pool) == []


def test_no_slot_ends_for_a_gpu_that_another_job_holds(made: Any) -> None:
    pool, _ = made(node("a", 2, 1), others={"a": {"GPU": 1.0}})
    filled(pool, 2)
    pool.looked([CPU, GPU])
    assert leaving(pool) == []


def test_they_end_once_the_other_job_is_over(made: Any) -> None:
    pool, cluster = made(node("a", 4, 1), others={"a": {"CPU": 2.0}})
    filled(pool, 2)
    cluster.others["a"] = {"CPU": 2.0, "GPU": 1.0}
    pool.looked([WIDE])
    assert leaving(pool) == []
    cluster.others["a"] = {"CPU": 1.0}
    pool.looked([WIDE])
    assert leaving(pool) == ["a"], "beside the CPU that nobody holds, one is enough"


def test_another_node_is_looked_at_where_the_first_has_too_little(made: Any) -> None:
    pool, _ = made(node("a", 2, 1), node("b", 2, 1), others={"a": {"GPU": 1.0}})
    filled(pool, 4)
    pool.looked([GPU])
    assert leaving(pool) == ["b"]


def test_for_each_gpu_that_waits_one_ends(made: Any) -> None:
    pool, _ = made(node("a", 4, 2))
    filled(pool, 4)
    pool.looked([CPU, GPU, GPU, GPU])
    assert leaving(pool) == ["a", "a"]
    pool.looked([CPU, GPU, GPU, GPU])
    assert leaving(pool) == ["a", "a"], "those that are about to end are counted"


def test_a_resource_of_a_node_s_own_is_not_kept_from_its_work_either(made: Any) -> None:
    pool, _ = made(node("a", 2, tpu=1.0))
    filled(pool, 2)
    pool.looked([CPU, OWN])
    assert leaving(pool) == ["a"]


def test_who_takes_something_scarce_ends_for_nobody(made: Any) -> None:
    """Two kinds of scarce work would otherwise end each other's slots in turn."""
    pool, _ = made(node("a", 1, 1, tpu=1.0))
    pool.looked([OWN])
    busy(pool)
    pool.looked([GPU])
    assert leaving(pool) == []


def test_plain_work_has_nobody_end(made: Any) -> None:
    pool, _ = made(node("a", 2, 1))
    filled(pool, 2)
    pool.looked([CPU] * 3)
    assert leaving(pool) == []


def test_work_that_prefers_a_gpu_gets_it_from_plain_slots(made: Any) -> None:
    pool, _ = made(node("a", 1, 1))
    filled(pool, 1)
    pool.looked([EITHER])
    assert leaving(pool) == ["a"]
