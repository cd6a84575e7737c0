"""Stand-ins for what is slow or uncertain: a clock that is moved by hand, slots on it, a journal in memory."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crowdsweep.engine.executor import Batch
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.checkpoint_files import CheckpointFiles
from crowdsweep.record.events import Event, TrialFinished, TrialProgressed, TrialStarted
from crowdsweep.record.journal import Journal
from crowdsweep.record.kept_arrays import keep
from crowdsweep.record.kinds import apply_event, news_of
from crowdsweep.record.result import Failure, Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.record.state import JournalState, MutableState
from crowdsweep.resources import Resources
from crowdsweep.search.contract import Proposal, check_next


@dataclass
class FakeClock:
    """Seconds that pass only when somebody moves them."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Killed(BaseException):
    """The driver dies here."""


@dataclass(kw_only=True)
class FakeExecutor:
    """Slots in virtual time: each batch takes a random while, so that batches end in an order nobody planned.

    Attributes:
        score: what a trial's metrics are; an exception becomes a failed result.
        clock: moved forward by `poll`.
        slots: how many batches run at once.
        disorder: seed of the durations.
        ran: keys of all trials that were finished, in order.
        die_after: raises `Killed` instead of finishing one trial more than this; None for never.
    """

    score: Callable[[TrialSpec], Mapping[str, float]]
    clock: FakeClock = field(default_factory=FakeClock)
    slots: int = 2
    disorder: int = 0
    ran: list[str] = field(default_factory=list[str])
    batches: list[Batch] = field(default_factory=list[Batch])
    die_after: int | None = None
    taken_back: list[str] = field(default_factory=list[str])
    closed: bool = False
    most_in_flight: int = 0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.disorder)
        self._running: list[tuple[float, int, Batch]] = []
        self._waiting: list[Batch] = []
        self._news: list[Event] = []

    def slots_for(self, resources: Resources | None = None) -> int:
        """All batches run on the same slots."""
        return self.slots

    def submit(self, batch: Batch) -> None:
        """See `Executor.submit`."""
        self.batches.append(batch)
        self._waiting.append(batch)
        self.most_in_flight = max(self.most_in_flight, len(self._waiting) + len(self._running))
        self._fill()

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """Says which trials began; else moves the clock to the end of the next batch and returns its events."""
        news, self._news = self._news, []
        if news:
            return news
        if not self._running:
            self.clock.now += timeout_s
            return []
        self.clock.now, _, batch = heapq.heappop(self._running)
        for spec in batch.specs:
            if self.die_after is not None and len(self.ran) >= self.die_after:
                raise Killed
            self.ran.append(spec.key)
            news.append(TrialFinished(result=scored(spec, self.score)))
        self._fill()
        return news

    def stop(self, key: str) -> None:
        """Takes a trial back that has not begun; one that runs is waited for."""
        for index, batch in enumerate(self._waiting):
            if any(spec.key == key for spec in batch.specs):
                self.taken_back.append(key)
                left = [spec for spec in batch.specs if spec.key != key]
                self._waiting[index : index + 1] = [replace(batch, specs=left)] if left else []
                return

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        """See `Executor.listen`; nothing here makes progress."""

    def close(self) -> None:
        """See `Executor.close`."""
        self.closed = True

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.slots:
            batch = self._waiting.pop(0)
            end = self.clock.now + float(self._random.exponential())
            heapq.heappush(self._running, (end, len(self.batches), batch))
            self._news += [TrialStarted(key=spec.key, slot=f"fake-{len(self._running)}") for spec in batch.specs]


def scored(spec: TrialSpec, score: Callable[[TrialSpec], Mapping[str, float]]) -> TrialResult:
    """Returns the result that `score` makes of a trial: ok with these metrics, or failed where it raises."""
    try:
        return TrialResult(key=spec.key, status=Status.OK, metrics=score(spec))
    except ValueError as error:
        failure = Failure(kind=type(error).__name__, message=str(error))
        return TrialResult(key=spec.key, status=Status.FAILED, failure=failure)


class MemoryCheckpoints(CheckpointFiles):
    """Checkpoints in a mapping: the latest of each trial."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def put(self, key: str, step: int, content: bytes) -> None:
        """See `CheckpointFiles.put`."""
        self.kept[key] = content

    def get(self, key: str) -> bytes | None:
        """See `CheckpointFiles.get`."""
        return self.kept.get(key)

    def remove(self, keys: Iterable[str] | None = None) -> None:
        """See `CheckpointFiles.remove`."""
        for key in [*self.kept] if keys is None else keys:
            self.kept.pop(key, None)


class MemoryJournal(Journal):
    """A journal that keeps its events in a list; a new one on the same list goes on where the old one stopped."""

    def __init__(self, events: list[Event] | None = None) -> None:
        self.events: list[Event] = [] if events is None else events
        self.files: dict[str, bytes] = {}
        self.checkpoints = MemoryCheckpoints()
        self._known = MutableState()
        for event in self.events:
            apply_event(self._known, event)

    @property
    def state(self) -> JournalState:
        """See `Journal.state`."""
        return self._known.view()

    def snapshot(self) -> JournalState:
        """See `Journal.snapshot`."""
        return self._known.copied()

    def handle(self, event: Event) -> None:
        """See `Journal.handle`."""
        self.handle_many((event,))

    def handle_many(self, events: Iterable[Event]) -> None:
        """See `Journal.handle_many`."""
        for event in events:
            if news_of(self._known, event) is not None:
                self.events.append(event)
                apply_event(self._known, event)

    def keep(self, arrays: Mapping[str, np.ndarray]) -> dict[str, Artifact]:
        """See `Journal.keep`."""
        return keep(
            lambda folder, files: self.files.update({f"{folder}/{name}": files[name] for name in files}), arrays
        )

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass
class HistorySearcher:
    """Proposes points that depend on everything it was told, in the order of their numbers; so a change in the order
    of asking and telling changes what it proposes."""

    limit: int
    name: str = "smoothing"
    asked: int = 0
    told: dict[int, float | None] = field(default_factory=dict[int, float | None])
    further: dict[int, float] = field(default_factory=dict[int, float])

    def ask(self) -> Proposal | None:
        """Returns a point made from the history."""
        if self.asked == self.limit:
            return None
        known: list[Any] = [sorted(self.told), [value for _, value in sorted(self.told.items())], self.asked]
        digest = sum((index + 1) * (value or 0.5) for index, value in enumerate(known[1])) + len(known[0])
        digest += sum((number + 2) * value for number, value in sorted(self.further.items()))
        point = {self.name: round(float(np.random.default_rng([int(1e6 * digest), self.asked]).random()), 6)}
        self.asked += 1
        return Proposal(number=self.asked - 1, point=point)

    def tell(self, number: int, value: float | None, further: Sequence[float] = ()) -> None:
        """See `PointSearcher.tell`."""
        if number in self.told:
            raise ValueError(f"point {number} was told twice")
        self.told[number] = value
        if further:
            self.further[number] = sum(further)

    def adopt(self, proposal: Proposal) -> None:
        """See `PointSearcher.adopt`."""
        check_next(proposal, self.asked)
        self.asked += 1
