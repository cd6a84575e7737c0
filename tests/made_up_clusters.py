"""A cluster whose nodes a test names, and slots on it that have no processes."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from crowdsweep.engine import slot_pool
from crowdsweep.engine.nodes import Node, wants
from crowdsweep.engine.slot_pool import Actor, SlotPool
from crowdsweep.resources import Resources

CPU, GPU, EITHER = Resources(), Resources(gpu=1.0), Resources(gpu=1.0, gpu_needed=False)


def node(name: str, cpu: float, gpu: float = 0.0, *, leaves: bool = False, **own: float) -> Node:
    """Returns a node, whose id is its name; `own` are its custom resources."""
    return Node(id=name, name=name, has={"CPU": float(cpu), "GPU": float(gpu), **own}, leaves=leaves)


@dataclass(kw_only=True)
class MadeUp:
    """A cluster whose nodes a test names.

    Attributes:
        there: its nodes.
        others: by node, what other jobs hold there.
        asked: what the autoscaler was asked for, each time.
        pool: on it.
    """

    there: list[Node]
    may_grow: bool = False
    others: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    asked: list[list[Resources]] = field(default_factory=list[list[Resources]])
    pool: "Pool | None" = None

    def nodes(self) -> list[Node]:
        return [replace(one, free=self._free(one)) for one in self.there]

    def _free(self, on: Node) -> dict[str, float]:
        free = Counter(on.has)
        free.subtract(self.others.get(on.id, {}))
        for actor in self.pool.actors if self.pool else ():
            free.subtract(wants(actor.shape) if actor.node == on.id else {})
        return dict(free)

    def ask_for(self, shapes: list[Resources]) -> None:
        self.asked.append([*shapes])


class Pool(SlotPool):
    """Slots without processes."""

    def _started(self, shape: Resources, node: str) -> Actor:
        host = next(one.name for one in self._nodes if one.id == node)
        return Actor(name=next(self._names), handle=None, shape=shape, node=node, host=host, waits_on=None, up=True)

    def end(self, actor: Actor) -> None:
        self.forget(actor)

    def looked(self, waiting: list[Resources]) -> dict[str, list[tuple[float, float]]]:
        """Looks at nodes again, and returns the slots of each."""
        self._looked = float("-inf")
        self.adjust(Counter(waiting))
        found: dict[str, list[tuple[float, float]]] = {}
        for actor in self.actors:
            found.setdefault(actor.node, []).append((actor.shape.cpu, actor.shape.gpu))
        return found


Make = Callable[..., tuple[Pool, MadeUp]]


def maker(patch: pytest.MonkeyPatch) -> Make:
    """Returns what makes a pool on nodes, without Ray."""
    patch.setattr(slot_pool.ray, "remote", lambda **_: lambda kind: kind)

    def make(
        *there: Node, may_grow: bool = False, others: Mapping[str, Mapping[str, float]] | None = None
    ) -> tuple[Pool, MadeUp]:
        cluster = MadeUp(there=list(there), may_grow=may_grow, others=dict(others or {}))
        cluster.pool = Pool(cluster)  # pyright: ignore[reportArgumentType]
        return cluster.pool, cluster

    return make


def busy(pool: Pool) -> None:
    """Gives every slot something to do."""
    for actor in pool.actors:
        actor.unfinished, actor.waits_on = {"k": None}, object()  # pyright: ignore[reportAttributeAccessIssue]
