"""What a person wants to know of a sweep while it runs, kept up to date event by event."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crowdsweep.journal.state import JournalState
from crowdsweep.trial.events import (
    BatchLost,
    Event,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
    TrialStarted,
)
from crowdsweep.trial.result import TrialResult
from crowdsweep.trial.spec import TrialSpec, canonical_json

LAST_FAILURES = 3

_USUAL_METRICS = (
    ("dev_accuracy", True),
    ("dev_kl", False),
    ("heldout_loglik", True),
    ("test_accuracy", True),
    ("train_accuracy", True),
)
"""(name, whether more is better), in the order in which a sweep without a metric of its own looks at them."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best cell of a dataset so far: its mean over `seeds` trials."""

    model: str
    metric: str
    value: float
    seeds: int


@dataclass(kw_only=True)
class _Cell:
    model: str
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Progress:
    """Counts, bests and the time left.

    Args:
        state: what the journal said before this driver began.
        clock: seconds, monotonic.
    """

    def __init__(self, state: JournalState | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = ""
        self.status = SweepStatus.NEW
        self.done = 0
        self.failed = 0
        self.lost = 0
        self.running: set[str] = set()
        self.failures: deque[str] = deque(maxlen=LAST_FAILURES)
        self._clock = clock
        self._began = clock()
        self._here = 0
        self._planned_total = 0
        self._metrics: tuple[tuple[str, bool], ...] = _USUAL_METRICS
        self._specs: dict[str, TrialSpec] = {}
        self._outcome: dict[str, str] = {}
        self._cells: dict[str, dict[str, _Cell]] = {}
        if state is not None:
            self._specs.update(state.specs)
            for result in state.results.values():
                self._finish(result)

    @property
    def total(self) -> int:
        """Trials known so far, done ones among them; a search adds more as it goes."""
        return max(self._planned_total, len(self._specs), len(self._outcome))

    @property
    def elapsed_s(self) -> float:
        """Seconds since this driver began."""
        return self._clock() - self._began

    @property
    def left_s(self) -> float | None:
        """Seconds that the known trials still take at the rate so far; None before the first has finished."""
        if not self._here:
            return None
        return (self.total - self.done - self.failed) * self.elapsed_s / self._here

    def take(self, event: Event) -> None:
        """Takes one event."""
        match event:
            case SweepStarted():
                self.name, self._began = event.name, self._clock()
                self._metrics = _metrics_of(event.config)
                trials = event.plan.get("trials")
                self._planned_total = int(trials["total"]) if isinstance(trials, Mapping) else 0
            case TrialPlanned(spec=spec):
                self._specs[spec.key] = spec
            case TrialStarted(key=key):
                self.running.add(key)
            case TrialFinished(result=result):
                self._here += 1
                self._finish(result)
            case BatchLost(keys=keys):
                self.lost += 1
                self.running.difference_update(keys)
            case SweepFinished(status=status):
                self.status = status
            case _:
                pass

    def best(self) -> dict[str, Best]:
        """Returns the best cell so far of each dataset that has one."""
        bests: dict[str, Best] = {}
        for dataset, cells in self._cells.items():
            for metric, more_is_better in self._metrics:
                means = [
                    (cell.sums[metric] / cell.counts[metric], cell) for cell in cells.values() if metric in cell.sums
                ]
                if means:
                    value, cell = (max if more_is_better else min)(means, key=lambda pair: pair[0])
                    bests[dataset] = Best(model=cell.model, metric=metric, value=value, seeds=cell.counts[metric])
                    break
        return bests

    def describe(self, key: str) -> str:
        """Returns a trial's model, dataset and seed, for people."""
        spec = self._specs.get(key)
        return f"{spec.model} on {_dataset(spec)}, seed {spec.seed}" if spec else f"trial {key}"

    def _finish(self, result: TrialResult) -> None:
        self.running.discard(result.key)
        if self._outcome.get(result.key) == "failed":  # it failed in an earlier run of this sweep
            self.failed -= 1
        self._outcome[result.key] = result.status
        if result.failure is not None:
            self.failed += 1
            message = result.failure.message.splitlines()
            self.failures.append(
                f"{self.describe(result.key)}: {result.failure.kind}: {message[0] if message else 'no message'}"
            )
            return
        self.done += 1
        spec = self._specs.get(result.key)
        if spec is not None:
            cell = self._cells.setdefault(_dataset(spec), {}).setdefault(spec.cell_key, _Cell(model=spec.model))
            for name, value in result.metrics.items():
                cell.sums[name] = cell.sums.get(name, 0.0) + value
                cell.counts[name] = cell.counts.get(name, 0) + 1


def _dataset(spec: TrialSpec) -> str:
    return f"{spec.dataset} {canonical_json(dict(spec.dataset_params))}" if spec.dataset_params else spec.dataset


def _metrics_of(config: Mapping[str, Any]) -> tuple[tuple[str, bool], ...]:
    metric = config.get("metric")
    if isinstance(metric, Mapping) and "name" in metric:
        return ((str(metric["name"]), metric.get("goal") != "minimize"), *_USUAL_METRICS)
    return _USUAL_METRICS
