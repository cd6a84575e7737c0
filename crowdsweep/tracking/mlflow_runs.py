"""MLflow as a mirror of the journal: experiment = sweep, parent run = cell, nested run = trial.

This is the only file that knows mlflow. Importing it costs about 2.5 s, so that whoever wants a mirror imports it then.
Only the client interface with run ids is used: MLflow's fluent interface keeps its state in the process.
"""

import logging
import os
import re
import shlex
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # all are read by mlflow alone, the first on import
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # its 7 take minutes, and we try again ourselves

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, LifecycleStage, Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from crowdsweep.errors import BadInput
from crowdsweep.journal.artifacts import content_of
from crowdsweep.journal.journal import open_rows
from crowdsweep.journal.shown import ShownTrial, one_each, shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.tracking.artifact_files import bring_along, write_inside
from crowdsweep.tracking.background import Background, Rejected
from crowdsweep.tracking.run_book import DrawConfusion, ReadArtifact, RunBook, StoredRun
from crowdsweep.tracking.run_records import (
    DIGEST_LIMIT,
    ITEMS_A_BATCH,
    METRICS_A_BATCH,
    NAME_LIMIT,
    RunRecord,
)
from crowdsweep.tracking.sqlite_file import SqliteFile
from crowdsweep.tracking.uri import (
    artifact_folder,
    check_reachable,
    database_file,
    discreet,
    discreetly,
    log_in,
    sqlite_uri,
    tracking_uri,
    without_credentials,
)
from crowdsweep.trial.events import Event, SweepStarted, TrialFinished, TrialPlanned
from crowdsweep.trial.result import TrialResult

__all__ = ["Mirrored", "MlflowDoor", "MlflowMirror", "rebuild", "tracking_uri", "without_credentials"]

_log = logging.getLogger(__name__)
if "MLFLOW_LOGGING_LEVEL" not in os.environ:
    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of each table that it makes
    for told_by_us in ("mlflow.store.db.utils", "urllib3.connectionpool"):  # each failure, before it reaches us
        logging.getLogger(told_by_us).setLevel(logging.CRITICAL)

_TELL_FIRST_S, _TELL_EVERY_S = 2.0, 10.0
_PRESSES_TO_DROP = 2  # of Ctrl-C: then nothing is waited for
_BEYOND_REPAIR = "INVALID_PARAMETER_VALUE"


class MlflowMirror:
    """Mirrors a sweep into MLflow from a thread of its own; a `Mirror`.

    A failure is reported once and retried; trials that could not be written in the end are counted in a warning, and
    `mirror` (or the next driver of the same sweep, through `look`) writes them. Runs of trials that the sweep does not
    ask for any more stay, with the tag `crowdsweep.asked` false, and no cell's numbers count them.

    Args:
        store: directory or URI of the sweep's store.
        experiment: name in MLflow; created once.
        uri: see `tracking_uri`.
        record: takes `RunsCreated`, from this mirror's thread; a failure of it is the journal's to tell.
        look: tells what the journal says now: trials of it that MLflow lacks are written.
        draw: of the mean confusion matrix of a cell's reported trials, which becomes an artifact of its run.
        background: how the thread retries, for tests.
        presses: tells how often Ctrl-C was pressed: once more, and `close` leaves what is left to `mirror`.
        tell: takes, while `close` waits, words for whoever waits too.
    """

    def __init__(
        self,
        store: str | Path,
        *,
        experiment: str,
        uri: str | None = None,
        record: Callable[[Event], None] | None = None,
        look: Callable[[], JournalState] | None = None,
        draw: DrawConfusion | None = None,
        background: Callable[[Callable[[], None]], Background] | None = None,
        presses: Callable[[], int] = lambda: 0,
        tell: Callable[[str], object] = _log.info,
    ) -> None:
        self._store = str(store)
        self._presses = presses
        self._tell = tell
        self._uri = tracking_uri(store, uri)
        door = MlflowDoor(self._uri, experiment)
        self._runs = RunBook(door, record=record, read=reader_of(store), draw=draw)
        self._look = look
        self._trials: dict[str, ShownTrial] = {}
        self._waiting: dict[str, TrialResult] = {}
        self._thread = (background or self._background)(self._runs.write_cells)
        self._started = False
        self._closed = False

    def handle(self, event: Event) -> None:
        """Queues what is to be written; never waits and never raises for MLflow's sake."""
        match event:
            case SweepStarted():
                self._started = True
                state = self._look() if self._look is not None else None
                first = state.started[0] if state is not None and state.started else event
                self._thread.submit(
                    lambda: self._runs.open(event.name, event.environment, store_id(first)), beyond_limit=True
                )
                if state is not None:
                    self._trials.update(one_each(shown_trials(state, every=True)))
                    self._waiting.update((key, result) for key, result in state.results.items() if key in self._trials)
                for key, result in list(self._waiting.items()):
                    self._queue(key, result, beyond_limit=True)
            case TrialPlanned(spec=spec, label=label):
                known = self._trials.get(spec.key)
                if known is None or not known.asked or spec.phase == "report":
                    self._trials[spec.key] = ShownTrial(spec=spec, label=label or spec.model)
                if known is not None and known.spec.phase != spec.phase == "report":
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
        shown = one_each(shown_trials(self._look(), every=True)) if self._look is not None else self._trials

        def finish() -> None:
            self._runs.mark(shown)
            self._runs.finish()

        before, told_at = self._presses(), 0.0

        def wait(gone_s: float) -> bool:
            nonlocal told_at
            if gone_s - told_at > _TELL_EVERY_S or (not told_at and gone_s > _TELL_FIRST_S):
                told_at = gone_s
                n = f"{len(self._waiting)} runs to go" if self._waiting else "writing the last"
                self._tell(f"MLflow: {n}; Ctrl-C leaves them to {self._later}")
            return self._presses() == before and before < _PRESSES_TO_DROP

        self._thread.close(finish if self._started else None, wait)
        if self._waiting:
            _log.warning(
                "MLflow lacks %d trials; the journal has them: %s writes them", len(self._waiting), self._later
            )

    @property
    def _later(self) -> str:
        return f"`{shlex.join(['crowdsweep', 'mirror', self._store])}`"

    def _background(self, when_idle: Callable[[], None]) -> Background:
        return Background("MLflow", when_idle=when_idle, words=lambda error: discreetly(str(error), self._uri))

    def _queue(self, key: str, result: TrialResult, *, beyond_limit: bool = False) -> None:
        if key not in self._trials:
            return

        def write() -> None:
            self._runs.write_trial(self._trials[key], result)
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


def rebuild(
    state: JournalState,
    uri: str,
    experiment: str,
    *,
    read: ReadArtifact | None = None,
    draw: DrawConfusion | None = None,
) -> Mirrored:
    """Writes into MLflow all that a journal has and MLflow lacks; a run that is incomplete is deleted and made anew.

    Not while a driver is writing the same sweep: its open runs would be marked as interrupted.

    Args:
        state: what the journal says.
        uri: MLflow's tracking URI.
        experiment: its name.
        read: of the arrays that trials kept (`reader_of`); None leaves them out.
        draw: as for `MlflowMirror`.

    Raises:
        BadInput: MLflow cannot be reached or written.
    """
    runs = RunBook(MlflowDoor(uri, experiment), record=None, read=read, draw=draw)
    found = written = 0
    try:
        runs.open(state.name, state.environment, store_id(state.started[0]) if state.started else "")
        trials = one_each(shown_trials(state, every=True))
        for key, result in state.results.items():
            if key not in trials:
                continue
            try:
                fresh = runs.write_trial(trials[key], result)
            except Rejected as error:
                _log.warning("MLflow refuses trial %s: %s", key, discreetly(str(error), uri))
                continue
            written, found = written + fresh, found + (not fresh)
        runs.mark(trials)
        runs.finish()
    except (OSError, MlflowException, Rejected) as error:
        raise BadInput(
            f"MLflow at {without_credentials(uri)} cannot be written: {discreetly(str(error), uri)}. {written} trials "
            f"were; see to it, then do the same again"
        ) from None
    return Mirrored(found=found, written=written, refused=len(state.results) - found - written)


def store_id(first: SweepStarted) -> str:
    """Returns what tells the runs of one store from those of another whose sweep has the same name: when and where its
    first driver began. A store that is moved keeps it."""
    return blake2b(f"{first.time!r} {first.environment.get('host', '')}".encode(), digest_size=8).hexdigest()


def reader_of(store: str | Path) -> ReadArtifact:
    """Returns what reads the arrays that the trials of a store kept."""
    return lambda artifact: content_of(open_rows(store, write=False), artifact)


class MlflowDoor:
    """One experiment of MLflow, for a `RunBook`: its values go in and come out as ours.

    Args:
        uri: MLflow's tracking URI.
        experiment: its name.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self._uri = log_in(uri)
        database = database_file(self._uri)
        self._database = SqliteFile(database) if database else None
        self._experiment = experiment
        self._experiment_id = ""
        self._client: MlflowClient | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Tracking URI, fit to be shown, and the experiment's id."""
        return without_credentials(self._uri), self._experiment_id

    def open(self) -> None:
        """Connects, and makes the experiment where there is none; may be repeated."""
        with discreet(self._uri):
            self._client = self._connected()

    def _connected(self) -> MlflowClient:
        check_reachable(self._uri)
        # Of SQLAlchemy, about MLflow's own tables. Not `catch_warnings`: it undoes what other threads set meanwhile.
        warnings.filterwarnings("ignore", message="The ``noload`` loader strategy is deprecated")
        database, folder = database_file(self._uri), artifact_folder(self._uri)
        if self._database is not None:
            _make_database(self._uri)
            self._database.hasten()
            if database is not None and folder is not None:
                bring_along(database, folder)
        client = MlflowClient(self._uri)
        found = client.get_experiment_by_name(self._experiment)
        if found is None:
            self._experiment_id = client.create_experiment(self._experiment, artifact_location=folder)
        else:
            self._experiment_id = found.experiment_id
            if found.lifecycle_stage == LifecycleStage.DELETED:
                _log.warning("MLflow: experiment %r had been deleted and is restored", self._experiment)
                client.restore_experiment(found.experiment_id)
        return client

    def runs(self) -> Iterator[StoredRun]:
        """Yields all runs of the experiment, those that ended first."""
        token = None
        while True:
            page = self._opened.search_runs(
                [self._experiment_id],
                max_results=1000,
                order_by=["attributes.status ASC", "attributes.start_time ASC"],  # FAILED, FINISHED, KILLED, RUNNING
                page_token=token,
            )
            for run in page:
                yield StoredRun(
                    run_id=run.info.run_id,
                    started_ms=run.info.start_time,
                    artifacts=str(run.info.artifact_uri),
                    status=run.info.status,
                    tags=run.data.tags,
                    params=run.data.params,
                    metrics=run.data.metrics,
                )
            token = page.token
            if not token:
                return

    def create(self, record: RunRecord) -> StoredRun:
        """Makes a run that holds the record's tags and nothing else."""
        started_ms = int((time.time() - record.seconds) * 1000)
        with _refusals():
            run = self._opened.create_run(
                self._experiment_id, start_time=started_ms, tags=dict(record.tags), run_name=record.name
            )
        return StoredRun(run_id=run.info.run_id, started_ms=started_ms, artifacts=str(run.info.artifact_uri))

    def write(self, run: StoredRun, record: RunRecord, *, dataset: str, fingerprint: str) -> None:
        """Writes all of a record but its tags and status. Metrics have the time of the run's start: repeated after a
        failure they are the same measurements to MLflow, which keeps one."""
        single = {name: [(0, value)] for name, value in record.metrics.items()}
        metrics = [
            Metric(name, value, run.started_ms, step)
            for name, points in {**single, **record.histories}.items()
            for step, value in points
        ]
        params = [Param(name, value) for name, value in record.params.items()]
        with _refusals():
            while metrics or params:
                self._opened.log_batch(run.run_id, metrics=metrics[:METRICS_A_BATCH], params=params[:ITEMS_A_BATCH])
                metrics, params = metrics[METRICS_A_BATCH:], params[ITEMS_A_BATCH:]
            for name, text in record.texts.items():
                self.write_file(run, name, text.encode())
            data = Dataset(
                name=dataset[-NAME_LIMIT:],
                digest=fingerprint[:DIGEST_LIMIT],
                source_type="crowdsweep",
                source=dataset,
            )
            training = DatasetInput(data, [InputTag("mlflow.data.context", "training")])
            self._opened.log_inputs(run.run_id, datasets=[training])

    def summarise(self, run_id: str, metrics: Mapping[str, float], *, step: int, tags: Mapping[str, str]) -> None:
        """Writes a cell's numbers as they stand now, and tags."""
        now_ms = int(time.time() * 1000)
        values = [Metric(name, value, now_ms, step) for name, value in metrics.items()]
        with _refusals():
            for first in range(0, len(values), METRICS_A_BATCH):
                self._opened.log_batch(
                    run_id,
                    metrics=values[first : first + METRICS_A_BATCH],
                    tags=[RunTag(name, value) for name, value in tags.items()],
                )

    def write_file(self, run: StoredRun, name: str, content: bytes) -> None:
        """Writes an artifact of the run."""
        folder = artifact_folder(self._uri)
        if folder is not None and run.artifacts.startswith("file:"):
            # where MLflow itself would put it, without its 8 ms of looking the place up
            write_inside(folder, run.artifacts, name, content)
            return
        with TemporaryDirectory() as place:
            path = Path(place, name)
            path.write_bytes(content)
            self._opened.log_artifact(run.run_id, str(path))

    def tag(self, run_id: str, name: str, value: str) -> None:
        """Sets a tag."""
        self._opened.set_tag(run_id, name, value)

    def end(self, run_id: str, status: str) -> None:
        """Ends a run."""
        self._opened.set_terminated(run_id, status)

    def delete(self, run_id: str) -> None:
        """Deletes a run; MLflow keeps it among the deleted ones."""
        self._opened.delete_run(run_id)

    def close(self) -> None:
        """Leaves a database as one file, which can be copied."""
        if self._database is not None:
            self._database.rest()

    @property
    def _opened(self) -> MlflowClient:
        if self._client is None:
            raise RuntimeError("the experiment was not opened")
        return self._client


@contextmanager
def _refusals() -> Generator[None]:
    """Tells what MLflow will never take from what it cannot take now."""
    try:
        yield
    except MlflowException as error:
        if error.error_code == _BEYOND_REPAIR:
            raise Rejected(str(error)) from error
        raise


def _make_database(uri: str) -> None:
    """Makes a new sqlite database under another name, and gives it its own when it is whole.

    A driver that is killed while MLflow makes its tables would leave some of them, and MLflow can neither use nor
    complete such a database.
    """
    database = database_file(uri)
    if database is None:
        return
    _remove_drafts(database)
    if database.exists():
        return
    draft = database.with_name(f"{database.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    MlflowClient(sqlite_uri(draft)).search_experiments(max_results=1)
    draft.replace(database)


def _remove_drafts(database: Path) -> None:
    """Removes what processes left that were killed while they made this database."""
    for path in database.parent.glob("*.new*"):
        if made_by := re.fullmatch(rf"{re.escape(database.name)}\.(\d{{1,9}})\.new(-journal|-wal|-shm)?", path.name):
            try:
                os.kill(int(made_by[1]), 0)
            except ProcessLookupError:
                path.unlink(missing_ok=True)
            except OSError:  # somebody else's process
                continue
