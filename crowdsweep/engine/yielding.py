"""Which slots end after their batches, so that others which wait find room. Pure: marks slots, and sends nothing."""

from collections.abc import Sequence
from typing import Protocol

from crowdsweep.engine.nodes import FreeCapacity, Node
from crowdsweep.resources import Resources


class Placed(Protocol):
    """A slot on a node.

    Attributes:
        shape: the resources that it holds.
        node: id of its node.
        leaves: whether it ends after its batch.
    """

    shape: Resources
    node: str
    leaves: bool


def make_room(
    waiting: Sequence[Resources], nodes: Sequence[Node], slots: Sequence[Placed], may_end: Sequence[Placed]
) -> int:
    """Marks slots that are to end after their batches (`leaves`), only where that makes enough room for a waiting one.

    Args:
        waiting: shape of each slot that waits.
        nodes: on which it may be placed.
        slots: all that hold resources there.
        may_end: those of them that may be marked.

    Returns:
        How many of those that wait have room there, now or once the marked slots have ended.
    """
    room = FreeCapacity(nodes, [(slot.node, slot.shape) for slot in slots])
    of_node: dict[str, list[Placed]] = {node.id: [] for node in nodes}
    for slot in sorted(may_end, key=lambda slot: not slot.leaves):  # those that end anyway come first
        if slot.node in of_node:
            of_node[slot.node].append(slot)
    in_vain: set[Resources] = set()
    found = 0
    for shape in waiting:
        if shape not in in_vain and _has_room(shape, nodes, of_node, room):
            found += 1
        else:
            in_vain.add(shape)
    return found


def _has_room(shape: Resources, nodes: Sequence[Node], of_node: dict[str, list[Placed]], room: FreeCapacity) -> bool:
    """Marks enough slots of one node to make room for a waiting one, and reserves that room.

    Args:
        shape: of the waiting slot.
        nodes: on which it may be placed.
        of_node: slots that may end by node id; those marked are removed.
        room: free capacity of the nodes; changed accordingly.
    """
    for node in (node.id for node in nodes if node.takes(shape)):
        enough = _first_enough(of_node[node], node, shape, room)
        if enough is None:
            continue
        for slot in enough:
            slot.leaves = True
            of_node[node].remove(slot)
            room.give(node, slot.shape)
        room.take(node, shape)
        return True
    return False


def _first_enough(slots: Sequence[Placed], node: str, shape: Resources, room: FreeCapacity) -> Sequence[Placed] | None:
    """Returns the fewest leading slots of a node that have to end for a slot of this shape to fit there.

    None where it does not fit even when all of them end.
    """
    for number in range(len(slots) + 1):
        if room.fits(node, shape, (slot.shape for slot in slots[:number])):
            return slots[:number]
    return None
