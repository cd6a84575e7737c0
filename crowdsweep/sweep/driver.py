"""The event loop of a sweep: runs the planned trials that the journal lacks, and records each result before it is used.

One turn of the loop has a fixed order. The executor returns results; the driver writes them to the journal; then the
mirrors and the searches hear of them; the driver writes to the journal what the searches want next; only then does it
submit those trials. So a driver that dies at any point leaves a journal from which another driver continues, and no
finished trial runs twice.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from crowdsweep.engine.executor import Batch, Executor
from crowdsweep.errors import SlotLost
from crowdsweep.record.events import (
    Event,
    Mirror,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
    TrialProgressed,
    TrialSaved,
    TrialStarted,
)
from crowdsweep.record.journal import Journal
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.search.contract import PointSearcher
from crowdsweep.sweep.allowance import Allowance
from crowdsweep.sweep.cells import Cell, Search
from crowdsweep.sweep.interrupts import Interrupts
from crowdsweep.sweep.mirrors import Mirrors
from crowdsweep.sweep.plan import Plan
from crowdsweep.sweep.queues import InFlight, Waiting
from crowdsweep.sweep.resume import hours_spent, recorded_config, recorded_plan, warm_start_events
from crowdsweep.sweep.search_run import SearchFailed, SearchRun, Step, searcher_of
from crowdsweep.trial.learning_curve import CurveSpec

AHEAD = 0.1
"""Batches submitted beyond the number of slots, as a share of that number, but at least one: a slot that finishes its
batch while results are written to the journal gets the next batch at once.
"""
POLL_S = 0.5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SweepOutcome:
    """The outcome of one run of a driver.

    Attributes:
        planned: number of trials known to be needed so far.
        finished: number of these that have a result, from this driver or an earlier one.
        failed: number of these that failed.
        ran: number of trials that this driver ran itself.
        refused: number of searches that the sweep file asks for and that could not be made.
        lost: number of trials that were lost with their slots, or whose node lacks their model; the next driver runs
            them again.
        broken: what ended early, in words: each search whose searcher failed, and the cluster if it was lost.
        dropped: whether the user interrupted the trials that were still running.
        allowed: how many failures the sweep allows, in words.
        mlflow_lacks: what could not be written to MLflow, in words (`3 trials`); empty where MLflow has everything.
    """

    status: SweepStatus
    planned: int
    finished: int
    failed: int
    ran: int
    refused: int = 0
    lost: int = 0
    broken: Sequence[str] = ()
    dropped: bool = False
    allowed: str = ""
    mlflow_lacks: str = ""


class Driver:
    """One run of one sweep; see `run_sweep`."""

    def __init__(
        self,
        plan: Plan,
        executor: Executor,
        journal: Journal,
        mirrors: Mirrors,
        make_searcher: Callable[[Search], PointSearcher],
        watch: Callable[[], float],
        interrupts: Interrupts | None,
        retry_failed: bool,
    ) -> None:
        self._plan = plan
        self._executor = executor
        self._journal = journal
        self._mirrors = mirrors
        self._watch = watch
        self._interrupts = interrupts
        known = journal.state.results.items()
        self._results = {key: result for key, result in known if not _runs_again(result, retry_failed)}
        self._specs: dict[str, TrialSpec] = {}
        self._owners: dict[str, list[SearchRun]] = {}
        self._ready = Waiting(plan.config.pack)
        self._flying = InFlight()
        self._checkpoints = journal.checkpoints
        self._ran = 0
        self._begun: set[str] = set()
        self._allowance = Allowance.of(plan)
        self._failed: dict[str, TrialSpec] = {}
        self._lost: set[str] = set()
        self._broken: dict[int, str] = {}  # id of a failed search (0: the cluster) → its error
        self._dropped = False
        told = {key: tuple(event.points) for key, event in journal.state.told.items()}
        searches = [replace(search, told=told.get(search.key, search.told)) for search in plan.searches]
        self._searches = [SearchRun(search, make_searcher(search), journal.state) for search in searches]
        self._started = watch() - hours_spent(journal.state, executor.slots_for()) * 3600
        self._stopping: SweepStatus | None = None

    def run(self) -> SweepOutcome:
        """Runs trials until all are done, or until the driver is to stop and no trial runs any more."""
        self._executor.listen(self._progress)
        self._lay_out()
        while True:
            self._stop_if_due()
            if self._stopping is None:
                self._submit()
            if not self._flying:
                break
            try:
                with self._interrupts.abortable() if self._interrupts else nullcontext():
                    events = self._executor.poll(POLL_S)
            except SlotLost as error:
                self._stopping, self._broken[0] = SweepStatus.INCOMPLETE, str(error)
                break
            except KeyboardInterrupt:
                self._stopping, self._dropped = SweepStatus.INTERRUPTED, True
                break
            self._take(events)
        if self._stopping is SweepStatus.OUT_OF_TIME and self._complete():
            self._stopping = None  # what still ran when time was up was all that remained
        if self._stopping is None and (self._lost or self._broken):
            self._stopping = SweepStatus.INCOMPLETE
        if self._stopping is None and any(run.selected is None for run in self._searches):
            raise RuntimeError("a search waits for trials that are not running")
        if self._stopping is None:
            self._checkpoints.remove()
        return self._outcome(self._stopping or SweepStatus.DONE)

    def _lay_out(self) -> None:
        """Queues the trials of the fixed cells and those that the searches had open, then advances every search."""
        for cell in self._plan.cells:
            self._want(Step(groups=[cell.report_specs()]), cell, None)
        for run in self._searches:
            self._want(run.restored(), run.search.cell, run)
        for run in self._searches:
            self._go_on(run)

    def _go_on(self, run: SearchRun) -> None:
        """Advances a search as far as its finished trials allow.

        A search whose searcher fails stops there; the other searches continue.
        """
        if id(run) in self._broken:
            return
        try:
            step = run.advance(self._results)
        except SearchFailed as error:
            where = f"{run.search.cell.label} on {run.search.cell.dataset}"
            self._broken[id(run)] = f"the search of {where} failed: {error}"
            _log.warning("%s; the rest of the sweep continues", self._broken[id(run)], exc_info=error.__cause__)
        else:
            self._want(step, run.search.cell, run)

    def _want(self, step: Step, cell: Cell, run: SearchRun | None) -> None:
        """Records a step's events and trials in the journal and the mirrors, and queues the trials without a result."""
        key = run.search.key if run is not None else ""
        curve_spec = CurveSpec(metric=cell.metric.name, every=self._plan.config.report_every)
        specs = [spec for group in step.groups for spec in group]
        planned = (TrialPlanned(spec=spec, label=cell.label, search=key) for spec in specs)
        events: list[Event] = [*step.events, *planned]
        if not events:
            return
        # Durable first: mirrors show nothing that a crash could take back.
        self._journal.handle_many(events)
        self._mirrors.handle(events)
        for group in step.groups:
            fresh = [spec for spec in group if spec.key not in self._specs]
            for spec in group:
                self._specs.setdefault(spec.key, spec)
                if run is not None and spec.phase == "search":
                    self._owners.setdefault(spec.key, []).append(run)
            self._failed.update((s.key, s) for s in fresh if s.key in self._results and self._results[s.key].failure)
            if missing := [spec for spec in fresh if spec.key not in self._results]:
                bars = {spec.key: step.bars[spec.key] for spec in missing if spec.key in step.bars}
                costs = run is not None and bool(run.search.metric.costs)
                self._ready.add(
                    missing, replace(curve_spec, bars=bars) if bars else curve_spec, cell.resources, whole=costs
                )

    def _submit(self) -> None:
        for shape in self._ready.shapes:
            slots = self._executor.slots_for(shape)
            # A few batches wait at the executor, so that a slot that has finished one need not wait for the driver.
            most = slots + max(1, int(AHEAD * slots))
            while (flying := self._flying.batches(shape)) < most and (group := self._ready.take(shape, slots - flying)):
                specs, curve_spec = group
                self._flying.add(specs, shape)
                self._executor.submit(
                    Batch(
                        specs=specs,
                        curve_spec=curve_spec,
                        resources=shape,
                        checkpoint_minutes=self._plan.config.checkpoint_minutes,
                        saved=self._saved(specs),
                    )
                )

    def _saved(self, specs: Sequence[TrialSpec]) -> dict[str, bytes]:
        """Returns trial key → checkpoint from which the trial continues; none where checkpoints are turned off."""
        if self._plan.config.checkpoint_minutes is None:
            return {}
        found = {spec.key: self._checkpoints.get(spec.key) for spec in specs}
        return {key: content for key, content in found.items() if content is not None}

    def _progress(self, event: TrialProgressed) -> None:
        """Notes that a trial has begun, and passes its progress on to the mirrors."""
        self._begun.add(event.key)
        self._mirrors.handle([event])

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, TrialSaved) and event.key in self._flying:
                self._checkpoints.put(event.key, event.step, event.content)
        events = [self._kept(event) for event in events if not isinstance(event, TrialSaved)]
        self._journal.handle_many(events)
        self._mirrors.handle(events)
        waiting: dict[int, SearchRun] = {}
        for event in events:
            match event:
                case TrialStarted(key=key):
                    self._begun.add(key)
                case TrialFinished(result=result):
                    self._finish(result)
                    waiting.update((id(run), run) for run in self._owners.get(result.key, ()))
                case _:
                    continue
        for run in waiting.values():
            self._go_on(run)

    def _kept(self, event: Event) -> Event:
        """Returns an event as the journal records it.

        A finished trial is judged by the searches that asked for it, and its arrays are moved into the store.
        """
        if not isinstance(event, TrialFinished):
            return event
        result = event.result
        for run in self._owners.get(result.key, ()):
            result = run.judged(self._specs[result.key], result)
        if result.artifacts:
            kept = {**result.kept, **self._journal.keep(result.artifacts)}
            result = replace(result, artifacts={}, kept=kept)
        return TrialFinished(result=result)

    def _finish(self, result: TrialResult) -> None:
        """Takes the result of a trial that has ended.

        A trial that failed because of the infrastructure counts as lost. A trial that this driver stopped only because
        the driver itself ends has no result. The next run runs both again.
        """
        self._ran += 1
        if result.failure and result.failure.of_infrastructure:
            self._lost.add(result.key)
        elif result.status is not Status.STOPPED or result.stopped_early:
            self._results[result.key] = result
        if result.key in self._results and result.failure:
            self._failed[result.key] = self._specs[result.key]
        if result.key in self._results:
            self._checkpoints.remove([result.key])
        self._flying.remove(result.key)  # absent if taken back as not begun though it had begun

    def _stop_if_due(self) -> None:
        """Decides whether to submit no more trials.

        If so, takes back the trials that have not begun; those that run may finish.
        """
        interrupted = self._interrupts is not None and self._interrupts.count > 0
        if self._stopping is SweepStatus.INTERRUPTED or (self._stopping is not None and not interrupted):
            return
        hours = self._plan.config.budget.hours
        if interrupted:
            self._stopping = SweepStatus.INTERRUPTED
        elif self._allowance.exceeded(self._failed.values()):
            self._stopping = SweepStatus.OVER_BUDGET
        elif hours is not None and self._watch() - self._started > hours * 3600 and (self._ready or self._flying):
            self._stopping = SweepStatus.OUT_OF_TIME
        else:
            return
        for key in [key for key in self._flying if key not in self._begun]:
            self._executor.stop(key)
            self._flying.remove(key)
        if self._flying:
            how = (
                "again to drop them" if interrupted else f"{self._stopping.replace('_', ' ')}; Ctrl-C twice drops them"
            )
            _log.warning("finishing %s; %s", _trials(len(self._flying)), how)

    def _complete(self) -> bool:
        searched = all(run.selected is not None for run in self._searches)
        return searched and all(key in self._results for key in self._specs)

    def _outcome(self, status: SweepStatus) -> SweepOutcome:
        finished = sum(key in self._results for key in self._specs)
        return SweepOutcome(
            status=status,
            planned=len(self._specs),
            finished=finished,
            failed=len(self._failed),
            ran=self._ran,
            refused=len(self._plan.refused),
            lost=len(self._lost),
            broken=tuple(self._broken.values()),
            dropped=self._dropped,
            allowed=str(self._allowance),
        )


def _runs_again(result: TrialResult, retry_failed: bool) -> bool:
    """Whether a trial that has a recorded result is to run again."""
    if result.failure is not None:
        return retry_failed or result.failure.of_infrastructure
    return result.status is Status.STOPPED and not result.stopped_early


def _trials(number: int) -> str:
    return "1 trial" if number == 1 else f"{number} trials"


def run_sweep(
    plan: Plan,
    *,
    executor: Executor,
    journal: Journal,
    make_searcher: Callable[[Search], PointSearcher] = searcher_of,
    mirrors: Sequence[Mirror] = (),
    clock: Callable[[], float] = time.time,
    watch: Callable[[], float] = time.monotonic,
    environment: Mapping[str, str] | None = None,
    interrupts: Interrupts | None = None,
    retry_failed: bool = False,
) -> SweepOutcome:
    """Runs the trials of a plan that have no result in the journal. Closes the mirrors, and nothing else.

    Args:
        executor: made for the plan's base datasets.
        journal: the record of the sweep; an error while writing it ends the sweep.
        mirrors: receive every event; they may fail.
        clock: returns seconds since the epoch, for the record; somebody may set it.
        watch: returns seconds that only grow, for `budget.hours`; a laptop's sleep does not count.
        environment: versions and the like, for the record.
        retry_failed: whether trials that failed in earlier runs run again; trials that the infrastructure lost always
            do.

    Raises:
        JournalError: the record cannot be written; what it already holds is safe.
        InfeasibleRequest: the executor cannot run anything.
    """
    told = Mirrors(mirrors)

    def tell(*events: Event) -> None:
        journal.handle_many(events)
        told.handle(events)

    try:
        state = journal.state
        tell(
            SweepStarted(
                name=plan.config.name,
                config=recorded_config(plan.config),
                plan=recorded_plan(plan),
                environment=environment or {},
                resumed=state.rows > 0,
                time=clock(),
            ),
            *warm_start_events(plan, state),
        )
        driver = Driver(plan, executor, journal, told, make_searcher, watch, interrupts, retry_failed)
        outcome = driver.run()
        tell(SweepFinished(status=outcome.status, time=clock()))
    finally:
        try:
            with interrupts.abortable(at_once=True) if interrupts else nullcontext():
                told.close()
        except KeyboardInterrupt:
            if plan.config.tracking.enabled:
                _log.warning("what has not been written to MLflow yet is left to `crowdsweep mirror`")
    return outcome
