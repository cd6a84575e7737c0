"""Sweeps on one cluster share it: whoever holds most hands slots over, until all that wait hold alike, or nearly."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import pytest
from made_up_clusters import CPU, GPU, Pool, busy, maker, node

from crowdsweep.engine import sharing, slot_pool
from crowdsweep.engine.cluster import KeyValueStore
from crowdsweep.engine.nodes import Node, wants
from crowdsweep.engine.sharing import SILENT_S, Claim, Sharing, part_of
from crowdsweep.engine.slot_pool import Actor
from crowdsweep.resources import Resources

pytestmark = pytest.mark.unchecked
PLENTY = 100
NO_ROOM = (
    "no node has room for a slot now; waiting for one; other sweeps (sweep-0) hand over slots as their batches end, "
    "each keeps one"
)
WIDE = Resources(cpu=4.0)


class Written:
    """A board in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def put(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def read(self) -> dict[str, bytes]:
        return dict(self.values)

    def remove(self, key: str) -> None:
        self.values.pop(key, None)


@dataclass(kw_only=True)
class Shared:
    """A cluster, and the pools of the sweeps on it; each has batches of one shape."""

    there: Sequence[Node]
    board: Written = field(default_factory=Written)
    pools: list[Pool] = field(default_factory=list[Pool])
    waiting: list[list[Resources]] = field(default_factory=list[list[Resources]])
    may_grow: bool = False

    def nodes(self) -> list[Node]:
        found: list[Node] = []
        for one in self.there:
            free = Counter(one.has)
            for actor in self.actors():
                free.subtract(wants(actor.shape) if actor.node == one.id else {})
            found.append(replace(one, free=dict(free)))
        return found

    def actors(self) -> list[Actor]:
        return [actor for pool in self.pools for actor in pool.actors]

    def joins(self, *batches: Resources) -> Pool:
        """A sweep begins whose batches never end to wait."""
        pool = Pool(self, [], Sharing(f"sweep-{len(self.pools)}", self.board))  # pyright: ignore[reportArgumentType]
        self.pools.append(pool)
        self.waiting.append([*batches])
        return pool

    def turns(self, number: int = 40) -> list[int]:
        """In each turn every sweep looks once, and what ran on its slots ends. Returns how many slots each has."""
        for _ in range(number):
            for pool, waiting in zip(self.pools, self.waiting, strict=True):
                for actor in pool.actors:
                    actor.unfinished, actor.waits_on = {}, None
                pool.looked(waiting)
                busy(pool)
                assert all(left >= 0 for one in self.nodes() for left in (one.free or {}).values())
        return [len(pool.actors) for pool in self.pools]


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    maker(monkeypatch)


@pytest.mark.parametrize(
    ("cpus", "sweeps", "expected"),
    [((1,), 2, [1, 0]), ((2,), 2, [1, 1]), ((3,), 2, [2, 1]), ((4, 4), 2, [4, 4]), ((2, 2), 3, [2, 1, 1])],
)
def test_all_that_wait_hold_alike(cpus: Sequence[int], sweeps: int, expected: list[int]) -> None:
    """And it stays so: nothing is handed to and fro."""
    cluster = Shared(there=[node(f"n{i}", n) for i, n in enumerate(cpus)])
    for _ in range(sweeps):
        cluster.joins(*[CPU] * PLENTY)
        cluster.turns()
    before = cluster.actors()
    assert sorted(cluster.turns(), reverse=True) == expected
    assert cluster.actors() == before


def test_what_a_sweep_needs_no_more_is_the_others_again() -> None:
    cluster = Shared(there=[node("a", 4)])
    first = cluster.joins(*[CPU] * PLENTY)
    cluster.turns()
    second = cluster.joins(CPU)
    assert cluster.turns() == [3, 1], "it has one batch, and needs no more"
    cluster.waiting[1] = []
    second.close()
    cluster.pools.remove(second)
    del cluster.waiting[1]
    assert cluster.turns() == [4]
    first.close()
    assert cluster.board.values == {}


def test_room_is_made_on_one_node_for_a_wide_slot() -> None:
    cluster = Shared(there=[node("a", 4), node("b", 4)])
    cluster.joins(*[CPU] * PLENTY)
    cluster.turns()
    cluster.joins(*[WIDE] * PLENTY)
    assert cluster.turns() == [4, 1]


def test_the_only_slot_is_kept() -> None:
    cluster = Shared(there=[node("a", 4)])
    cluster.joins(*[WIDE] * PLENTY)
    cluster.turns()
    cluster.joins(*[CPU] * PLENTY)
    assert cluster.turns() == [1, 0]


def test_gpus_are_handed_over_too() -> None:
    cluster = Shared(there=[node("a", 8, 2)])
    cluster.joins(*[GPU] * PLENTY)
    cluster.turns()
    cluster.joins(*[GPU] * PLENTY)
    assert cluster.turns() == [1, 1]


def test_nothing_is_given_up_for_who_cannot_use_it() -> None:
    """The other sweep has found that it can start nothing on node a."""
    cluster = Shared(there=[node("a", 4)])
    cluster.joins(*[CPU] * PLENTY)
    cluster.turns()
    useless = cluster.joins(*[CPU] * PLENTY)
    useless._useless["a"] = "a: no package"
    assert cluster.turns() == [4, 0]


def test_who_holds_back_does_so_while_there_is_room_for_the_poorer_alone() -> None:
    """The room that a slot leaves is not taken again by the sweep that left it."""
    cluster = Shared(there=[node("a", 4)])
    rich = cluster.joins(*[CPU] * PLENTY)
    cluster.turns()
    rich.end(rich.actors[-1])
    claim = Claim(sweep="poor", share=0.0, waiting=1, shape=CPU, slot=0.25)
    cluster.board.put("other", json.dumps(asdict(claim)).encode())
    rich.looked(cluster.waiting[0])
    assert len(rich.actors) == 3
    cluster.board.put("other", json.dumps(asdict(replace(claim, shape=GPU, beat=1))).encode())
    rich.looked(cluster.waiting[0])
    assert len(rich.actors) == 4, "no node has a GPU: the room is of no use to it"


def test_both_are_told_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_pool, "NO_ROOM_S", 0.0)
    cluster = Shared(there=[node("a", 2)])
    cluster.joins(*[CPU] * PLENTY)
    cluster.turns()
    cluster.joins(*[CPU] * PLENTY)
    caplog.clear()
    cluster.pools[1].looked(cluster.waiting[1])
    cluster.turns()
    told = [record.getMessage().partition(" (Ctrl")[0] for record in caplog.records]
    assert told == [
        NO_ROOM,
        "the sweep sweep-1 waits for room here: slots are handed to it as batches end, until both hold alike",
    ]


def test_claims_of_drivers_that_are_gone_and_of_other_versions_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(sharing.time, "monotonic", lambda: now)
    board, mine = Written(), Claim(sweep="mine", share=1.0)
    one, other = Sharing("mine", board), Sharing("other", board)
    other.exchange(Claim(sweep="other", share=0.5))
    for key, value in (("a", b"{"), ("b", b'{"sweep": 1}'), ("c", b"\xff"), ("d", b"[" * 10**6)):
        board.put(key, value)
    assert [claim.sweep for claim in one.exchange(mine)] == ["other"]
    now = SILENT_S
    assert [claim.sweep for claim in one.exchange(mine)] == ["other"]
    now = SILENT_S + 1
    assert one.exchange(mine) == []
    assert {"a", "b", "c"} & board.values.keys() == set(), "they are removed"
    other.exchange(Claim(sweep="other", share=0.5))
    assert [claim.sweep for claim in one.exchange(mine)] == ["other"], "it was stopped for a while"


def test_the_part_that_a_sweep_holds_is_that_of_what_it_holds_most_of() -> None:
    nodes = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}]
    assert part_of([Resources(cpu=2.0, gpu=1.0)], nodes) == 0.5
    assert part_of([CPU] * 4, nodes) == 0.25
    assert part_of([], nodes) == 0.0
    assert part_of([Resources(custom={"tpu": 1.0})], nodes) == 1 / 16


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_ray_keeps_the_claims(ray_cluster: object) -> None:
    one, other = (Sharing(name, KeyValueStore()) for name in ("one", "other"))
    claims = [Claim(sweep="one", share=0.5), Claim(sweep="other", share=0.0, waiting=3, shape=GPU, avoids=("a",))]
    assert one.exchange(claims[0]) == []
    assert other.exchange(claims[1]) == [replace(claims[0], beat=1)]
    assert one.exchange(claims[0]) == [replace(claims[1], beat=1)]
    other.close()
    assert one.exchange(claims[0]) == []
    one.close()
    assert KeyValueStore().read() == {}
