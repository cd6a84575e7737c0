"""Batches that run at this moment: no record holds them, so the driver reports them to whoever shows them."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.record.events import BatchLost, Event, TrialFinished, TrialProgressed, TrialStarted
from crowdsweep.record.state import JournalState
from crowdsweep.units import clock_words, left_words

_LONGEST = 60  # points of a learning curve: of a longer one every other is left out
_MOST = 60  # trials that are told of


@dataclass(frozen=True, kw_only=True)
class RunningTrial:
    """A trial that a slot works on.

    Attributes:
        model, dataset: as people call them.
        slot: as its engine calls it; empty where it has not said.
        metric: that the curve is of.
        step: that it last reported, from 1; 0 before the first.
        curve: (step, score) so far.
    """

    model: str
    dataset: str
    seed: int
    slot: str
    metric: str
    step: int
    curve: Sequence[tuple[int, float]]


@dataclass(frozen=True, kw_only=True)
class SlotAtWork:
    """What a slot fits of one model on one dataset, side by side.

    Attributes:
        trials: how many.
        first_step, last_step: the least and the most that one of them has reported; 0 before the first.
        score: mean of their latest scores; None where none has any.
    """

    slot: str
    model: str
    dataset: str
    metric: str
    trials: int
    first_step: int
    last_step: int
    score: float | None


@dataclass(frozen=True, kw_only=True)
class Now:
    """A moment of a sweep.

    Attributes:
        slots: batches that can run at once.
        lost: actors that died so far.
        times: how long it has taken, and will take as far as can be told.
        running: the trials that began first come first, at most 60.
    """

    slots: int
    lost: int
    times: str
    running: Sequence[RunningTrial]

    @property
    def words(self) -> str:
        """Slots and times, in a line."""
        busy = len({trial.slot for trial in self.running if trial.slot})
        parts = [f"{min(busy, self.slots)} of {self.slots} slots at work", self.times]
        parts += [f"{self.lost} lost on the way"] if self.lost else []
        return " · ".join(parts)

    @property
    def at_work(self) -> list[SlotAtWork]:
        """What each slot works on."""
        groups: dict[tuple[str, str, str], list[RunningTrial]] = {}
        for trial in self.running:
            groups.setdefault((trial.slot, trial.model, trial.dataset), []).append(trial)
        return [_at_work(trials) for trials in groups.values()]

    def to_json(self) -> str:
        """Returns it as one line."""
        return json.dumps(asdict(self))


def _at_work(trials: Sequence[RunningTrial]) -> SlotAtWork:
    first, scores = trials[0], [trial.curve[-1][1] for trial in trials if trial.curve]
    return SlotAtWork(
        slot=first.slot,
        model=first.model,
        dataset=first.dataset,
        metric=first.metric,
        trials=len(trials),
        first_step=min(trial.step for trial in trials),
        last_step=max(trial.step for trial in trials),
        score=fmean(scores) if scores else None,
    )


def now_of(text: str) -> Now:
    """Returns what `Now.to_json` wrote."""
    told: dict[str, Any] = json.loads(text)
    running = [_trial_of(one) for one in told.pop("running")]
    return Now(**told, running=running)


def _trial_of(told: dict[str, Any]) -> RunningTrial:
    curve = [(step, score) for step, score in told.pop("curve")]
    return RunningTrial(**told, curve=curve)


class Watch:
    """Follows a sweep event by event.

    Args:
        look: tells what the journal says, for a sweep that goes on.
        clock: seconds, monotonic.
    """

    def __init__(self, look: Callable[[], JournalState], clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = Progress(look, clock)
        self._slots: dict[str, str] = {}
        self._curves: dict[str, list[tuple[int, float]]] = {}

    def take(self, event: Event) -> None:
        """Takes one event."""
        self._progress.take(event)
        match event:
            case TrialStarted(key=key, slot=slot):
                self._slots[key] = slot
            case TrialProgressed(key=key, step=step, score=score) if score is not None:
                curve = self._curves.setdefault(key, [])
                curve.append((step, score))
                if len(curve) > _LONGEST:
                    del curve[1::2]
            case TrialFinished(result=result):
                self._forget(result.key)
            case BatchLost(keys=keys):
                for key in keys:
                    self._forget(key)
            case _:
                pass

    def now(self, slots: int) -> Now:
        """Returns this moment.

        Args:
            slots: batches that can run at once.
        """
        left = self._progress.left()
        gone = f"{clock_words(self._progress.elapsed_s)} gone"
        running = [self._running(key) for key in list(self._progress.running)[:_MOST]]
        return Now(
            slots=slots,
            lost=self._progress.lost,
            times=gone if left is None else f"{gone}, {left_words(left.seconds, left.most_s)} left",
            running=[trial for trial in running if trial is not None],
        )

    def _running(self, key: str) -> RunningTrial | None:
        asked, latest = self._progress.asked(key), self._progress.running[key]
        if asked is None:
            return None
        return RunningTrial(
            model=asked.label,
            dataset=asked.dataset,
            seed=asked.spec.seed,
            slot=self._slots.get(key, ""),
            metric=asked.metric,
            step=0 if latest is None else latest.step,
            curve=self._curves.get(key, ()),
        )

    def _forget(self, key: str) -> None:
        self._slots.pop(key, None)
        self._curves.pop(key, None)
