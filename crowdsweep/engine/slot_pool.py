"""The slots of a Ray cluster, started and ended as nodes come and go and as work of this shape or that waits."""

import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.devices import device_of
from crowdsweep.engine.executor import Batch
from crowdsweep.engine.nodes import FreeCapacity, shapes_of, wants
from crowdsweep.engine.ray_slot import CONTROL, Slot, slot_options
from crowdsweep.engine.versions import versions_of_trials
from crowdsweep.record.spec import TrialSpec
from crowdsweep.registry.carried import CarriedFolder, carried
from crowdsweep.sweepfile.records import Resources

STILLBORN_LIMIT = 3
"""Slots in a row that end on a node before they are up: then it gets no other."""
LOOKS_S = 1.0
"""How often nodes are looked at."""
BEGINS_S = 60.0
"""How long a slot may take to begin before that is told."""
IDLE_S = 30.0
"""How long a slot without work is kept: the next wave of a search may be about to come."""

_log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Actor:
    """One slot, seen from the driver.

    Attributes:
        name: for people.
        handle: Ray's.
        shape: what it was given.
        node: the id of the node that it lies on.
        waits_on: what is waited for: why a new actor cannot use its device, or the stream of its batch; None when idle.
        up: whether it has answered.
        leaves: whether it ends after its batch: its node is being drained, or it lies where scarcer work waits.
        batch: the latest that it was given.
        unfinished: those of its specs that have no result yet, by key.
        deadline: after which its batch has run too long; None for never.
        idle_since: seconds of `time.monotonic`.
    """

    name: str
    handle: Any
    shape: Resources
    node: str
    waits_on: Any
    up: bool = False
    leaves: bool = False
    unfinished: dict[str, TrialSpec] = field(default_factory=dict)
    batch: Batch | None = None
    deadline: float | None = None
    idle_since: float = field(default_factory=time.monotonic)

    @property
    def device(self) -> str:
        """The torch device of its batches."""
        return device_of(self.shape)

    @property
    def is_idle(self) -> bool:
        """Whether it could be given a batch at once."""
        return self.up and self.waits_on is None

    def takes(self, resources: Resources) -> bool:
        """Whether batches that ask for these resources run on it."""
        return not self.leaves and self.shape in shapes_of(resources)


class SlotPool:
    """Slots of several shapes, each on a node that this pool chose.

    Nothing is started before work waits for it. Where work waits and no node has room, slots of other shapes that have
    nothing to do make room; slots that have long had nothing to do end by themselves.

    Args:
        cluster: that they lie on.
        plugins: folders of the driver; those of this process by default.

    Attributes:
        actors: all slots that there are.
        may_grow: whether the cluster had an autoscaler when it was last looked at.
        drained: the ids of nodes that were drained, as after the notice of a spot node; those that are gone too.
    """

    def __init__(self, cluster: Cluster, plugins: Sequence[CarriedFolder] | None = None) -> None:
        self.actors: list[Actor] = []
        self.drained: set[str] = set()
        self._cluster = cluster
        self._plugins = carried() if plugins is None else plugins
        self._class = ray.remote(concurrency_groups={CONTROL: 1})(Slot)  # pyright: ignore[reportCallIssue]: its stubs lack the keyword
        self._names = (f"slot-{number}" for number in itertools.count())
        self._versions = versions_of_trials()
        self._without_gpus: dict[str, str] = {}  # by id, the names of nodes whose GPUs cannot be used
        self._useless: dict[str, str] = {}  # by id, why no slot begins on a node
        self._stillborn = Counter[str]()  # by node, slots in a row that ended before they were up
        self._alive = self._nodes = cluster.nodes()  # as they are, and as they count here
        self._fits: dict[Resources, int] = {}  # on these nodes; asked for at each poll
        self.may_grow = cluster.may_grow
        self._looked = time.monotonic()
        self._asked: list[Resources] = []
        self._full = False  # when it was last looked at, some work found no room
        self._said = ""

    def fit(self, resources: Resources) -> int:
        """Returns how many batches of these resources the nodes have room for, were there nothing else."""
        if resources not in self._fits:
            self._fits[resources] = sum(node.slots(resources) for node in self._nodes)
        return self._fits[resources]

    def adjust(self, waiting: Mapping[Resources, int]) -> None:
        """Starts slots for what waits and ends those that nobody needs; nodes are looked at once a second.

        Args:
            waiting: how many batches wait that ask for such resources, the first to run first.
        """
        now = time.monotonic()
        if now - self._looked >= LOOKS_S:
            self._looked, self.may_grow = now, self._cluster.may_grow
            self._alive = self._cluster.nodes()
            self._count_nodes()
            self._drop_lost()
        elif self._full or not waiting:
            return
        spare = _IdleSlots(actor for actor in self.actors if not actor.unfinished and not actor.leaves)
        unmet = {resources: n - spare.reserve(resources, n) for resources, n in waiting.items()}
        left = self._start(unmet, spare)
        self._full = bool(left)
        self._have_yield(left)
        self._end_idle(spare, now)
        self._tell(left)
        self._ask(left)

    def end(self, actor: Actor) -> None:
        """Ends a slot, whatever it does."""
        ray.kill(actor.handle)
        self.forget(actor)

    def forget(self, actor: Actor) -> None:
        """Strikes a slot that has ended from the list."""
        self.actors.remove(actor)
        self._full = False

    def do_without_gpus_of(self, actor: Actor) -> bool:
        """Ends a slot whose GPU cannot be used, and starts none with a GPU on its node from now on.

        Returns:
            Whether that is news of this node: each of its slots finds out for itself.
        """
        is_news = actor.node not in self._without_gpus
        self._without_gpus[actor.node] = next((node.name for node in self._nodes if node.id == actor.node), "")
        self._count_nodes()
        self.end(actor)
        return is_news

    def is_up(self, actor: Actor) -> None:
        """Notes that a slot can be given batches."""
        actor.up, actor.waits_on = True, None
        self._stillborn.pop(actor.node, None)

    def do_without_node_of(self, actor: Actor, reason: str, *, at_once: bool) -> str:
        """Notes that a slot has ended before it was up, and starts none on its node from now on, if it was one too
        many.

        Args:
            actor: that slot.
            reason: why it ended.
            at_once: whether another one on this node would end alike.

        Returns:
            The node's name, and why it is done without; empty where it is not, or where that is no news.
        """
        self._stillborn[actor.node] += 1
        if actor.node in self._useless or not (at_once or self._stillborn[actor.node] >= STILLBORN_LIMIT):
            return ""
        name = next((node.name for node in self._alive if node.id == actor.node), actor.node)
        self._useless[actor.node] = f"{name}: {reason}"
        self._count_nodes()
        return self._useless[actor.node]

    @property
    def useless(self) -> Sequence[str]:
        """The nodes on which no slot begins, each with the reason."""
        return sorted({*self._useless.values()})

    def lost_with_nodes(self, resources: Resources) -> bool:
        """Whether batches of these resources would run on nodes that are done without, and on no others."""
        return not self.fit(resources) and any(node.slots(resources) for node in self._alive)

    @property
    def without_gpus(self) -> Sequence[str]:
        """The names of nodes whose GPUs were found to be of no use."""
        return sorted({*self._without_gpus.values()} - {""})

    def close(self) -> None:
        """Ends all slots, and takes back what the autoscaler was asked for."""
        for actor in [*self.actors]:
            self.end(actor)
        if self._asked:
            self._cluster.ask_for([])

    def _count_nodes(self) -> None:
        """Goes by the nodes that are alive, without those, and those GPUs, that were found to be of no use."""
        nodes = [node for node in self._alive if node.id not in self._useless]
        self._nodes = [node.without_gpus() if node.id in self._without_gpus else node for node in nodes]
        self._fits.clear()

    def _drop_lost(self) -> None:
        """Forgets slots without work whose nodes are gone, and ends those whose nodes are about to go."""
        alive = {node.id: node for node in self._nodes}
        self.drained |= {node.id for node in self._nodes if node.leaves}
        for actor in [*self.actors]:
            node = alive.get(actor.node)
            actor.leaves |= node is None or node.leaves
            if actor.leaves and not actor.unfinished:
                self.end(actor)

    def _have_yield(self, left: Sequence[Resources]) -> None:
        """Ends slots after their batches where they need no scarce resource and keep a GPU, or a resource of the node's
        own, from work that waits for it. None ends for nothing: what others hold on a node is not there to be had.
        """
        waiting = [shape for shape in (self._shapes(one)[0] for one in left) if _is_scarce(shape)]
        if not waiting:
            return
        room = FreeCapacity(self._nodes, [(actor.node, actor.shape) for actor in self.actors])
        plain: dict[str, list[Actor]] = {node.id: [] for node in self._nodes}
        for actor in sorted(self.actors, key=lambda actor: not actor.leaves):  # who ends anyway comes first
            if actor.node in plain and not _is_scarce(actor.shape):
                plain[actor.node].append(actor)
        in_vain: set[Resources] = set()
        for shape in waiting:
            if shape not in in_vain and not self._yields_to(shape, plain, room):
                in_vain.add(shape)

    def _yields_to(self, shape: Resources, plain: Mapping[str, list[Actor]], room: FreeCapacity) -> bool:
        """Ends slots of one node for a slot that waits, and notes that it lies there; returns whether any node has
        enough of them.
        """
        for node in (node.id for node in self._nodes if node.takes(shape)):
            enough = _first_enough(plain[node], node, shape, room)
            if enough is None:
                continue
            for actor in enough:
                actor.leaves = True
                plain[node].remove(actor)
                room.give(node, actor.shape)
            room.take(node, shape)
            return True
        return False

    def _end_idle(self, spare: "_IdleSlots", now: float) -> None:
        """Ends slots that have long had nothing to do."""
        for actor in spare:
            if actor.is_idle and now - actor.idle_since > IDLE_S:
                self.end(actor)

    def _start(self, unmet: Mapping[Resources, int], spare: "_IdleSlots") -> list[Resources]:
        """Starts slots for work that none serves, and returns what each batch asks for that found no room."""
        left: list[Resources] = []
        if not any(unmet.values()):
            return left
        room = FreeCapacity(self._nodes, [(actor.node, actor.shape) for actor in self.actors])
        for resources in sorted(unmet, key=_plenty):  # what few nodes have is given first to who needs it
            lacking = unmet[resources]
            while lacking and self._start_for(resources, room, spare):
                lacking -= 1
            left += [resources] * lacking  # where one finds no room no other does: room only becomes less
        return left

    def _start_for(self, resources: Resources, room: FreeCapacity, spare: "_IdleSlots") -> bool:
        """Starts a slot that batches of these resources run on, in place of idle ones where there is no other room."""
        for shape in self._shapes(resources):
            node = room.place(shape)
            if node is None and (node := room.place(shape, spare.freed())) is not None:
                self._make_room(node, shape, room, spare)
            if node is not None:
                room.take(node, shape)
                self.actors.append(self._started(shape, node))
                return True
        return False

    def _make_room(self, node: str, shape: Resources, room: FreeCapacity, spare: "_IdleSlots") -> None:
        """Ends idle slots of a node until another one fits there, those that have been idle longest first."""
        for actor in sorted((one for one in spare if one.node == node), key=lambda one: one.idle_since):
            if room.fits(node, shape):
                return
            spare.remove(actor)
            room.give(node, actor.shape)
            self.end(actor)

    def _started(self, shape: Resources, node: str) -> Actor:
        where = NodeAffinitySchedulingStrategy(node, soft=False)
        options = {**slot_options(shape), "scheduling_strategy": where}
        handle = self._class.options(**options).remote(device_of(shape), self._plugins, self._versions)
        up = handle.why_unusable.options(concurrency_group=CONTROL).remote()
        return Actor(name=next(self._names), handle=handle, shape=shape, node=node, waits_on=up)

    def _shapes(self, resources: Resources) -> Sequence[Resources]:
        """Returns the shapes of slots that are started for a batch, the preferred one first."""
        uses_gpus = not self._without_gpus or any(node.has.get("GPU") for node in self._nodes)
        return shapes_of(resources)[0 if uses_gpus else -1 :]

    def _tell(self, left: Sequence[Resources]) -> None:
        """Says, once, that work waits where no slot is there to run anything, or none of those that were started has
        begun: another sweep that took the same room at the same moment holds them up until it has ended."""
        words, now = "", time.monotonic()
        if left and not self.actors:
            words = (
                "no node has room for a slot now; waiting for one (Ctrl-C ends the sweep, which can be gone on with)"
            )
        elif self.actors and all(not actor.up and now - actor.idle_since > BEGINS_S for actor in self.actors):
            words = (
                f"no slot has begun within {BEGINS_S:g} s: other work may hold its node (`ray status` tells), which is "
                f"waited for (Ctrl-C ends the sweep, which can be gone on with)"
            )
        if words and words != self._said:
            _log.warning("%s", words)
        self._said = words

    def _ask(self, left: Sequence[Resources]) -> None:
        """Asks the autoscaler for room for what runs and what waits; for nothing where nothing waits. It takes every
        GPU for one that can be used, so where some are wanted those that cannot are asked for too."""
        if not self.may_grow:
            return
        shapes = [self._shapes(resources)[0] for resources in left]
        if any(shape.gpu for shape in shapes):
            useless = [node.has.get("GPU", 0.0) for node in self._alive if node.id in self._without_gpus]
            shapes += [Resources(cpu=0.0, gpu=gpus) for gpus in useless if gpus]
        if shapes:
            shapes += [actor.shape for actor in self.actors]
        if shapes != self._asked:
            self._cluster.ask_for(shapes)
            self._asked = shapes


def ping(handle: Any) -> Any:
    """Asks an actor whether it is up; what comes back says so in the end."""
    return handle.ping.options(concurrency_group=CONTROL).remote()


def _is_scarce(shape: Resources) -> bool:
    """Whether a slot takes what few nodes have."""
    return shape.gpu > 0 or bool(shape.custom)


def _first_enough(actors: Sequence[Actor], node: str, shape: Resources, room: FreeCapacity) -> Sequence[Actor] | None:
    """Returns the first of some slots of a node that have to end for another one to fit there; None where it does not
    even then."""
    for number in range(len(actors) + 1):
        if room.fits(node, shape, (actor.shape for actor in actors[:number])):
            return actors[:number]
    return None


def _plenty(resources: Resources) -> tuple[float, int, float]:
    """Returns what sorts work by how many nodes have what it asks for, the scarcest first."""
    return -resources.gpu, -len(resources.custom) - len(resources.labels), -resources.cpu


class _IdleSlots:
    """Slots without work, less those that are reserved for work that waits.

    Args:
        actors: all that have none.
    """

    def __init__(self, actors: Iterable[Actor]) -> None:
        self._by_shape: dict[Resources, list[Actor]] = {}
        for actor in actors:
            self._by_shape.setdefault(actor.shape, []).append(actor)

    def __iter__(self) -> Iterator[Actor]:
        return itertools.chain.from_iterable([*self._by_shape.values()])

    def reserve(self, resources: Resources, most: int) -> int:
        """Reserves at most so many slots for batches of these resources, and returns how many there were."""
        found = 0
        for shape in shapes_of(resources):
            of_shape = self._by_shape.get(shape, [])
            taken = min(most - found, len(of_shape))
            del of_shape[:taken]
            found += taken
        return found

    def remove(self, actor: Actor) -> None:
        """Strikes one."""
        self._by_shape[actor.shape].remove(actor)

    def freed(self) -> Mapping[str, Mapping[str, float]]:
        """Returns by node what they would give back."""
        freed: dict[str, dict[str, float]] = {}
        for actor in self:
            given = freed.setdefault(actor.node, {})
            for name, amount in wants(actor.shape).items():
                given[name] = given.get(name, 0.0) + amount
        return freed
