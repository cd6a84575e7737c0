"""Which node a slot goes to, and how many fit."""

import pytest

from crowdsweep.engine.nodes import FreeCapacity, Node, refusal, shapes_of
from crowdsweep.resources import Resources


def node(name: str, cpu: float, gpu: float = 0.0, **more: object) -> Node:
    return Node(id=name, name=name, has={"CPU": float(cpu), "GPU": float(gpu), "memory": 1e9}, **more)  # pyright: ignore[reportArgumentType]


HALF_GPU = Resources(cpu=1.0, gpu=0.5)


@pytest.mark.parametrize(
    ("on", "resources", "slots"),
    [
        (node("a", 16, 2), Resources(cpu=4.0, gpu=1.0), 2),
        (node("a", 16, 2), Resources(cpu=4.0, gpu=0.5), 4),
        (node("a", 16, 2), Resources(cpu=10.0, gpu=0.5), 1),
        (node("a", 16), Resources(gpu=0.1), 0),
        (node("a", 0.3), Resources(cpu=0.1), 3),
        (node("a", 8, 1), Resources(cpu=2.0, gpu=0.5, gpu_needed=False), 4),  # two with a half, two without
        (node("a", 8, labels={"zone": "x"}), Resources(labels={"zone": "x"}), 8),
        (node("a", 8), Resources(labels={"zone": "x"}), 0),
        (node("a", 8), Resources(custom={"tpu": 1.0}), 0),
        (Node(name="a", has={"CPU": 8.0, "tpu": 4.0}), Resources(custom={"tpu": 2.0}), 2),
        (node("a", 8, leaves=True), Resources(), 0),
    ],
)
def test_slots_of_a_node(on: Node, resources: Resources, slots: int) -> None:
    assert on.slots(resources) == slots


def test_slots_without_a_gpu_leave_nodes_with_one_to_those_that_need_it() -> None:
    room = FreeCapacity([node("gpu", 4, 1), node("cpu", 2)])
    places: list[str | None] = []
    for _ in range(3):
        places.append(room.place(Resources()))
        room.take(str(places[-1]), Resources())
    assert places == ["cpu", "cpu", "gpu"]
    assert room.place(HALF_GPU) == "gpu"


def test_the_fullest_node_is_taken_so_that_large_slots_find_room() -> None:
    room = FreeCapacity([node("a", 4), node("b", 2)])
    assert room.place(Resources()) == "b"
    room.take("b", Resources())
    assert room.place(Resources(cpu=4.0)) == "a"
    assert room.place(Resources(cpu=5.0)) is None


def test_what_others_hold_is_not_given_away_and_what_ends_comes_back() -> None:
    busy = node("a", 4, free={"CPU": 1.0})
    room = FreeCapacity([busy], held=[("a", Resources(cpu=2.0))])  # another sweep holds one CPU
    assert room.place(Resources()) == "a"
    assert room.place(Resources(cpu=2.0)) is None
    assert room.place(Resources(cpu=2.0), {"a": {"CPU": 2.0}}) == "a"
    room.give("a", Resources(cpu=2.0))
    assert room.place(Resources(cpu=3.0)) == "a"
    just_begun = FreeCapacity([node("a", 4, free={"CPU": 4.0})], held=[("a", Resources(cpu=3.0))])
    assert just_begun.place(Resources(cpu=2.0)) is None, (
        "that the cluster does not know of a new slot yet frees nothing"
    )


def test_a_preferred_gpu_comes_first() -> None:
    with_gpu, without = shapes_of(Resources(cpu=2.0, gpu=0.5, gpu_needed=False))
    assert (with_gpu.gpu, without.gpu, without.cpu) == (0.5, 0.0, 2.0)
    assert shapes_of(HALF_GPU) == (HALF_GPU,)


def test_a_refusal_for_labels_names_those_that_there_are() -> None:
    there = [node("a", 8, labels={"zone": "y", "ray.io/node-id": "1"}), node("b", 8)]
    words = refusal(Resources(labels={"zone": "x"}), there)
    assert "(zone: x), the cluster has a with 8 CPU and 0 GPU (zone: y); b with 8 CPU and 0 GPU (no labels);" in words


def test_the_refusal_names_what_was_asked_for_and_what_there_is() -> None:
    asked = Resources(cpu=2.0, gpu=1.0, custom={"tpu": 1.0}, labels={"zone": "x"})
    words = refusal(asked, [node("a", 8), Node(name="b", has={"CPU": 1.0, "tpu": 2.0, "node:1.2.3.4": 1.0})])
    assert "2 CPU and 1 GPU, 1 tpu for one slot (zone: x)" in words
    assert "a with 8 CPU and 0 GPU (no labels); b with 1 CPU and 0 GPU and 2 tpu (no labels)" in words
