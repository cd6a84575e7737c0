"""MLflow as a mirror of the journal: experiment = sweep, parent run = cell, nested run = trial.

This is the only file that knows mlflow. Importing it costs about 2.5 s, so that whoever wants a mirror imports it then.
Only the client interface with run ids is used: MLflow's fluent interface keeps its state in the process.
"""

import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # both are read by mlflow alone, the first on import
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")

from mlflow import MlflowClient
from mlflow.entities import (
    Dataset,
    DatasetInput,
    InputTag,
    LifecycleStage,
    Metric,
    Param,
    Run,
    RunTag,
)
from mlflow.exceptions import MlflowException

from crowdsweep.errors import BadInput, JournalError
from crowdsweep.sinks.background import Background, Rejected
from crowdsweep.sinks.journal_state import JournalState
from crowdsweep.sinks.run_records import (
    DIGEST_LIMIT,
    INTERRUPTED,
    ITEMS_A_BATCH,
    KEY,
    KIND,
    METRICS_A_BATCH,
    NAME_LIMIT,
    PARENT,
    PHASE,
    STATUS,
    SWEEP,
    CellTrial,
    RunRecord,
    cell_record,
    trial_record,
)
from crowdsweep.sinks.tracking import artifact_folder, check_reachable, tracking_uri, without_credentials
from crowdsweep.trial.events import Event, RunsCreated, SweepStarted, TrialFinished, TrialPlanned
from crowdsweep.trial.result import TrialResult
from crowdsweep.trial.spec import TrialSpec

__all__ = ["Mirrored", "MlflowSink", "mirror", "tracking_uri", "without_credentials"]

_log = logging.getLogger(__name__)
if "MLFLOW_LOGGING_LEVEL" not in os.environ:
    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of each table that it makes

_BEYOND_REPAIR = "INVALID_PARAMETER_VALUE"
_IDS_A_ROW = 50


class MlflowSink:
    """Mirrors a sweep into MLflow from a thread of its own; a `Sink`.

    A failure is reported once and retried; trials that could not be written in the end are counted in a warning, and
    `mirror` (or the next driver of the same sweep, through `state`) writes them.

    Args:
        store: directory or URI of the sweep's store.
        experiment: name in MLflow; created once.
        uri: see `tracking_uri`.
        record: takes `RunsCreated`, from this sink's thread; a failure of it is the journal's to tell.
        state: what the journal said before this driver began: trials of it that MLflow lacks are written.
        background: how the thread retries, for tests.
    """

    def __init__(
        self,
        store: str | Path,
        *,
        experiment: str,
        uri: str | None = None,
        record: Callable[[Event], None] | None = None,
        state: JournalState | None = None,
        background: Callable[[Callable[[], None]], Background] | None = None,
    ) -> None:
        self._runs = _Runs(tracking_uri(store, uri), experiment, record=record)
        self._specs: dict[str, TrialSpec] = dict(state.specs) if state else {}
        self._waiting: dict[str, TrialResult] = dict(state.results) if state else {}
        self._thread = (background or _background)(self._runs.write_cells)
        self._started = False
        self._closed = False

    def handle(self, event: Event) -> None:
        """Queues what is to be written; never waits and never raises for MLflow's sake."""
        match event:
            case SweepStarted():
                self._started = True
                self._thread.submit(lambda: self._runs.open(event.name, event.environment), beyond_limit=True)
                for key, result in list(self._waiting.items()):
                    self._queue(key, result, beyond_limit=True)
            case TrialPlanned(spec=spec):
                known = self._specs.get(spec.key)
                if known is None or spec.phase == "report":
                    self._specs[spec.key] = spec
                if known is not None and known.phase != spec.phase == "report":
                    self._thread.submit(lambda: self._runs.enter_report(spec))
            case TrialFinished(result=result):
                self._waiting[result.key] = result
                self._queue(result.key, result)
            case _:
                pass

    def close(self) -> None:
        """Writes what is queued, ends the runs of all cells, and says what could not be written."""
        if self._closed:
            return
        self._closed = True
        self._thread.close(self._runs.finish if self._started else None)
        if self._waiting:
            _log.warning(
                "MLflow lacks %d trials; the journal has them: `crowdsweep mirror` writes them", len(self._waiting)
            )

    def _queue(self, key: str, result: TrialResult, *, beyond_limit: bool = False) -> None:
        spec = self._specs.get(key)
        if spec is None:
            return

        def write() -> None:
            self._runs.write_trial(self._specs.get(key, spec), result)
            if self._waiting.get(key) is result:
                del self._waiting[key]

        self._thread.submit(write, beyond_limit=beyond_limit)


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """What `mirror` did: numbers of trials that stood there already, that were written, that MLflow refuses."""

    found: int
    written: int
    refused: int

    def __str__(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.written} trials written, {self.found} stood there already{refused}"


def mirror(state: JournalState, uri: str, experiment: str) -> Mirrored:
    """Writes into MLflow all that a journal has and MLflow lacks; a run that is incomplete is deleted and made anew.

    Not while a driver is writing the same experiment: its open runs would be marked as interrupted.

    Args:
        state: what the journal says.
        uri: MLflow's tracking URI.
        experiment: its name.

    Raises:
        BadInput: MLflow cannot be reached or written.
    """
    runs = _Runs(uri, experiment, record=None)
    found = written = 0
    try:
        runs.open(state.name, state.environment)
        for key, result in state.results.items():
            if key not in state.specs:
                continue
            try:
                fresh = runs.write_trial(state.specs[key], result)
            except Rejected as error:
                _log.warning("MLflow refuses trial %s: %s", key, error)
                continue
            written, found = written + fresh, found + (not fresh)
        runs.finish()
    except (OSError, MlflowException, Rejected) as error:
        raise BadInput(
            f"MLflow at {without_credentials(uri)} cannot be written: {error}. {written} trials were; see to it, then "
            f"do the same again"
        ) from error
    return Mirrored(found=found, written=written, refused=len(state.results) - found - written)


@dataclass(kw_only=True)
class _Cell:
    """A parent run as it is known: what stands in it, and what should."""

    spec: TrialSpec
    trials: dict[str, CellTrial] = field(default_factory=dict)
    dirty: bool = False


class _Runs:
    """Runs of one sweep in one experiment. Every call can be repeated after it failed: what was written is not
    written twice."""

    def __init__(
        self,
        uri: str,
        experiment: str,
        *,
        record: Callable[[Event], None] | None,
    ) -> None:
        self._uri = uri
        self._experiment = experiment
        self._record = record
        self._sweep = ""
        self._environment: Mapping[str, str] = {}
        self._opened: MlflowClient | None = None
        self._experiment_id = ""
        self._found: dict[str, Run] = {}
        self._ids: dict[str, str] = {}
        self._started_ms: dict[str, int] = {}
        self._artifact_uris: dict[str, str] = {}
        self._done: dict[str, tuple[str, str]] = {}
        self._cells: dict[str, _Cell] = {}
        self._open_cells: set[str] = set()
        self._unrecorded: dict[str, str] = {}

    def open(self, sweep: str, environment: Mapping[str, str]) -> None:
        """Connects, finds what is there already, and closes what a driver that died left open."""
        self._sweep, self._environment = sweep, environment
        check_reachable(self._uri)
        # Of SQLAlchemy, about MLflow's own tables. Not `catch_warnings`: it undoes what other threads set meanwhile.
        warnings.filterwarnings("ignore", message="The ``noload`` loader strategy is deprecated")
        client = MlflowClient(self._uri)
        self._experiment_id = self._experiment_in(client)
        self._index(client)
        self._opened = client

    def write_trial(self, spec: TrialSpec, result: TrialResult) -> bool:
        """Writes a trial's run, and its cell's where there is none. Returns False where all of it stood there."""
        client = self._client()
        cell = self._cells.setdefault(spec.cell_key, _Cell(spec=spec))
        cell.trials[spec.key] = CellTrial(phase=spec.phase, metrics=result.metrics if result.status == "ok" else None)
        cell.dirty = True
        if self._done.get(spec.key) == (result.status, spec.phase):
            return False
        with _refusals():
            if spec.cell_key not in self._ids:
                self._create_cell(client, cell)
            fresh = self._bring_up_to_date(client, spec, result)
        self._done[spec.key] = (result.status, spec.phase)
        return fresh

    def enter_report(self, spec: TrialSpec) -> None:
        """Marks a trial that was done for a search and now counts for the report; one not yet written comes marked."""
        status, phase = self._done.get(spec.key, ("", ""))
        if phase not in ("", spec.phase):
            self._client().set_tag(self._ids[spec.key], PHASE, spec.phase)
            self._done[spec.key] = (status, spec.phase)
            cell = self._cells[spec.cell_key]
            cell.trials[spec.key] = replace(cell.trials[spec.key], phase=spec.phase)
            cell.dirty = True

    def write_cells(self) -> None:
        """Brings the summaries of cells up to date, and tells the journal of new runs."""
        if self._opened is None:
            return
        with _refusals():
            for key, cell in self._cells.items():
                if cell.dirty and key in self._ids:
                    self._write_cell(self._opened, key, cell)
        self._tell()

    def finish(self) -> None:
        """Ends the runs of all cells."""
        self.write_cells()
        client = self._client()
        with _refusals():
            for key in sorted(self._open_cells):
                cell = self._cells.get(key)
                if cell is not None:
                    record = cell_record(cell.spec, cell.trials.values(), sweep=self._sweep)
                    client.set_terminated(self._ids[key], record.status)
                self._open_cells.discard(key)

    def _client(self) -> MlflowClient:
        if self._opened is None:
            self.open(self._sweep, self._environment)
        if self._opened is None:
            raise RuntimeError("MLflow was not opened")
        return self._opened

    def _experiment_in(self, client: MlflowClient) -> str:
        found = client.get_experiment_by_name(self._experiment)
        if found is None:
            return client.create_experiment(self._experiment, artifact_location=artifact_folder(self._uri))
        if found.lifecycle_stage == LifecycleStage.DELETED:
            _log.warning("MLflow: experiment %r had been deleted and is restored", self._experiment)
            client.restore_experiment(found.experiment_id)
        return found.experiment_id

    def _index(self, client: MlflowClient) -> None:
        self._ids, self._found, self._done = {}, {}, {}
        for run in self._search(client):
            tags = run.data.tags
            if tags.get(SWEEP) != self._sweep or KEY not in tags:
                continue
            key, run_id = tags[KEY], run.info.run_id
            if run.info.status == "RUNNING":
                client.set_tag(run_id, INTERRUPTED, "its driver ended while this run was open")
                client.set_terminated(run_id, "KILLED")
                if tags.get(KIND) == "cell":
                    self._open_cells.add(key)
            elif run.info.status == "KILLED" and tags.get(KIND) == "cell":
                self._open_cells.add(key)
            if key in self._ids:  # written twice by drivers that did not know of each other
                client.delete_run(run_id)
            else:
                self._ids[key] = run_id
                self._found[key] = run

    def _search(self, client: MlflowClient) -> Iterator[Run]:
        """Yields all runs of the experiment, those that ended well first."""
        token = None
        while True:
            page = client.search_runs(
                [self._experiment_id],
                max_results=1000,
                order_by=["attributes.status ASC", "attributes.start_time ASC"],
                page_token=token,
            )
            yield from page
            token = page.token
            if not token:
                return

    def _create_cell(self, client: MlflowClient, cell: _Cell) -> None:
        record = cell_record(cell.spec, (), sweep=self._sweep)
        self._create(client, record)
        self._open_cells.add(record.key)
        self._write(client, replace(record, metrics={}), cell.spec)

    def _bring_up_to_date(self, client: MlflowClient, spec: TrialSpec, result: TrialResult) -> bool:
        """Returns whether a run had to be written or changed."""
        record = trial_record(spec, result, sweep=self._sweep, environment=self._environment)
        record = replace(record, tags={**record.tags, PARENT: self._ids[spec.cell_key]})
        status, phase = self._done.get(spec.key, ("", ""))
        found = self._found.get(spec.key)
        if found is not None and _holds(found, record):
            status, phase = result.status, found.data.tags.get(PHASE, "")
        elif found is not None or status not in ("", result.status):  # incomplete, or it failed then and not now
            client.delete_run(self._ids[spec.key])
            del self._ids[spec.key]
        self._found.pop(spec.key, None)
        if status == result.status:
            if phase != spec.phase:
                client.set_tag(self._ids[spec.key], PHASE, spec.phase)
            return phase != spec.phase
        if spec.key not in self._ids:
            self._create(client, record)
        self._write(client, record, spec)
        client.set_terminated(self._ids[spec.key], record.status)
        return True

    def _create(self, client: MlflowClient, record: RunRecord) -> None:
        start_ms = int((time.time() - record.seconds) * 1000)
        run = client.create_run(self._experiment_id, start_time=start_ms, tags=dict(record.tags), run_name=record.name)
        self._started_ms[record.key] = start_ms
        self._artifact_uris[record.key] = str(run.info.artifact_uri)
        self._ids[record.key] = self._unrecorded[record.key] = run.info.run_id
        if len(self._unrecorded) >= _IDS_A_ROW:
            self._tell()

    def _write(self, client: MlflowClient, record: RunRecord, spec: TrialSpec) -> None:
        """Writes all of a run but its tags. Metrics have the time of the run's start: repeated after a failure they
        are the same measurements to MLflow, which keeps one."""
        run_id, at_ms = self._ids[record.key], self._started_ms[record.key]
        metrics = [Metric(name, value, at_ms, 0) for name, value in record.metrics.items()]
        metrics += [Metric("objective", value, at_ms, step) for step, value in record.history]
        params = [Param(name, value) for name, value in record.params.items()]
        while metrics or params:
            client.log_batch(run_id, metrics=metrics[:METRICS_A_BATCH], params=params[:ITEMS_A_BATCH])
            metrics, params = metrics[METRICS_A_BATCH:], params[ITEMS_A_BATCH:]
        for name, text in record.texts.items():
            self._write_text(client, record.key, name, text)
        dataset = Dataset(
            name=spec.dataset[-NAME_LIMIT:],
            digest=spec.fingerprint[:DIGEST_LIMIT],
            source_type="crowdsweep",
            source=spec.dataset,
        )
        client.log_inputs(run_id, datasets=[DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])])

    def _write_text(self, client: MlflowClient, key: str, name: str, text: str) -> None:
        folder = urlsplit(self._artifact_uris[key])
        if folder.scheme == "file":  # where MLflow itself would put it, without its 8 ms of looking the place up
            path = Path(unquote(folder.path), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        else:
            client.log_text(self._ids[key], text, name)

    def _write_cell(self, client: MlflowClient, key: str, cell: _Cell) -> None:
        record = cell_record(cell.spec, cell.trials.values(), sweep=self._sweep)
        found = self._found.pop(key, None)
        stands = found is not None and found.data.tags.get(PHASE) == record.tags[PHASE]
        if found is None or not stands or found.data.metrics != record.metrics:
            now_ms, step = int(time.time() * 1000), len(cell.trials)
            metrics = [Metric(name, value, now_ms, step) for name, value in record.metrics.items()]
            tags = [RunTag(PHASE, record.tags[PHASE])]
            for first in range(0, len(metrics), METRICS_A_BATCH):
                client.log_batch(self._ids[key], metrics=metrics[first : first + METRICS_A_BATCH], tags=tags)
        cell.dirty = False

    def _tell(self) -> None:
        """Hands the ids of new runs to the journal; the journal's own failure is told by the journal."""
        if not self._unrecorded or self._record is None:
            return
        told, self._unrecorded = self._unrecorded, {}
        try:
            self._record(
                RunsCreated(tracking_uri=without_credentials(self._uri), experiment_id=self._experiment_id, runs=told)
            )
        except JournalError:
            _log.debug("run ids of MLflow were not journalled", exc_info=True)


def _holds(run: Run, record: RunRecord) -> bool:
    """Whether a run that was found in MLflow ended as it should and lacks nothing that can be seen from a listing."""
    data = run.data
    expected_metrics = set(record.metrics) | ({"objective"} if record.history else set())
    return (
        run.info.status == record.status
        and data.tags.get(PARENT) == record.tags[PARENT]
        and data.tags.get(STATUS) == record.tags[STATUS]
        and record.params.items() <= data.params.items()
        and expected_metrics <= data.metrics.keys()
        and all(math.isclose(data.metrics[name], value, rel_tol=1e-6) for name, value in record.metrics.items())
    )


def _background(when_idle: Callable[[], None]) -> Background:
    return Background("MLflow", when_idle=when_idle)


@contextmanager
def _refusals() -> Generator[None]:
    """Tells what MLflow will never take from what it cannot take now."""
    try:
        yield
    except MlflowException as error:
        if error.error_code == _BEYOND_REPAIR:
            raise Rejected(str(error)) from error
        raise
