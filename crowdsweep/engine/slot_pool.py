"""The slots of a Ray cluster: starts and ends them as nodes come and go and as batches of various shapes wait."""

import itertools
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.devices import device_of
from crowdsweep.engine.executor import Batch
from crowdsweep.engine.nodes import FreeCapacity, is_scarce, plenty, shapes_of, wants
from crowdsweep.engine.ray_slot import CONTROL, Slot, slot_options
from crowdsweep.engine.sharing import Claim, Sharing, part_of, poorest
from crowdsweep.engine.versions import versions_of_trials
from crowdsweep.engine.yielding import make_room
from crowdsweep.errors import plain
from crowdsweep.record.spec import TrialSpec
from crowdsweep.registry.plugin_transfer import PluginFolder, plugin_folders
from crowdsweep.resources import Resources

STILLBORN_LIMIT = 3
"""After so many slots in a row ended on a node before they were up, the node gets no further slot."""
LOOKS_S = 1.0
"""Seconds between two looks at the cluster's nodes."""
BEGINS_S = 60.0
"""Seconds that a slot may take to start before a warning says so."""
NO_ROOM_S = 5.0
"""Seconds without any slot before a warning says so: Ray frees the room of a slot that has ended a moment later."""
IDLE_S = 30.0
"""Seconds that a slot without work is kept: a search may be about to submit its next batches."""
_ENDS = "Ctrl-C ends the sweep, which can be continued"

_log = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Actor:
    """One slot, seen from the driver.

    Attributes:
        name: the slot's name in messages and events.
        handle: Ray's handle of the actor.
        shape: the resources that the actor holds.
        node: id of the node that the slot is placed on.
        host: name of that node.
        waits_on: what the driver waits for: of a new actor the reply of `Slot.why_unusable`, of a busy one the stream
            of its batch; None when it is idle.
        up: whether the actor has answered that it can run batches.
        leaves: whether the slot ends after its batch: its node is being drained, or batches that need a scarce resource
            of that node wait.
        batch: the latest batch that it was given.
        unfinished: specs of that batch that have no result yet, by key.
        deadline: time (`time.monotonic`) after which its batch has run too long; None for never.
        idle_since: time (`time.monotonic`) since when it has no work, or was started.
    """

    name: str
    handle: Any
    shape: Resources
    node: str
    waits_on: Any
    host: str = ""
    up: bool = False
    leaves: bool = False
    unfinished: dict[str, TrialSpec] = field(default_factory=dict)
    batch: Batch | None = None
    deadline: float | None = None
    idle_since: float = field(default_factory=time.monotonic)

    @property
    def device(self) -> str:
        """Torch device of the slot's batches."""
        return device_of(self.shape)

    @property
    def is_idle(self) -> bool:
        """Whether the slot can be given a batch now."""
        return self.up and self.waits_on is None

    def takes(self, resources: Resources) -> bool:
        """Whether the slot can run batches that ask for these resources, and is not about to end."""
        return not self.leaves and self.shape in shapes_of(resources)


class SlotPool:
    """Pool of slots of several shapes, each on a node that the pool chose.

    A slot is started only when a batch waits for one. Where no node has room for it, idle slots of other shapes are
    ended to make room. Slots that have been idle for `IDLE_S` are ended as well.

    Args:
        cluster: the cluster on which the slots are placed.
        plugins: the driver's folders of plug-ins; those of this process by default.
        sharing: what the sweeps on the cluster tell each other; None where this one is alone.

    Attributes:
        actors: all existing slots.
        may_grow: whether the cluster had an autoscaler when it was last looked at.
        drained: ids of nodes that were or are being drained, as after a spot node's notice, with those gone by now.
    """

    def __init__(
        self, cluster: Cluster, plugins: Sequence[PluginFolder] | None = None, sharing: Sharing | None = None
    ) -> None:
        self.actors: list[Actor] = []
        self.drained: set[str] = set()
        self._cluster = cluster
        self._plugins = plugin_folders() if plugins is None else plugins
        self._class = ray.remote(concurrency_groups={CONTROL: 1})(Slot)  # pyright: ignore[reportCallIssue]: its stubs lack the keyword
        self._names = (f"slot-{number}" for number in itertools.count())
        self._versions = versions_of_trials()
        self._without_gpus: dict[str, str] = {}  # by node id, the names of nodes whose GPUs cannot be used
        self._useless: dict[str, str] = {}  # by node id, the name of a node on which no slot starts, and the reason
        self._stillborn = Counter[str]()  # by node id, slots in a row that ended before they were up
        self._alive = self._nodes = cluster.nodes()  # `_nodes`: those that slots may use (`_count_nodes`)
        self._fits: dict[Resources, int] = {}  # cache of `fit`, which each poll calls
        self.may_grow = cluster.may_grow
        self._looked = self._had_room = time.monotonic()
        self._sharing = sharing
        self._others: list[Claim] | None = [] if sharing is None else None  # None until they were asked
        self._gave: set[str] = set()  # sweeps that slots were handed over to, for messages
        self._gives_way = False  # whether room is left to another sweep
        self._left: list[Resources] = []  # of each batch that found no room at the last `adjust`
        self._asked: list[Resources] = []
        self._full = False  # whether some batches found no room at the last `adjust`
        self._said = ""

    def fit(self, resources: Resources) -> int:
        """Returns how many slots for batches with these resources the nodes would have room for if they were empty."""
        if resources not in self._fits:
            self._fits[resources] = sum(node.slots(resources) for node in self._nodes)
        return self._fits[resources]

    def adjust(self, waiting: Mapping[Resources, int]) -> None:
        """Starts slots for waiting batches and ends slots that are not needed; looks at the nodes once a second.

        Args:
            waiting: number of waiting batches by resources, in the order in which they are to run.
        """
        now = time.monotonic()
        if now - self._looked >= LOOKS_S:
            self._looked, self.may_grow = now, self._cluster.may_grow
            self._alive = self._cluster.nodes()
            self._count_nodes()
            self._drop_lost()
            self._share_with_others()
        elif self._full or not waiting:
            return
        spare = _IdleSlots(actor for actor in self.actors if not actor.unfinished and not actor.leaves)
        unmet = {resources: n - spare.reserve(resources, n) for resources, n in waiting.items()}
        left = self._left = self._start(unmet, spare)
        self._full = bool(left)
        self._have_yield(left)
        self._end_idle(spare, now)
        self._tell(left)
        self._ask(left)

    def end(self, actor: Actor) -> None:
        """Kills a slot, whether it is busy or not, and removes it from the list."""
        ray.kill(actor.handle)
        self.forget(actor)

    def forget(self, actor: Actor) -> None:
        """Removes a slot that has ended from the list."""
        self.actors.remove(actor)
        self._full = False

    def do_without_gpus_of(self, actor: Actor) -> bool:
        """Ends a slot whose GPU cannot be used, and starts no further slot with a GPU on its node.

        Returns:
            Whether this was not known of the node yet (each of its slots finds out for itself).
        """
        is_news = actor.node not in self._without_gpus
        self._without_gpus[actor.node] = actor.host
        self._count_nodes()
        self.end(actor)
        return is_news

    def is_up(self, actor: Actor) -> None:
        """Notes that a slot is up and can be given batches."""
        actor.up, actor.waits_on = True, None
        self._stillborn.pop(actor.node, None)

    def do_without_node_of(self, actor: Actor, reason: str, *, at_once: bool) -> str:
        """Notes that a slot ended before it was up; after `STILLBORN_LIMIT` in a row its node gets no further slot.

        Args:
            at_once: whether the node gets no further slot after this one already, since others would end alike.

        Returns:
            The node's name and the reason, where the node is given up now; empty where it is not, or was already.
        """
        self._stillborn[actor.node] += 1
        if actor.node in self._useless or not (at_once or self._stillborn[actor.node] >= STILLBORN_LIMIT):
            return ""
        self._useless[actor.node] = f"{actor.host}: {reason}"
        self._count_nodes()
        return self._useless[actor.node]

    @property
    def useless(self) -> Sequence[str]:
        """Names of the nodes on which no slot starts, each with the reason."""
        return sorted({*self._useless.values()})

    def lost_with_nodes(self, resources: Resources) -> bool:
        """Whether batches with these resources fit only on nodes that were given up, or whose GPUs cannot be used."""
        return not self.fit(resources) and any(node.slots(resources) for node in self._alive)

    @property
    def without_gpus(self) -> Sequence[str]:
        """Names of the nodes whose GPUs cannot be used."""
        return sorted({*self._without_gpus.values()} - {""})

    def close(self) -> None:
        """Ends all slots, and withdraws the request to the autoscaler."""
        for actor in [*self.actors]:
            self.end(actor)
        if self._asked:
            self._cluster.ask_for([])
        if self._sharing is not None:
            self._sharing.close()

    def _count_nodes(self) -> None:
        """Updates `_nodes`: the nodes that are alive, without those given up and without GPUs that cannot be used."""
        nodes = [node for node in self._alive if node.id not in self._useless]
        self._nodes = [node.without_gpus() if node.id in self._without_gpus else node for node in nodes]
        self._fits.clear()

    def _drop_lost(self) -> None:
        """Marks slots whose nodes are gone, given up or being drained (`leaves`), and ends those without work."""
        alive = {node.id: node for node in self._nodes}
        for node in self._nodes:
            if node.leaves and node.id not in self.drained:
                _log.warning(
                    "%s is about to be taken back: it gets no new work, what runs there may still end", node.name
                )
                self.drained.add(node.id)
        for actor in [*self.actors]:
            node = alive.get(actor.node)
            actor.leaves |= node is None or node.leaves
            if actor.leaves and not actor.unfinished:
                self.end(actor)

    def _have_yield(self, left: Sequence[Resources]) -> None:
        """Marks slots that are to end after their batches, so that batches which need a scarce resource find room.

        Scarce resources are GPUs and custom resources. Only slots that hold none of them are marked, and only where
        ending them makes enough room on their node for a waiting slot.

        Args:
            left: resources of each batch that found no room.
        """
        waiting = [shape for shape in (self._shapes(one)[0] for one in left) if is_scarce(shape)]
        if waiting:
            may_end = [actor for actor in self.actors if not is_scarce(actor.shape)]
            make_room(waiting, self._nodes, self.actors, may_end)

    def _share_with_others(self) -> None:
        """Tells the other sweeps on the cluster what this one holds and waits for, and gives way to the poorest.

        Slots end after their batches until both hold alike; this sweep keeps one. Where a poorer sweep waits for room
        that there is, or will be then, this one starts no slot (`_gives_way`).
        """
        self._gives_way = False
        if self._sharing is None:
            return
        nodes, staying = [node.has for node in self._alive], [actor for actor in self.actors if not actor.leaves]
        mine = Claim(sweep=self._sharing.sweep, share=part_of((actor.shape for actor in staying), nodes))
        if self._left:
            shape = self._shapes(self._left[0])[-1]
            avoids = [*self._useless, *(self._without_gpus if shape.gpu else ())]
            mine = replace(mine, waiting=len(self._left), shape=shape, slot=part_of([shape], nodes), avoids=avoids)
        self._others = self._sharing.exchange(mine)
        poor = poorest(mine, self._others)
        if poor is None or not staying:
            return
        owed = poor.owed_by(mine)
        may_end = sorted(self.actors, key=lambda actor: not actor.leaves)[:-1] if owed else []
        where = [node for node in self._nodes if node.id not in poor.avoids]
        self._gives_way = make_room([poor.shape] * max(1, owed), where, self.actors, may_end) > 0
        if self._gives_way and owed and poor.sweep not in self._gave:
            self._gave.add(poor.sweep)
            _log.warning(
                "the sweep %s waits for room here: slots are handed to it as batches end, until both hold alike",
                plain(poor.sweep),
            )

    def _end_idle(self, spare: "_IdleSlots", now: float) -> None:
        """Ends slots that have been idle for longer than `IDLE_S`."""
        for actor in spare:
            if actor.is_idle and now - actor.idle_since > IDLE_S:
                self.end(actor)

    def _start(self, unmet: Mapping[Resources, int], spare: "_IdleSlots") -> list[Resources]:
        """Starts slots for batches that have none.

        Args:
            unmet: number of such batches by resources.
            spare: idle slots, which may be ended to make room.

        Returns:
            The resources of each batch for which no node has room, or whose room is another sweep's.
        """
        left: list[Resources] = []
        if not any(unmet.values()):
            return left
        if self._gives_way and self.actors:
            return [resources for resources, lacking in unmet.items() for _ in range(lacking)]
        room = FreeCapacity(self._nodes, [(actor.node, actor.shape) for actor in self.actors])
        for resources in sorted(unmet, key=plenty):  # the scarcest resources are assigned first
            lacking = unmet[resources]
            while lacking and self._start_for(resources, room, spare):
                lacking -= 1
            left += [resources] * lacking  # where one finds no room the others do not either
        return left

    def _start_for(self, resources: Resources, room: FreeCapacity, spare: "_IdleSlots") -> bool:
        """Starts a slot for a batch with these resources, in place of idle slots where there is no other room.

        Returns:
            Whether there was room for one.
        """
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
        """Ends idle slots of a node, the longest idle first, until a slot of this shape fits there."""
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
        host = next(one.name for one in self._nodes if one.id == node)
        return Actor(name=next(self._names), handle=handle, shape=shape, node=node, waits_on=up, host=host)

    def _shapes(self, resources: Resources) -> Sequence[Resources]:
        """Returns the shapes of slots to start for a batch, the preferred one first; only the last one (without a GPU,
        if that will do) where no node has a GPU that can be used.
        """
        uses_gpus = not self._without_gpus or any(node.has.get("GPU") for node in self._nodes)
        return shapes_of(resources)[0 if uses_gpus else -1 :]

    def _tell(self, left: Sequence[Resources]) -> None:
        """Warns, once, that batches wait and there is no slot at all, or that no slot started within `BEGINS_S`.

        The latter happens when another sweep took the same room at the same moment: Ray starts the slots when it ends.
        """
        words, now = "", time.monotonic()
        if self.actors or not left:
            self._had_room = now
        if now - self._had_room > NO_ROOM_S and self._others is not None:
            run = ", ".join(plain(one.sweep) for one in self._others if one.share)
            others = f"; other sweeps ({run}) hand over slots as their batches end, each keeps one" if run else ""
            words = f"no node has room for a slot now; waiting for one{others} ({_ENDS})"
        elif self.actors and all(not actor.up and now - actor.idle_since > BEGINS_S for actor in self.actors):
            words = (
                f"no slot has begun within {BEGINS_S:g} s: other work may hold its node (`ray status` shows it); "
                f"waiting for it ({_ENDS})"
            )
        if words and words != self._said:
            _log.warning("%s", words)
        self._said = words

    def _ask(self, left: Sequence[Resources]) -> None:
        """Asks the autoscaler for room for all slots and all batches that found none; for nothing where no batch waits.

        The autoscaler counts every GPU as usable. So where GPUs are wanted, those that cannot be used are requested in
        addition.
        """
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
    """Calls `Slot.ping` of an actor; returns the reference to its reply."""
    return handle.ping.options(concurrency_group=CONTROL).remote()


class _IdleSlots:
    """Slots without work, minus those that are reserved for waiting batches."""

    def __init__(self, actors: Iterable[Actor]) -> None:
        self._by_shape: dict[Resources, list[Actor]] = {}
        for actor in actors:
            self._by_shape.setdefault(actor.shape, []).append(actor)

    def __iter__(self) -> Iterator[Actor]:
        return itertools.chain.from_iterable([*self._by_shape.values()])

    def reserve(self, resources: Resources, most: int) -> int:
        """Reserves at most `most` slots for batches with these resources; returns how many it reserved."""
        found = 0
        for shape in shapes_of(resources):
            of_shape = self._by_shape.get(shape, [])
            taken = min(most - found, len(of_shape))
            del of_shape[:taken]
            found += taken
        return found

    def remove(self, actor: Actor) -> None:
        """Removes a slot."""
        self._by_shape[actor.shape].remove(actor)

    def freed(self) -> Mapping[str, Mapping[str, float]]:
        """Returns the resources that the slots would free if they ended, by node id and resource."""
        freed: dict[str, dict[str, float]] = {}
        for actor in self:
            given = freed.setdefault(actor.node, {})
            for name, amount in wants(actor.shape).items():
                given[name] = given.get(name, 0.0) + amount
        return freed
