"""A sweep waits for the nodes of a cluster that has none yet; nodes of one host have names of their own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from made_up_clusters import CPU, GPU, node
from mirror_checks import ok

from crowdsweep.engine import cluster as cluster_module
from crowdsweep.engine.cluster import JOINS_S, Cluster
from crowdsweep.engine.nodes import Node, named_apart
from crowdsweep.engine.ray_actors import RayExecutor
from crowdsweep.errors import InfeasibleRequest

HEAD = node("head", 0.0)


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cluster_module, "time", clock)
    return clock


def joined(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, joins: Sequence[tuple[float, Node]], *, grows: bool | None = False
) -> Cluster:
    """Returns a cluster whose nodes join at given times."""
    monkeypatch.setattr(Cluster, "nodes", lambda _: [one for at, one in joins if at <= clock.now])
    monkeypatch.setattr(Cluster, "_grows", lambda _: grows)
    return Cluster(started=False)


def test_the_nodes_of_an_empty_cluster_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with_gpu = node("gpu", 4, 1)
    cluster = joined(monkeypatch, clock, [(0, HEAD), (100, node("cpu", 4)), (200, with_gpu)])
    cluster.check_room(CPU, GPU)
    assert 200 <= clock.now < 201, "for the one with a GPU too, though the other came before"
    (said,) = (record.getMessage() for record in caplog.records)
    assert said == f"no node with a CPU has joined the cluster yet; waiting at most {JOINS_S:g} s for nodes"


def test_it_is_refused_when_none_has_come(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    cluster = joined(monkeypatch, clock, [(0, HEAD)])
    with pytest.raises(InfeasibleRequest, match=rf"the cluster has head with 0 CPU .*\(waited {JOINS_S:g} s;"):
        cluster.check_room(CPU)
    assert JOINS_S <= clock.now < JOINS_S + 1


@pytest.mark.parametrize("started", [False, True])
def test_what_no_node_of_a_cluster_with_cpus_has_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, caplog: pytest.LogCaptureFixture, started: bool
) -> None:
    cluster = replace(joined(monkeypatch, clock, [(0, HEAD), (0, node("cpu", 4))]), started=started)
    with pytest.raises(InfeasibleRequest, match=r"1 CPU and 1 GPU for one slot.*cpu with 4 CPU and 0 GPU.*address$"):
        cluster.check_room(CPU, GPU)
    assert clock.now == 0
    assert not caplog.records


def test_an_autoscaler_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    joined(monkeypatch, clock, [(0, HEAD)], grows=True).check_room(CPU, GPU)
    assert clock.now == 0


def test_nodes_of_one_host_have_names_of_their_own() -> None:
    nodes = [Node(id=id_, name=name, has={}) for id_, name in [("12345678", "a"), ("9abcdef0", "a"), ("1", "b")]]
    assert [one.name for one in named_apart(nodes)] == ["a (123456)", "a (9abcde)", "b"]
    assert [one.id for one in named_apart(nodes)] == [one.id for one in nodes]


@pytest.mark.unchecked
def test_a_result_has_the_name_of_its_node() -> None:
    """Of two nodes of one host a trial's process knows the host alone."""

    class NoPool:
        actors: Sequence[Any] = ()

    class Nowhere:
        def check_room(self, *_: object) -> None:
            """There is room."""

    executor = RayExecutor({}, Nowhere(), make_pool=lambda _: NoPool())  # pyright: ignore[reportArgumentType]
    ended = replace(ok("key").result, host="a")
    for host, expected in (("a (123456)", "a (123456)"), ("", "a")):
        actor: Any = type("Actor", (), {"unfinished": {ended.key: None}, "host": host, "batch": None})()
        executor._events = []
        executor._take(actor, [ended])
        assert [event.result.host for event in executor._events] == [expected]  # pyright: ignore[reportAttributeAccessIssue]
