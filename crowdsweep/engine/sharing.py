"""How the sweeps on a cluster share it: each tells the others what it holds and what waits, and gives way.

Ray starts what fits, in the order in which it is asked: the first sweep on a cluster would hold all of it until its
last batch. So each writes a claim into the cluster's own key-value store every second, and reads those of the others.
"""

import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol

from crowdsweep.engine.nodes import wants
from crowdsweep.files.typed import Finite, Many, Text, Whole, read_json_as
from crowdsweep.resources import Resources

SILENT_S = 30.0
"""Seconds after which a claim that is not renewed counts no more: its driver is gone."""
_MOST_BYTES = 100_000
_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a sweep tells the others on its cluster.

    Attributes:
        sweep: its name.
        share: the part of the cluster that its slots hold, of the resource of which they hold most: 0 to 1.
        waiting: number of batches that wait and have no slot.
        shape: the slot that they wait for.
        slot: the part of the cluster that such a slot holds.
        avoids: ids of nodes on which it starts no slot.
        beat: a number that changes with each renewal.
    """

    sweep: Text
    share: Finite
    waiting: Whole = 0
    shape: Resources = field(default_factory=Resources)
    slot: Finite = 1.0
    avoids: Many[Text] = ()
    beat: Whole = 0

    def owed_by(self, richer: "Claim") -> int:
        """Returns how many slots a richer sweep hands over, so that both then hold alike, or nearly."""
        return min(self.waiting, int((richer.share - self.share) / (2 * self.slot) + _EPSILON)) if self.slot > 0 else 0


class Board(Protocol):
    """Where claims are written: bytes by key."""

    def put(self, key: str, value: bytes) -> None:
        """Writes a value in place of the one before."""

    def read(self) -> Mapping[str, bytes]:
        """Returns all values."""
        ...

    def remove(self, key: str) -> None:
        """Removes a value, if it is there."""


class Sharing:
    """The claims of the sweeps on one cluster, seen from one of them.

    Args:
        sweep: its name.
        board: where the claims are.
    """

    def __init__(self, sweep: str, board: Board) -> None:
        self.sweep = sweep
        self._board = board
        self._key = secrets.token_hex(8)
        self._beat = 0
        self._renewed: dict[str, tuple[bytes, float]] = {}  # by key: the value, and since when it is the same

    def exchange(self, mine: Claim) -> list[Claim]:
        """Renews this sweep's claim, and returns those of all others, without drivers that are gone."""
        self._beat += 1
        self._board.put(self._key, json.dumps(asdict(replace(mine, beat=self._beat))).encode())
        now, found = time.monotonic(), list[Claim]()
        for key, value in self._board.read().items():
            if key == self._key or len(value) > _MOST_BYTES:
                continue
            if self._renewed.get(key, (b"", 0.0))[0] != value:
                self._renewed[key] = value, now
            if now - self._renewed[key][1] > SILENT_S:
                self._board.remove(key)
                continue
            try:
                found.append(read_json_as(Claim, value))
            except ValueError:  # another version of crowdsweep
                continue
        return found

    def close(self) -> None:
        """Withdraws this sweep's claim."""
        self._board.remove(self._key)


def poorest(mine: Claim, others: Iterable[Claim]) -> Claim | None:
    """Returns the claim of the sweep that holds least of those that wait and hold less than this one."""
    poorer = [one for one in others if one.waiting and one.share < mine.share - _EPSILON]
    return min(poorer, key=lambda one: one.share, default=None)


def part_of(shapes: Iterable[Resources], nodes: Sequence[Mapping[str, float]]) -> float:
    """Returns the part of a cluster that slots hold, of the resource of which they hold most: 0 to 1.

    Args:
        shapes: of the slots.
        nodes: the resources of each node, by Ray's names.
    """
    held: dict[str, float] = {}
    for name, amount in (pair for shape in shapes for pair in wants(shape).items()):
        held[name] = held.get(name, 0.0) + amount
    there = {name: sum(node.get(name, 0.0) for node in nodes) for name in held}
    return max((held[name] / all_ for name, all_ in there.items() if all_), default=0.0)
