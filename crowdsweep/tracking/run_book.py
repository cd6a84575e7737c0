"""The MLflow runs of a sweep's cells and trials, and what they still lack; imports no mlflow."""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Protocol, runtime_checkable

from crowdsweep.errors import JournalError
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.events import Event, RunsCreated
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState
from crowdsweep.tracking.run_records import (
    ASKED,
    FILES,
    INTERRUPTED,
    KEY,
    KIND,
    NAME,
    PARENT,
    PHASE,
    PREFIX,
    STATUS,
    STORE,
    SWEEP,
    CellTrial,
    RunRecord,
    cell_record,
    mean_confusion,
    trial_record,
)
from crowdsweep.tracking.sweep_page import store_id

_log = logging.getLogger(__name__)

DrawConfusion = Callable[[Sequence[Sequence[float]]], bytes]
"""Draws a confusion matrix [true][observed] and returns a PNG."""

ReadArtifact = Callable[[Artifact], bytes | None]
"""Returns the content of the file of an array that a trial kept; None where the file is gone."""

_IDS_A_ROW = 50


class Rejected(Exception):
    """MLflow will never accept what it was given: a retry cannot help."""


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """A run as MLflow stores it.

    Attributes:
        run_id: MLflow's id of the run.
        started_ms: start, in milliseconds since the epoch.
        artifacts: URI of its artifact folder.
        status: RUNNING, FINISHED, FAILED or KILLED.
        tags, params, metrics: content when the run was listed; metrics have the latest value of each name.
    """

    run_id: str
    started_ms: int
    artifacts: str
    status: str = "RUNNING"
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


@runtime_checkable
class Experiment(Protocol):
    """An MLflow experiment as a `RunBook` needs it: a `MlflowConnection`, which describes each method.

    Every method but `close` may fail in any way and be called again.
    """

    @property
    def place(self) -> tuple[str, str]: ...
    def open(self) -> None: ...
    def runs(self) -> Iterator[StoredRun]: ...
    def running(self, store: str) -> Iterator[StoredRun]: ...
    def create(self, record: RunRecord) -> StoredRun: ...
    def write(self, run: StoredRun, record: RunRecord) -> None: ...
    def summarise(self, run_id: str, metrics: Mapping[str, float], *, step: int, tags: Mapping[str, str]) -> None: ...
    def write_files(self, files: Iterable[tuple[StoredRun, str, bytes]]) -> None: ...
    def tag(self, run_id: str, name: str, value: str) -> None: ...
    def rename(self, run_id: str, name: str) -> None: ...
    def end(self, run_id: str, status: str) -> None: ...
    def delete(self, run_id: str) -> None: ...
    def close(self) -> None: ...


@dataclass(kw_only=True)
class _Cell:
    """Content of a parent run; `described` once its params are written, `dirty` while its metrics are not."""

    shown: ShownTrial
    trials: dict[str, CellTrial] = field(default_factory=dict)
    described: bool = False
    dirty: bool = False


class RunBook:
    """Runs of one sweep in one experiment. Every call can be repeated after a failure: nothing is written twice. `open`
    must come first.

    Args:
        record: receives `RunsCreated` events.
        read: reads the arrays that trials kept; None leaves them out.
        draw: draws the confusion matrices of cells; None leaves the figures out.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        record: Callable[[Event], None] | None,
        read: ReadArtifact | None = None,
        draw: DrawConfusion | None = None,
    ) -> None:
        self._experiment = experiment
        self._record = record
        self._read = read
        self._draw = draw
        self._sweep = self._store = ""
        self._environment: Mapping[str, str] = {}
        self._is_open = False
        self._runs: dict[str, StoredRun] = {}
        self._found: set[str] = set()
        self._done: dict[str, tuple[str, str]] = {}
        self._cells: dict[str, _Cell] = {}
        self._recorded: Mapping[str, RunsCreated] = {}
        self._unjournalled: dict[str, str] = {}
        self._marks: dict[str, str] = {}  # key of a run → value of its tag `ASKED`

    def open(self, state: JournalState) -> None:
        """Connects, lists the existing runs, and ends those that a dead driver left open; does so once.

        Args:
            state: state of the sweep that is written. Runs of another store belong to another sweep, whatever its name.
                Ids of runs that the record does not know are journalled later.
        """
        if self._is_open:
            return
        self._sweep, self._environment, self._recorded = state.name, state.environment, state.runs
        self._store = store_id(state.started[0]) if state.started else ""
        self._experiment.open()
        self._runs, self._done = {}, {}
        for run in self._experiment.runs():
            ours = run.tags.get(STORE) == self._store and run.tags.get(SWEEP) == self._sweep
            if ours and KEY in run.tags:
                self._adopt(run.tags[KEY], run)
        self._found = set(self._runs)
        known = self._known()
        self._unjournalled = {
            key: run.run_id
            for key, run in self._runs.items()
            if known.get(key) != run.run_id and run.tags.get(KIND) != "sweep"
        }
        self._is_open = True

    def has(self, trial: ShownTrial, result: TrialResult) -> bool:
        """Whether a trial's run is known to hold this result."""
        return self._done.get(trial.spec.key) == (result.status, trial.spec.phase)

    def write_trial(self, trial: ShownTrial, result: TrialResult) -> bool:
        """Writes a trial's run, and its cell's run if missing. Returns False where the trial's run was up to date."""
        spec = trial.spec
        cell = self._cells.setdefault(spec.cell_key, _Cell(shown=trial))
        if trial.asked:
            cell.shown = trial
        said = CellTrial(
            phase=spec.phase,
            status=result.status,
            asked=trial.asked,
            chosen=trial.chosen,
            metrics=result.metrics if result.status is Status.OK else {},
            confusion=result.confusion,
        )
        if cell.trials.get(spec.key) != said:
            cell.trials[spec.key] = said
            cell.dirty = True
        if self.has(trial, result):
            return False
        if not cell.described:
            self._describe(cell)
        fresh = self._bring_up_to_date(trial, result)
        self._done[spec.key] = (result.status, spec.phase)
        self._mark_run(spec.key, asked=trial.asked)
        return fresh

    def mark(self, trials: Mapping[str, ShownTrial]) -> None:
        """Marks every written trial as asked for or not, and as chosen or not, as `trials` says. Others are not asked
        for, nor are runs of this store that its record does not know: they are of a copy of the store, or of lost
        rows."""
        for cell in self._cells.values():
            for key, known in cell.trials.items():
                trial = trials.get(key)
                asked, chosen = trial is not None and trial.asked, trial is not None and trial.chosen
                if (known.asked, known.chosen) != (asked, chosen):
                    cell.trials[key] = replace(known, asked=asked, chosen=chosen)
                    cell.dirty = True
                if key in self._runs:
                    self._mark_run(key, asked=asked)
        known = trials.keys() | {trial.spec.cell_key for trial in trials.values()}
        for key, run in self._runs.items():
            if key not in known and run.tags.get(KIND) != "sweep":
                self._mark_run(key, asked=False)

    @property
    def has_changes(self) -> bool:
        """Whether a cell has metrics that are not written yet."""
        return any(cell.dirty for cell in self._cells.values())

    def write_cells(self) -> None:
        """Brings the summaries of cells up to date, and journals the ids of new runs."""
        for key, cell in self._cells.items():
            if cell.dirty and key in self._runs:
                self._summarise(key, cell)
        self._journal_ids()

    def finish(self) -> None:
        """Completes and ends the runs of all cells, deletes duplicate runs, and closes the experiment."""
        self.write_cells()
        for key, cell in sorted(self._cells.items()):
            if key in self._runs:
                self._finish_cell(self._runs[key], cell)
        delete_doubles(self._experiment, self._store, self._sweep, {key: run.run_id for key, run in self._runs.items()})
        self._experiment.close()

    def _finish_cell(self, run: StoredRun, cell: _Cell) -> None:
        """Writes a cell's files and status if MLflow has others. A tag, written after the files, is their digest."""
        record = cell_record(cell.shown, cell.trials.values(), sweep=self._sweep)
        matrix = mean_confusion(cell.trials.values()) if self._draw is not None else None
        digest = blake2b(repr((sorted(record.texts.items()), matrix)).encode(), digest_size=8).hexdigest()
        if run.tags.get(FILES) != digest:
            if run.tags.get(FILES):
                self._experiment.tag(run.run_id, FILES, "")  # no digest holds until all files are written
            files = [(run, name, text.encode()) for name, text in record.texts.items()]
            if matrix is not None and self._draw is not None:
                files.append((run, "confusion.png", self._draw(matrix)))
            self._experiment.write_files(files)
            self._experiment.tag(run.run_id, FILES, digest)
        if run.status != record.status:
            self._experiment.end(run.run_id, record.status)
        self._runs[record.key] = replace(run, status=record.status, tags={**run.tags, FILES: digest})

    def _adopt(self, key: str, run: StoredRun) -> None:
        if run.status == "RUNNING":
            self._experiment.tag(run.run_id, INTERRUPTED, "its driver ended while this run was open")
            self._experiment.end(run.run_id, "KILLED")
        if key in self._runs:  # written twice by drivers that did not know of each other
            self._experiment.delete(run.run_id)
        else:
            self._runs[key] = run
            self._marks[key] = run.tags.get(ASKED, "")

    def _describe(self, cell: _Cell) -> None:
        """Creates a cell's run, or completes one that was cut short."""
        record = cell_record(cell.shown, (), sweep=self._sweep)
        run = self._runs.get(record.key)
        if run is None:
            run = self._create(record)
        if not record.params.items() <= run.params.items():
            self._write(run, replace(record, metrics={}, texts={}))
        cell.described = True

    def _mark_run(self, key: str, *, asked: bool) -> None:
        mark = "true" if asked else "false"
        if self._marks.get(key) != mark:
            self._experiment.tag(self._runs[key].run_id, ASKED, mark)
            self._marks[key] = mark

    def _bring_up_to_date(self, trial: ShownTrial, result: TrialResult) -> bool:
        """Writes or changes a trial's run where needed; returns whether that was needed."""
        spec = trial.spec
        record = trial_record(trial, result, sweep=self._sweep, environment=self._environment)
        record = replace(record, tags={**record.tags, PARENT: self._runs[spec.cell_key].run_id})
        status, phase = self._done.get(spec.key, ("", ""))
        run = self._runs.get(spec.key)
        if run is not None and spec.key in self._found and _holds(run, record):
            changed = self._call_as(run, record)
            self._found.discard(spec.key)
            return changed
        if run is not None and (spec.key in self._found or status not in ("", result.status)):
            self._experiment.delete(run.run_id)  # it is incomplete, or the result's status has changed
            del self._runs[spec.key]
            run = None
        self._found.discard(spec.key)
        if run is not None and status == result.status:
            if phase != spec.phase:
                self._experiment.tag(run.run_id, PHASE, spec.phase)
            return phase != spec.phase
        run = run or self._create(record)
        self._write(run, record)
        self._experiment.end(run.run_id, record.status)
        return True

    def _call_as(self, run: StoredRun, record: RunRecord) -> bool:
        """Sets an existing run's name and tags to its record's, except the tags of commit and environment; returns
        whether any differed.
        """
        ran_with = {"mlflow.source.git.commit", *(PREFIX + name for name in self._environment)}
        tags = {
            name: value
            for name, value in record.tags.items()
            if name not in ran_with and name != ASKED and run.tags.get(name) != value
        }
        renamed = run.tags.get(NAME) != record.name
        if tags:
            self._experiment.summarise(run.run_id, {}, step=0, tags=tags)
        if renamed:
            self._experiment.rename(run.run_id, record.name)
        return bool(tags) or renamed

    def _create(self, record: RunRecord) -> StoredRun:
        record = replace(record, tags={**record.tags, STORE: self._store})
        run = self._runs[record.key] = self._experiment.create(record)
        self._marks[record.key] = record.tags[ASKED]
        self._unjournalled[record.key] = run.run_id
        if len(self._unjournalled) >= _IDS_A_ROW:
            self._journal_ids()
        return run

    def _write(self, run: StoredRun, record: RunRecord) -> None:
        self._experiment.write(run, record)
        if record.texts or record.arrays:
            self._experiment.write_files(self._files_of(run, record))

    def _files_of(self, run: StoredRun, record: RunRecord) -> Iterator[tuple[StoredRun, str, bytes]]:
        for name, text in record.texts.items():
            yield run, name, text.encode()
        for name, artifact in record.arrays.items():
            content = self._read(artifact) if self._read is not None else None
            if content is not None:
                yield run, name, content

    def _summarise(self, key: str, cell: _Cell) -> None:
        record = cell_record(cell.shown, cell.trials.values(), sweep=self._sweep)
        run, tags = self._runs[key], record.tags
        known = tags.items() <= run.tags.items() and record.metrics.items() <= run.metrics.items()
        if key not in self._found or not known:
            self._found.discard(key)
            self._experiment.summarise(run.run_id, record.metrics, step=len(cell.trials), tags=tags)
        cell.dirty = False

    def _known(self) -> Mapping[str, str]:
        """Returns the run ids that the journal has for this experiment, by key."""
        uri, experiment_id = self._experiment.place
        known = self._recorded.get(uri)
        return known.runs if known is not None and known.experiment_id == experiment_id else {}

    def _journal_ids(self) -> None:
        """Journals the ids of new runs; the journal reports its own failure."""
        if not self._unjournalled or self._record is None:
            return
        fresh, self._unjournalled = self._unjournalled, {}
        uri, experiment_id = self._experiment.place
        try:
            self._record(RunsCreated(tracking_uri=uri, experiment_id=experiment_id, runs=fresh))
        except JournalError:
            _log.debug("run ids of MLflow were not journalled", exc_info=True)


def delete_doubles(experiment: Experiment, store: str, sweep: str, known: Mapping[str, str]) -> None:
    """Deletes duplicate runs. MLflow created them, but its answer was lost and the run was requested again. Nothing
    more was written to such runs, and they were not ended.

    Args:
        store, sweep: id of the store and name of the sweep that the runs belong to.
        known: key → id of the one run that stays.
    """
    for run in list(experiment.running(store)):
        if run.run_id != known.get(run.tags.get(KEY, ""), run.run_id) and run.tags.get(SWEEP) == sweep:
            experiment.delete(run.run_id)


def _holds(run: StoredRun, record: RunRecord) -> bool:
    """Whether a run found in MLflow has ended as its record says, and lacks nothing that a listing shows."""
    expected_metrics = record.metrics.keys() | record.histories.keys()
    return (
        run.status == record.status
        and run.tags.get(PARENT) == record.tags[PARENT]
        and run.tags.get(STATUS) == record.tags[STATUS]
        and record.params.items() <= run.params.items()
        and expected_metrics <= run.metrics.keys()
        and all(math.isclose(run.metrics[name], value, rel_tol=1e-6) for name, value in record.metrics.items())
    )
