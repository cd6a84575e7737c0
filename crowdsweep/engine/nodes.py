"""The nodes of a cluster, and which of them a slot of some shape fits on. Pure: asks no cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from crowdsweep.sweepfile.records import Resources

_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine of a cluster.

    Attributes:
        id: Ray's.
        name: its host's.
        has: what it has in all, by Ray's names: `CPU`, `GPU` and custom resources.
        free: of that, what nobody holds, as far as the cluster knows by now; None where it does not say.
        labels: Ray's.
        leaves: whether it is being drained, as after the notice of a spot node: it takes no new work.
    """

    id: str = ""
    name: str
    has: Mapping[str, float]
    free: Mapping[str, float] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    leaves: bool = False

    def takes(self, resources: Resources) -> bool:
        """Whether a slot of this shape may lie here: by labels, not by what is free."""
        return not self.leaves and all(self.labels.get(name) == value for name, value in resources.labels.items())

    def slots(self, resources: Resources) -> int:
        """Returns how many slots that batches of this shape can run on fit here, were there no others."""
        if not self.takes(resources):
            return 0
        left, fit = dict(self.has), 0
        for shape in shapes_of(resources):
            wanted = wants(shape)
            more = min(int(left.get(name, 0.0) / amount + _EPSILON) for name, amount in wanted.items())
            left = {name: have - more * wanted.get(name, 0.0) for name, have in left.items()}
            fit += more
        return fit

    def without_gpus(self) -> "Node":
        """Returns this node as it counts where its GPUs cannot be used."""
        return replace(self, has={name: amount for name, amount in self.has.items() if name != "GPU"})

    def __str__(self) -> str:
        own = {name: amount for name, amount in self.has.items() if _is_counted(name)}
        words = [f"{own.pop(name, 0.0):g} {name}" for name in ("CPU", "GPU")]
        words += [f"{amount:g} {name}" for name, amount in own.items()]
        return f"{self.name} with {' and '.join(words)}"


def wants(shape: Resources) -> dict[str, float]:
    """Returns what a slot takes of a node, by Ray's names; nothing of which it takes none."""
    wanted = {"CPU": float(shape.cpu), "GPU": float(shape.gpu), **shape.custom}
    return {name: amount for name, amount in wanted.items() if amount > 0}


@cache  # asked for every idle slot whenever a batch waits
def shapes_of(resources: Resources) -> tuple[Resources, ...]:
    """Returns the shapes of slots that a batch can run on, the preferred one first."""
    if resources.gpu > 0 and not resources.gpu_needed:
        return replace(resources, gpu_needed=True), replace(resources, gpu=0.0, gpu_needed=True)
    return (replace(resources, gpu_needed=True),)


class FreeCapacity:
    """What is left of each node, less the slots that lie there.

    Args:
        nodes: those that are alive.
        held: the node's id and the shape of each slot that there is.
    """

    def __init__(self, nodes: Iterable[Node], held: Iterable[tuple[str, Resources]] = ()) -> None:
        self._nodes = {node.id: node for node in nodes}
        ours: dict[str, dict[str, float]] = {id_: {} for id_ in self._nodes}
        for id_, shape in held:
            if id_ in ours:
                for name, amount in wants(shape).items():
                    ours[id_][name] = ours[id_].get(name, 0.0) + amount
        self._left = {id_: _left_of(node, ours[id_]) for id_, node in self._nodes.items()}

    def place(self, shape: Resources, freed: Mapping[str, Mapping[str, float]] | None = None) -> str | None:
        """Returns the node on which a slot should lie; None where there is no room.

        Slots without a GPU go where no GPU is, if they can; among the rest the fullest node is taken, so that larger
        slots find room on the others.

        Args:
            shape: of the slot.
            freed: by node, what else could be had there.
        """
        wanted, more = wants(shape), freed or {}
        fitting: list[tuple[bool, float, str]] = []
        for id_, left in self._left.items():
            have = {name: left.get(name, 0.0) + more.get(id_, {}).get(name, 0.0) for name in wanted}
            if self._nodes[id_].takes(shape) and all(have[name] + _EPSILON >= wanted[name] for name in wanted):
                fitting.append((shape.gpu == 0 and self._nodes[id_].has.get("GPU", 0.0) > 0, have["CPU"], id_))
        return min(fitting)[2] if fitting else None

    def fits(self, id_: str, shape: Resources, ended: Iterable[Resources] = ()) -> bool:
        """Whether there is room for a slot on a node, once slots of these shapes have ended there."""
        left = dict(self._left[id_])
        for name, amount in (pair for one in ended for pair in wants(one).items()):
            left[name] = left.get(name, 0.0) + amount
        return all(left.get(name, 0.0) + _EPSILON >= amount for name, amount in wants(shape).items())

    def take(self, id_: str, shape: Resources) -> None:
        """Notes a slot on a node."""
        self._change(id_, shape, -1)

    def give(self, id_: str, shape: Resources) -> None:
        """Notes that a slot of a node has ended."""
        self._change(id_, shape, 1)

    def _change(self, id_: str, shape: Resources, sign: int) -> None:
        if left := self._left.get(id_):
            for name, amount in wants(shape).items():
                left[name] = left.get(name, 0.0) + sign * amount


def refusal(resources: Resources, nodes: Sequence[Node]) -> str:
    """Returns why a slot fits nowhere, for a person: what was asked for, and what each node has."""
    asked = [f"{resources.cpu:g} CPU and {resources.gpu:g} GPU"]
    asked += [f"{amount:g} {name}" for name, amount in resources.custom.items()]
    labelled = ", ".join(f"{name}: {value}" for name, value in resources.labels.items())
    had = "; ".join(map(_labelled if labelled else str, nodes)) or "no node"
    return (
        f"resources: expected a node that has {', '.join(asked)} for one slot{labelled and f' ({labelled})'}, "
        f"the cluster has {had}; ask for less, or join a larger cluster with --address"
    )


def _labelled(node: Node) -> str:
    """Returns what a node has, with the labels that people gave it: not those that Ray did."""
    own = [f"{name}: {value}" for name, value in node.labels.items() if not name.startswith("ray.io/")]
    return f"{node} ({', '.join(own) or 'no labels'})"


def _left_of(node: Node, ours: Mapping[str, float]) -> dict[str, float]:
    """Returns what our slots and other people's work leave of a node. What a slot holds that has just begun, or has
    just ended, the cluster learns a moment later: others are never taken to hold less than nothing."""
    left: dict[str, float] = {}
    for name, all_ in node.has.items():
        mine = ours.get(name, 0.0)
        others = 0.0 if node.free is None else max(0.0, all_ - node.free.get(name, 0.0) - mine)
        left[name] = all_ - mine - others
    return left


def _is_counted(name: str) -> bool:
    """Whether it is a resource that people speak of: not memory, and not the marks that Ray puts on a node."""
    return not (name.startswith(("node:", "accelerator_type:")) or name in ("memory", "object_store_memory"))
