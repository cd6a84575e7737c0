"""What a person wants to know of a sweep while it runs, kept up to date event by event."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from crowdsweep.journal.shown import one_each, shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.metrics.known import ACCURACY, HELDOUT, KL
from crowdsweep.metrics.wording import goal_of
from crowdsweep.trial.events import (
    BatchLost,
    Event,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
    TrialProgressed,
    TrialStarted,
)
from crowdsweep.trial.flags import flag_words
from crowdsweep.trial.result import Status, TrialResult
from crowdsweep.trial.spec import TrialSpec, canonical_json

LAST_FAILURES = 3

_USUAL_METRICS = tuple(
    (name, goal_of(name) == "maximize")
    for name in (f"dev_{ACCURACY}", f"dev_{KL}", HELDOUT, f"test_{ACCURACY}", f"train_{ACCURACY}")
)
"""(name, whether more is better), in the order in which a sweep without a metric of its own looks at them."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best cell of a dataset so far: its mean over `seeds` trials."""

    model: str
    metric: str
    value: float
    seeds: int


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A trial that the sweep asks for.

    Attributes:
        label: of its model.
        dataset: with its parameters.
        watched: the metric that is scored while it trains.
    """

    spec: TrialSpec
    label: str
    dataset: str
    watched: str


@dataclass(kw_only=True)
class _Cell:
    model: str
    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


class Progress:
    """Counts, bests and the time left.

    Args:
        look: tells what the journal says now, for a sweep that goes on; None where there is nothing before this driver.
        clock: seconds, monotonic.
    """

    def __init__(
        self, look: Callable[[], JournalState] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = ""
        self.status = SweepStatus.NEW
        self.counts: Counter[Status] = Counter()  # of the trials that have finished, by how
        self.lost = 0
        self.running: dict[str, TrialProgressed | None] = {}  # key → its latest report, with the latest score
        self.failures: deque[str] = deque(maxlen=LAST_FAILURES)
        self.flagged: deque[str] = deque(maxlen=LAST_FAILURES)  # the latest, with what is wrong
        self._look = look
        self._clock = clock
        self._began = clock()
        self._here = 0
        self._planned_total = 0
        self._metrics: tuple[tuple[str, bool], ...] = _USUAL_METRICS
        self._asked: dict[str, _Asked] = {}
        self._earlier: Mapping[str, TrialResult] = {}
        self._outcome: dict[str, Status] = {}
        self._watched: dict[str, str] = {}  # cell or search → the metric that is scored while its trials train
        self._cells: dict[str, dict[str, _Cell]] = {}

    def begin(self, state: JournalState) -> None:
        """Takes what a journal says of the trials that its sweep asks for now."""
        self.name, self.status = state.name, state.status
        self._metrics = _metrics_of(state.config)
        self._planned_total = state.plan.n_trials
        self._earlier = state.results
        for trial in one_each(shown_trials(state)).values():
            self._ask(trial.spec, trial.label, trial.search)

    @property
    def finished(self) -> int:
        """Trials that have a result."""
        return self.counts.total()

    @property
    def total(self) -> int:
        """Trials known so far, done ones among them; a search adds more as it goes."""
        return max(self._planned_total, len(self._asked), len(self._outcome))

    @property
    def elapsed_s(self) -> float:
        """Seconds since this driver began."""
        return self._clock() - self._began

    @property
    def left_s(self) -> float | None:
        """Seconds that the known trials still take at the rate so far; None before the first has finished."""
        if not self._here:
            return None
        return (self.total - self.finished) * self.elapsed_s / self._here

    def take(self, event: Event) -> None:
        """Takes one event."""
        match event:
            case SweepStarted():
                self.name, self._began = event.name, self._clock()
                self._metrics = _metrics_of(event.config)
                self._planned_total = event.plan.n_trials
                self._watched = {cell.key: cell.metric for cell in [*(event.plan.cells or ()), *event.plan.searches]}
                if self._look is not None:
                    self.begin(self._look())
            case TrialPlanned(spec=spec, label=label, search=search):
                self._ask(spec, label or spec.model, search)
            case TrialStarted(key=key):
                self.running.setdefault(key, None)
            case TrialProgressed(key=key):
                before = self.running.get(key)
                known = before.score if before is not None and event.score is None else event.score
                self.running[key] = replace(event, score=known)
            case TrialFinished(result=result):
                self._here += 1
                self._finish(result)
            case BatchLost(keys=keys):
                self.lost += 1
                for key in keys:
                    self.running.pop(key, None)
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

    def asks(self, key: str) -> bool:
        """Whether the sweep asks for a trial."""
        return key in self._asked

    def describe(self, key: str) -> str:
        """Returns a trial's model, dataset and seed, for people."""
        asked = self._asked.get(key)
        return f"{asked.label} on {asked.dataset}, seed {asked.spec.seed}" if asked else f"trial {key}"

    def scores(self) -> list[str]:
        """Returns how the trials come along that run and have told so, in words; the latest to begin last."""
        return [self._words(event) for event in self.running.values() if event is not None]

    def _words(self, event: TrialProgressed) -> str:
        asked = self._asked.get(event.key)
        words = f"{self.describe(event.key)}: step {event.step}"
        return words if event.score is None else f"{words}, {asked.watched if asked else 'score'} {event.score:.4f}"

    def _ask(self, spec: TrialSpec, label: str, search: str) -> None:
        params = f" {canonical_json(dict(spec.dataset_params))}" if spec.dataset_params else ""
        watched = self._watched.get(search or spec.cell_key, "score")
        fresh = spec.key not in self._asked
        self._asked[spec.key] = _Asked(spec=spec, label=label, dataset=spec.dataset + params, watched=watched)
        if fresh and spec.key in self._earlier:
            self._finish(self._earlier[spec.key])

    def _finish(self, result: TrialResult) -> None:
        self.running.pop(result.key, None)
        if result.flags:
            self.flagged.append(f"{self.describe(result.key)}: {flag_words(result.flags)}")
        before = self._outcome.get(result.key)
        if before is not None:  # it failed, or was stopped, in an earlier run of this sweep
            self.counts[before] -= 1
        self._outcome[result.key] = result.status
        self.counts[result.status] += 1
        if result.failure is not None:
            message = result.failure.message.splitlines()
            self.failures.append(
                f"{self.describe(result.key)}: {result.failure.kind}: {message[0] if message else 'no message'}"
            )
        asked = self._asked.get(result.key)
        if asked is not None and result.status is Status.OK:
            cells = self._cells.setdefault(asked.dataset, {})
            cell = cells.setdefault(asked.spec.cell_key, _Cell(model=asked.label))
            for name, value in result.metrics.items():
                cell.sums[name] = cell.sums.get(name, 0.0) + value
                cell.counts[name] = cell.counts.get(name, 0) + 1


def _metrics_of(config: Mapping[str, Any]) -> tuple[tuple[str, bool], ...]:
    metric = config.get("metric")
    if isinstance(metric, Mapping) and "name" in metric:
        return ((str(metric["name"]), metric.get("goal") != "minimize"), *_USUAL_METRICS)
    return _USUAL_METRICS
