"""The nodes of a cluster, and which of them have room for a slot of some shape. Pure: sends no request to a cluster."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from crowdsweep.resources import Resources

_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True)
class Node:
    """One machine of a cluster.

    Attributes:
        id: Ray's id of the node.
        name: host name, unlike those of the other nodes (`named_apart`).
        has: total resources, by Ray's names: `CPU`, `GPU` and custom resources.
        free: the part of them that is not in use, as the cluster last reported; None where it does not report it.
        labels: Ray's labels of the node.
        leaves: whether the node is being drained, as after a spot node's termination notice: it takes no new work.
    """

    id: str = ""
    name: str
    has: Mapping[str, float]
    free: Mapping[str, float] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    leaves: bool = False

    def takes(self, resources: Resources) -> bool:
        """Whether a slot of this shape may be placed here: the labels match and the node is not being drained.

        Resources are not compared.
        """
        return not self.leaves and all(self.labels.get(name) == value for name, value in resources.labels.items())

    def slots(self, resources: Resources) -> int:
        """Returns how many slots for batches with these resources the node has room for when it is empty."""
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
        """Returns a copy of this node without GPUs, for a node whose GPUs cannot be used."""
        return replace(self, has={name: amount for name, amount in self.has.items() if name != "GPU"})

    def __str__(self) -> str:
        own = {name: amount for name, amount in self.has.items() if _is_counted(name)}
        words = [f"{own.pop(name, 0.0):g} {name}" for name in ("CPU", "GPU")]
        words += [f"{amount:g} {name}" for name, amount in own.items()]
        return f"{self.name} with {' and '.join(words)}"


def wants(shape: Resources) -> dict[str, float]:
    """Returns the resources that a slot takes from a node, by Ray's names; amounts of 0 are left out."""
    wanted = {"CPU": float(shape.cpu), "GPU": float(shape.gpu), **shape.custom}
    return {name: amount for name, amount in wanted.items() if amount > 0}


@cache  # called for every idle slot whenever a batch waits
def shapes_of(resources: Resources) -> tuple[Resources, ...]:
    """Returns the shapes of slots that a batch with these resources can run on, the preferred one first.

    A batch that prefers a GPU without needing it has two: with the GPU, and without.
    """
    if resources.gpu > 0 and not resources.gpu_needed:
        return replace(resources, gpu_needed=True), replace(resources, gpu=0.0, gpu_needed=True)
    return (replace(resources, gpu_needed=True),)


def is_scarce(shape: Resources) -> bool:
    """Whether a slot holds a resource that few nodes have: a GPU or a custom resource."""
    return shape.gpu > 0 or bool(shape.custom)


def plenty(resources: Resources) -> tuple[float, int, float]:
    """Returns a sort key that puts resources which few nodes have first: GPUs, custom resources and labels, CPUs."""
    return -resources.gpu, -len(resources.custom) - len(resources.labels), -resources.cpu


class FreeCapacity:
    """Free capacity of each node: its resources minus those of the slots placed on it and of other people's work.

    Args:
        nodes: the nodes that are alive.
        held: node id and shape of each existing slot.
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
        """Returns the id of the node on which to place a slot; None where there is no room.

        A slot without a GPU is placed on a node without GPUs, if one has room. Among the remaining candidates, the node
        with the fewest free CPUs is taken, so that larger slots find room on the others.

        Args:
            shape: of the slot.
            freed: by node id, resources that could be freed there in addition.
        """
        wanted, more = wants(shape), freed or {}
        fitting: list[tuple[bool, float, str]] = []
        for id_, left in self._left.items():
            have = {name: left.get(name, 0.0) + more.get(id_, {}).get(name, 0.0) for name in wanted}
            if self._nodes[id_].takes(shape) and all(have[name] + _EPSILON >= wanted[name] for name in wanted):
                fitting.append((shape.gpu == 0 and self._nodes[id_].has.get("GPU", 0.0) > 0, have["CPU"], id_))
        return min(fitting)[2] if fitting else None

    def fits(self, id_: str, shape: Resources, ended: Iterable[Resources] = ()) -> bool:
        """Whether a node has room for a slot once slots of the shapes `ended` have ended there."""
        left = dict(self._left[id_])
        for name, amount in (pair for one in ended for pair in wants(one).items()):
            left[name] = left.get(name, 0.0) + amount
        return all(left.get(name, 0.0) + _EPSILON >= amount for name, amount in wants(shape).items())

    def take(self, id_: str, shape: Resources) -> None:
        """Subtracts a slot from a node's free capacity."""
        self._change(id_, shape, -1)

    def give(self, id_: str, shape: Resources) -> None:
        """Adds an ended slot to a node's free capacity."""
        self._change(id_, shape, 1)

    def _change(self, id_: str, shape: Resources, sign: int) -> None:
        if left := self._left.get(id_):
            for name, amount in wants(shape).items():
                left[name] = left.get(name, 0.0) + sign * amount


def named_apart(nodes: Sequence[Node]) -> list[Node]:
    """Returns the nodes, those of one host with the first letters of their ids in their names: `HOST (3f2a1c)`."""
    of_host = Counter(node.name for node in nodes)
    return [node if of_host[node.name] == 1 else replace(node, name=f"{node.name} ({node.id[:6]})") for node in nodes]


def refusal(resources: Resources, nodes: Sequence[Node]) -> str:
    """Returns the message that a slot fits on no node: the resources that it asks for, and those of each node."""
    asked = [f"{resources.cpu:g} CPU and {resources.gpu:g} GPU"]
    asked += [f"{amount:g} {name}" for name, amount in resources.custom.items()]
    labelled = ", ".join(f"{name}: {value}" for name, value in resources.labels.items())
    had = "; ".join(map(_labelled if labelled else str, nodes)) or "no node"
    return (
        f"resources: expected a node that has {', '.join(asked)} for one slot{labelled and f' ({labelled})'}, "
        f"the cluster has {had}; ask for less, or join a larger cluster with --address"
    )


def _labelled(node: Node) -> str:
    """Returns a node's resources and labels as text, without the labels that Ray sets itself."""
    own = [f"{name}: {value}" for name, value in node.labels.items() if not name.startswith("ray.io/")]
    return f"{node} ({', '.join(own) or 'no labels'})"


def _left_of(node: Node, ours: Mapping[str, float]) -> dict[str, float]:
    """Returns a node's resources minus those of our slots (`ours`) and of other people's work.

    Other people's use is what the cluster reports as used, minus `ours`. The cluster learns a moment late of slots that
    have just begun or ended, so this difference can be negative; it counts as 0 then.
    """
    left: dict[str, float] = {}
    for name, all_ in node.has.items():
        mine = ours.get(name, 0.0)
        others = 0.0 if node.free is None else max(0.0, all_ - node.free.get(name, 0.0) - mine)
        left[name] = all_ - mine - others
    return left


def _is_counted(name: str) -> bool:
    """Whether a resource is shown to users: not memory, and not the marks that Ray puts on a node."""
    return not (name.startswith(("node:", "accelerator_type:")) or name in ("memory", "object_store_memory"))
