"""Slots that are started and ended as nodes come and go, on a cluster that is made up."""

from typing import Any

import pytest
from made_up_clusters import CPU, EITHER, GPU, Make, busy, maker, node

from crowdsweep.engine import slot_pool


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Make:
    return maker(monkeypatch)


@pytest.mark.unchecked
class TestPool:
    def test_nothing_is_started_before_work_waits(self, made: Any) -> None:
        pool, _ = made(node("a", 4))
        assert pool.looked([]) == {}
        assert pool.looked([CPU, CPU]) == {"a": [(1, 0)] * 2}
        assert pool.looked([CPU, CPU]) == {"a": [(1, 0)] * 2}, "those that are there serve what waits"

    def test_a_node_that_joins_is_used_and_one_that_is_gone_is_forgotten(self, made: Any) -> None:
        pool, cluster = made(node("a", 1))
        pool.looked([CPU] * 3)
        busy(pool)
        cluster.there.append(node("b", 2))
        assert pool.looked([CPU] * 2) == {"a": [(1, 0)], "b": [(1, 0)] * 2}
        cluster.there.pop()
        assert pool.looked([]) == {"a": [(1, 0)]}, "idle slots of a lost node"

    def test_idle_slots_make_room_for_what_waits(self, made: Any) -> None:
        pool, _ = made(node("a", 2, 1))
        pool.looked([CPU, CPU])
        assert pool.looked([GPU]) == {"a": [(1, 0), (1, 1)]}

    def test_a_gpu_is_not_kept_from_its_work_by_slots_that_need_none(self, made: Any) -> None:
        pool, _ = made(node("a", 2, 1))
        pool.looked([CPU, CPU])
        busy(pool)
        assert pool.looked([CPU, GPU]) == {"a": [(1, 0)] * 2}
        (leaving,) = [actor for actor in pool.actors if actor.leaves]
        leaving.unfinished, leaving.waits_on = {}, None
        assert pool.looked([CPU, GPU]) == {"a": [(1, 0)]}, "what has just ended the cluster counts as somebody's yet"
        assert pool.looked([CPU, GPU]) == {"a": [(1, 0), (1, 1)]}

    def test_both_shapes_get_slots_side_by_side(self, made: Any) -> None:
        pool, _ = made(node("a", 4, 1), node("b", 2))
        assert pool.looked([CPU] * 6 + [GPU]) == {"a": [(1, 1)] + [(1, 0)] * 3, "b": [(1, 0)] * 2}

    def test_what_prefers_a_gpu_can_do_without(self, made: Any) -> None:
        pool, _ = made(node("a", 3, 1))
        assert pool.looked([EITHER] * 3) == {"a": [(1, 1), (1, 0), (1, 0)]}

    def test_a_node_that_is_drained_gets_no_more_work(self, made: Any, caplog: pytest.LogCaptureFixture) -> None:
        pool, cluster = made(node("a", 1), node("b", 1))
        pool.looked([CPU, CPU])
        busy(pool)
        cluster.there[0] = node("a", 1, leaves=True)
        with caplog.at_level("WARNING", logger="crowdsweep"):
            pool.looked([])
            pool.looked([])
        assert [record.getMessage().partition(":")[0] for record in caplog.records] == ["a is about to be taken back"]
        pool.looked([CPU])
        on_a = next(actor for actor in pool.actors if actor.node == "a")
        assert not on_a.takes(CPU)
        on_a.unfinished = {}
        assert pool.looked([CPU]) == {"b": [(1, 0)]}

    def test_slots_that_have_long_had_nothing_to_do_end(self, made: Any) -> None:
        pool, _ = made(node("a", 2))
        pool.looked([CPU])
        assert pool.looked([]) == {"a": [(1, 0)]}
        pool.actors[0].idle_since -= slot_pool.IDLE_S + 1
        assert pool.looked([]) == {}

    def test_an_autoscaler_is_asked_for_what_waits_and_let_go(self, made: Any) -> None:
        pool, cluster = made(node("head", 0), may_grow=True)
        assert pool.looked([GPU, CPU]) == {}
        assert pool.looked([GPU, CPU]) == {}
        assert cluster.asked == [[GPU, CPU]]
        cluster.there.append(node("a", 1, 1))
        pool.looked([GPU, CPU])
        assert cluster.asked[1:] == [[CPU, GPU]], "what runs is asked for too, since the wish is for all at once"
        pool.looked([])
        assert cluster.asked[2:] == [[]]

    def test_that_nothing_can_run_is_said_once(self, made: Any, caplog: pytest.LogCaptureFixture) -> None:
        pool, cluster = made(node("head", 0), may_grow=True)
        pool.looked([CPU])
        assert not caplog.text, "Ray may free the room of what has ended in a moment"
        pool._had_room -= slot_pool.NO_ROOM_S
        pool.looked([CPU])
        pool.looked([CPU])
        assert caplog.text.count("no node has room for a slot now; waiting for one") == 1
        cluster.there.append(node("a", 1))
        assert pool.looked([CPU]) == {"a": [(1, 0)]}
