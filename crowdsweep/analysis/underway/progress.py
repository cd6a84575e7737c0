"""The progress of a sweep while it runs, updated with each event."""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crowdsweep.analysis.underway.best import Best, BestByDataset
from crowdsweep.analysis.underway.time_left import Cell, Remaining, TimeLeft, Work
from crowdsweep.errors import plain, shortened
from crowdsweep.metrics.shown import score_words
from crowdsweep.record.events import (
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
from crowdsweep.record.flags import flag_words
from crowdsweep.record.naming import dataset_words
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.shown import ShownTrial, one_each, shown_trials
from crowdsweep.record.spec import Place, TrialSpec
from crowdsweep.record.state import JournalState
from crowdsweep.units import clock_words, left_words

LAST_FAILURES = 3
_ANY: Cell = ("", "")


@dataclass(frozen=True, kw_only=True)
class AskedTrial:
    """A trial that the sweep asks for.

    Attributes:
        dataset: the dataset with its parameters, in words.
        search: key of the search that it belongs to; empty where its point is fixed.
        metric: the metric that is scored during training.
    """

    spec: TrialSpec
    label: str
    dataset: str
    search: str
    metric: str


class Progress:
    """Counts of trials, the best models and the time left of a sweep.

    Args:
        look: returns the current state of the journal, for a sweep that is resumed; None where there is no journal to
            read.
    """

    def __init__(
        self, look: Callable[[], JournalState] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.name = ""
        self.status = SweepStatus.NEW
        self.counts: Counter[Status] = Counter()  # of the trials that have finished
        self.lost = 0
        self.running: dict[str, TrialProgressed | None] = {}  # key → its latest report, with the latest score
        self.failures: deque[str] = deque(maxlen=LAST_FAILURES)
        self.flagged: deque[str] = deque(maxlen=LAST_FAILURES)  # the latest flagged trials, with their flags
        self._look = look
        self._clock = clock
        self._began = clock()
        self._at_work_from: float | None = None  # when the first trial began
        self._work = Work()  # seconds of the trials that have finished under this driver
        self._left = TimeLeft()
        self._seen_before = (0, 0)  # known trials and lost actors when last no reason for a rise was shown
        self._planned_total = 0
        self._planned: Counter[Cell] = Counter()  # cell → most trials that the plan allows
        self._searched: set[Cell] = set()
        self._known: Counter[Cell] = Counter()  # cell → trials asked for so far
        self._done: Counter[Cell] = Counter()
        self._among: set[str] = set()
        self._named: dict[Place, str] = {}  # the same in words
        self._asked: dict[str, AskedTrial] = {}
        self._earlier: Mapping[str, TrialResult] = {}
        self._outcome: dict[str, Status] = {}
        self._metrics: dict[str, str] = {}  # key of a cell or search → the metric that is scored during training
        self._bests = BestByDataset({}, PlanRecord())

    def begin(self, state: JournalState, shown: Sequence[ShownTrial] | None = None) -> None:
        """Begins from a journal: takes its plan, and the trials that its sweep asks for now with their results.

        Args:
            shown: `shown_trials` of the state, where they are known already.
        """
        self.name, self.status = state.name, state.status
        self._plan(state.config, state.plan)
        self._earlier = state.results
        for trial in one_each(shown_trials(state) if shown is None else shown).values():
            self._ask(trial.spec, trial.label, trial.search)

    @property
    def finished(self) -> int:
        """Number of trials that have a result."""
        return self.counts.total()

    @property
    def total(self) -> int:
        """Number of trials known so far, finished or not; a search adds trials as it proceeds."""
        return max(self._planned_total, len(self._asked), len(self._outcome))

    @property
    def elapsed_s(self) -> float:
        """Seconds since this driver began."""
        return self._clock() - self._began

    def left(self) -> Remaining | None:
        """Returns the time left, as a range while searches have points to propose.

        None before the first trial has finished under this driver, and once all have finished.
        """
        now = self._clock()
        known = {cell: n - self._done[cell] for cell, n in (self._planned | self._known).items()}
        to_go = {cell: n for cell, n in known.items() if n > 0}
        to_go[_ANY] = max(0, self.total - self.finished - sum(to_go.values()))  # trials without a known cell
        if self._at_work_from is None or self.finished >= self.total:
            return None
        gone_s = now - self._at_work_from
        estimate_s = self._work.left_s(to_go, gone_s)
        fresh, rising = self._left.shown_s is None, bool(self._left.why)
        self._left.update(estimate_s, now, lambda: self._why_longer(to_go))
        if fresh or (rising and not self._left.why):
            self._seen_before = (self.total, self.lost)
        if self._left.shown_s is None:
            return None
        shown_s, why = self._left.shown_s, self._left.why
        later = {cell: n for cell in self._searched if (n := min(to_go.get(cell, 0), self._not_proposed(cell))) > 0}
        if not later:
            return Remaining(shown_s, why)
        less_s, more_s = self._work.margins(later, gone_s)
        return Remaining(max(0.0, shown_s - less_s), why, shown_s + more_s)

    def times(self) -> tuple[str, str]:
        """Returns the elapsed and the remaining time in words, and why the remaining time is more than said before."""
        gone, left = f"{clock_words(self.elapsed_s)} elapsed", self.left()
        return (gone, "") if left is None else (f"{gone}, {left_words(left.seconds, left.most_s)} left", left.why)

    def _not_proposed(self, cell: Cell) -> int:
        """Returns at most how many trials of a cell are yet to be asked for."""
        return self._planned[cell] - self._known[cell]

    def take(self, event: Event) -> None:
        """Updates counts, bests and times with one event."""
        match event:
            case SweepStarted():
                self.name, self._began = event.name, self._clock()
                self._plan(event.config, event.plan)
                if self._look is not None:
                    self.begin(self._look())
            case TrialPlanned(spec=spec, label=label, search=search):
                self._ask(spec, label or spec.model, search)
            case TrialStarted(key=key):
                self._at_work()
                self.running.setdefault(key, None)
            case TrialProgressed(key=key):
                self._at_work()
                before = self.running.get(key)
                known = before.score if before is not None and event.score is None else event.score
                self.running[key] = replace(event, score=known)
            case TrialFinished(result=result):
                self._at_work()
                if (asked := self._asked.get(result.key)) is not None:
                    self._work.add((asked.label, asked.dataset), result.wall_s, asked.spec.cell_key)
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
        return self._bests.found()

    def asks(self, key: str) -> bool:
        """Whether the sweep asks for a trial."""
        return key in self._asked

    def asked(self, key: str) -> AskedTrial | None:
        """Returns a trial by its key; None where the sweep does not ask for it."""
        return self._asked.get(key)

    def describe(self, key: str) -> str:
        """Returns a trial's model, dataset and seed, in words."""
        asked = self._asked.get(key)
        return plain(f"{asked.label} on {asked.dataset}, seed {asked.spec.seed}") if asked else f"trial {key}"

    def scores(self) -> list[str]:
        """Returns the latest report of each running trial that has sent one, in words; the last trial to begin last."""
        return [self._words(event) for event in self.running.values() if event is not None]

    def _words(self, event: TrialProgressed) -> str:
        asked = self._asked.get(event.key)
        words = f"{self.describe(event.key)}: step {event.step}"
        if event.score is None:
            return words
        return f"{words}, {score_words(event.score, asked.metric if asked else 'score')}"

    def _plan(self, config: Mapping[str, Any], plan: PlanRecord) -> None:
        self._planned_total = plan.n_trials
        self._metrics = {cell.key: cell.metric for cell in [*plan.cells, *plan.searches]}
        self._bests = BestByDataset(config, plan)
        self._among = {row.dataset for row in plan.datasets}
        self._named = {}
        self._searched = {
            (one.label, dataset_words(one.dataset, one.dataset_params, self._among)) for one in plan.searches
        }
        self._planned = Counter()
        for cell in [*plan.cells, *plan.searches]:
            self._planned[cell.label, dataset_words(cell.dataset, cell.dataset_params, self._among)] += cell.n_trials

    def _at_work(self) -> None:
        if self._at_work_from is None:
            self._at_work_from = self._clock()

    def _why_longer(self, to_go: Mapping[Cell, int]) -> str:
        known, lost = self._seen_before
        if self.lost > lost:
            return "actors were lost"
        if self.total > known:
            return "there are more trials"
        longest = self._work.longest(to_go)
        at_work = next((asked for key in self.running if (asked := self._asked.get(key)) is not None), None)
        if longest is None and at_work is not None:
            longest = (at_work.label, at_work.dataset)
        return f"{longest[0]} on {longest[1]} takes long" if longest else "trials take longer"

    def _ask(self, spec: TrialSpec, label: str, search: str) -> None:
        if (dataset := self._named.get(spec.place)) is None:
            dataset = dataset_words(spec.dataset, spec.dataset_params, self._among)
            self._named[spec.place] = dataset
        metric = self._metrics.get(search or spec.cell_key, "score")
        fresh = spec.key not in self._asked
        self._asked[spec.key] = AskedTrial(spec=spec, label=label, dataset=dataset, search=search, metric=metric)
        self._bests.expect(spec, label, search)
        self._known[label, dataset] += fresh
        if fresh and spec.key in self._earlier:
            self._finish(self._earlier[spec.key])

    def _finish(self, result: TrialResult) -> None:
        self.running.pop(result.key, None)
        if result.flags:
            self.flagged.append(f"{self.describe(result.key)}: {flag_words(result.flags)}")
        asked = self._asked.get(result.key)
        before = self._outcome.get(result.key)
        if before is not None:  # the trial failed, or was stopped, in an earlier run of this sweep
            self.counts[before] -= 1
        elif asked is not None:
            self._done[asked.label, asked.dataset] += 1
        self._outcome[result.key] = result.status
        self.counts[result.status] += 1
        if result.failure is not None:
            message = plain(shortened(result.failure.message)).splitlines()
            self.failures.append(
                f"{self.describe(result.key)}: {plain(result.failure.kind)}: {message[0] if message else 'no message'}"
            )
        if asked is not None and result.status is Status.OK:
            self._bests.add(asked.spec, asked.search, result.metrics)
