"""Snapshot of the running batches. No record holds them, so the driver reports them to the views that show them."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.record.events import BatchLost, Event, TrialFinished, TrialProgressed, TrialStarted
from crowdsweep.record.state import JournalState

_LONGEST = 60  # points of a learning curve; a longer curve is thinned to every second point
_MOST = 60  # running trials in a snapshot


@dataclass(frozen=True, kw_only=True)
class RunningTrial:
    """A trial that is running in a slot.

    Attributes:
        model, dataset: label of the model; the dataset with its parameters, in words.
        slot: the engine's name for the slot; empty where the engine has not reported it.
        step: the last reported step, from 1; 0 before the first report.
        curve: (step, score) pairs so far.
    """

    model: str
    dataset: str
    seed: int
    slot: str
    metric: str
    step: int
    curve: Sequence[tuple[int, float]]


@dataclass(frozen=True, kw_only=True)
class BusySlot:
    """The trials of one model on one dataset that a slot fits together.

    Attributes:
        slot, model, dataset, metric: as for `RunningTrial`.
        first_step, last_step: lowest and highest step that any of the trials has reached; 0 before the first report.
        score: mean of the trials' latest scores; None where no trial has a score.
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
class SweepSnapshot:
    """Snapshot of a running sweep.

    Attributes:
        slots: number of batches that can run at once.
        lost: number of actors that have died so far.
        times: elapsed time and, where it can be estimated, the time left, in words.
        running: running trials in the order in which they began, at most 60.
    """

    slots: int
    lost: int
    times: str
    running: Sequence[RunningTrial]

    @property
    def words(self) -> str:
        """Busy slots, times and lost actors, in one line."""
        busy = len({trial.slot for trial in self.running if trial.slot})
        parts = [f"{min(busy, self.slots)} of {self.slots} slots busy", self.times]
        parts += [f"{self.lost} lost"] if self.lost else []
        return " · ".join(parts)

    @property
    def busy(self) -> list[BusySlot]:
        """Running trials, grouped by slot, model and dataset."""
        groups: dict[tuple[str, str, str], list[RunningTrial]] = {}
        for trial in self.running:
            groups.setdefault((trial.slot, trial.model, trial.dataset), []).append(trial)
        return [_at_work(trials) for trials in groups.values()]

    def to_json(self) -> str:
        """Returns the snapshot as one line of JSON."""
        return json.dumps(asdict(self))


def _at_work(trials: Sequence[RunningTrial]) -> BusySlot:
    first, scores = trials[0], [trial.curve[-1][1] for trial in trials if trial.curve]
    return BusySlot(
        slot=first.slot,
        model=first.model,
        dataset=first.dataset,
        metric=first.metric,
        trials=len(trials),
        first_step=min(trial.step for trial in trials),
        last_step=max(trial.step for trial in trials),
        score=fmean(scores) if scores else None,
    )


def snapshot_of(text: str) -> SweepSnapshot:
    """Returns the snapshot that `SweepSnapshot.to_json` wrote."""
    fields_of_json: dict[str, Any] = json.loads(text)
    running = [_trial_of(one) for one in fields_of_json.pop("running")]
    return SweepSnapshot(**fields_of_json, running=running)


def _trial_of(fields_of_json: dict[str, Any]) -> RunningTrial:
    curve = [(step, score) for step, score in fields_of_json.pop("curve")]
    return RunningTrial(**fields_of_json, curve=curve)


class SweepFollower:
    """Follows a sweep event by event."""

    def __init__(self, look: Callable[[], JournalState], clock: Callable[[], float] = time.monotonic) -> None:
        self._progress = Progress(look, clock)
        self._slots: dict[str, str] = {}
        self._curves: dict[str, list[tuple[int, float]]] = {}

    def take(self, event: Event) -> None:
        """Updates the snapshot with one event."""
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

    def now(self, slots: int) -> SweepSnapshot:
        """Returns the snapshot at this moment."""
        running = [self._running(key) for key in list(self._progress.running)[:_MOST]]
        return SweepSnapshot(
            slots=slots,
            lost=self._progress.lost,
            times=self._progress.times()[0],
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
