"""Access to the one MLflow experiment that a sweep writes to, in the project's own types and errors.

Importing mlflow takes about 2.5 s, so callers import this module only when they need it. It uses only the client
interface with run ids, because MLflow's fluent interface keeps its state in the process.
"""

import logging
import os
import re
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # only mlflow reads these, the first one on import
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # the default of 7 takes minutes; we retry ourselves
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")  # seconds; the default of 120 is too long
os.environ.setdefault("AWS_MAX_ATTEMPTS", "2")  # for MLflow's S3 client

from mlflow import MlflowClient
from mlflow.entities import (
    Dataset,
    DatasetInput,
    Experiment,
    InputTag,
    LifecycleStage,
    LoggedModelOutput,
    LoggedModelStatus,
    Metric,
    Param,
    RunTag,
)
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.tracking.artifact_files import WriteInside, relocate_artifacts, writing_inside
from crowdsweep.tracking.artifact_places import FOLDER, is_inside
from crowdsweep.tracking.mlflow_failures import TrackingFailed, translated_errors
from crowdsweep.tracking.mlflow_reachable import alone_on, check_artifacts, check_reachable
from crowdsweep.tracking.run_book import StoredRun
from crowdsweep.tracking.run_records import DIGEST_LIMIT, ITEMS_A_BATCH, METRICS_A_BATCH, NAME_LIMIT, STORE, RunRecord
from crowdsweep.tracking.sqlite_file import SqliteFile
from crowdsweep.tracking.sweep_page import KIND_OF_EXPERIMENT, view
from crowdsweep.tracking.uri import DATABASE, database_file, log_in, sqlite_uri

__all__ = ["MlflowClient", "MlflowConnection"]

_log = logging.getLogger(__name__)
if "MLFLOW_LOGGING_LEVEL" not in os.environ:
    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it logs each table that it creates
    for told_by_us in ("mlflow.store.db.utils", "urllib3.connectionpool"):  # they log failures that we report
        logging.getLogger(told_by_us).setLevel(logging.CRITICAL)

_EXISTS = "RESOURCE_ALREADY_EXISTS"


class MlflowConnection:
    """One MLflow experiment as a `RunBook` uses it, in the project's own types and errors.

    Every method may raise `Rejected`, for what MLflow will never accept, and `TrackingFailed`.
    """

    def __init__(self, uri: str, experiment: str) -> None:
        self._given = uri
        self._uri = log_in(uri)
        self._path = database_file(self._uri)
        self._database = SqliteFile(self._path) if self._path else None
        self._experiment = experiment
        self._experiment_id = ""
        self._client: MlflowClient | None = None
        self._asked_at: float | None = None

    @property
    def waiting_s(self) -> float:
        """Seconds since the request that MLflow has not answered yet; 0 where there is none."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else time.monotonic() - asked_at

    @property
    def place(self) -> tuple[str, str]:
        """Tracking URI without credentials, and the experiment's id."""
        return without_credentials(self._uri), self._experiment_id

    def open(self) -> None:
        """Connects, and creates the experiment where it is missing; may be repeated."""
        with self._translated_errors():
            self._client = self._connected()

    def _connected(self) -> MlflowClient:
        check_reachable(self._uri)
        # SQLAlchemy warns about MLflow's own tables. Not `catch_warnings`: it would undo filters of other threads.
        warnings.filterwarnings("ignore", message="The ``noload`` loader strategy is deprecated")
        folder = None
        if self._database is not None and self._path is not None:
            folder = self._path.with_name(FOLDER).as_uri()
            _make_database(self._path)
            relocate_artifacts(
                self._path, whole=is_of_store(self._path)
            )  # first: it checks that this is an MLflow database
            self._database.hasten()
        # Without an explicit registry, MLflow would use that of this process or of its working directory.
        registry = os.environ.get("MLFLOW_REGISTRY_URI") or self._uri
        with alone_on(self._uri):  # the client creates the tables of an empty database
            client = MlflowClient(self._uri, registry_uri=registry)
        found = client.get_experiment_by_name(self._experiment) or self._created(client, folder)
        self._experiment_id = found.experiment_id
        if found.lifecycle_stage == LifecycleStage.DELETED:
            _log.warning("MLflow: experiment %r had been deleted and is restored", self._experiment)
            client.restore_experiment(found.experiment_id)
        if self._database is None:
            check_artifacts(self._given, self._uri, str(found.artifact_location))
        return client

    def _created(self, client: MlflowClient, folder: str | None) -> Experiment:
        """Creates the experiment and returns it; another sweep may create it at the same time."""
        try:
            client.create_experiment(
                self._experiment, artifact_location=folder, tags={**KIND_OF_EXPERIMENT, **view(())}
            )
        except MlflowException as error:
            if error.error_code != _EXISTS:
                raise
        found = client.get_experiment_by_name(self._experiment)
        if found is None:
            raise TrackingFailed(f"it has made the experiment {self._experiment!r} and does not find it")
        return found

    def runs(self, where: str = "") -> Iterator[StoredRun]:
        """Yields all runs of the experiment, or those that match an MLflow filter; runs that have ended come first."""
        token = None
        while True:
            with self._asked() as client:
                page = client.search_runs(
                    [self._experiment_id],
                    filter_string=where,
                    max_results=1000,
                    order_by=["attributes.status ASC", "attributes.start_time ASC"],  # FAILED, FINISHED, KILLED, …
                    page_token=token,
                )
            for run in page:
                yield StoredRun(
                    run_id=run.info.run_id,
                    started_ms=_whole(run.info.start_time),
                    artifacts=str(run.info.artifact_uri),
                    status=run.info.status,
                    tags=_texts(run.data.tags),
                    params=_texts(run.data.params),
                    metrics=_numbers(run.data.metrics),
                )
            token = page.token
            if not token:
                return

    def running(self, store: str) -> Iterator[StoredRun]:
        """Yields the runs tagged with a store that have not ended."""
        yield from self.runs(f"attributes.status = 'RUNNING' AND tags.`{STORE}` = '{store}'")

    def create(self, record: RunRecord) -> StoredRun:
        """Creates a run that holds the record's tags and nothing else."""
        started_ms = int((time.time() - record.seconds) * 1000)
        with self._asked() as client:
            run = client.create_run(
                self._experiment_id, start_time=started_ms, tags=dict(record.tags), run_name=record.name
            )
        return StoredRun(run_id=run.info.run_id, started_ms=started_ms, artifacts=str(run.info.artifact_uri))

    def write(self, run: StoredRun, record: RunRecord) -> None:
        """Writes a record except its tags, files and status. Metrics carry the time of the run's start: when a write is
        repeated after a failure, MLflow sees the same measurements and keeps one."""
        single = {name: [(0, value)] for name, value in record.metrics.items()}
        metrics = [
            Metric(name, value, run.started_ms, step)
            for name, points in {**single, **record.histories}.items()
            for step, value in points
        ]
        params = [Param(name, value) for name, value in record.params.items()]
        with self._asked() as client:
            while metrics or params:
                client.log_batch(run.run_id, metrics=metrics[:METRICS_A_BATCH], params=params[:ITEMS_A_BATCH])
                metrics, params = metrics[METRICS_A_BATCH:], params[ITEMS_A_BATCH:]
            data = Dataset(
                name=record.dataset[-NAME_LIMIT:],
                digest=record.fingerprint[:DIGEST_LIMIT],
                source_type="crowdsweep",
                source=record.dataset,
            )
            training = DatasetInput(data, [InputTag("mlflow.data.context", "training")])
            client.log_inputs(run.run_id, datasets=[training])

    def summarise(self, run_id: str, metrics: Mapping[str, float], *, step: int, tags: Mapping[str, str]) -> None:
        """Writes a cell's current metrics, and tags."""
        now_ms = int(time.time() * 1000)
        values = [Metric(name, value, now_ms, step) for name, value in metrics.items()]
        with self._asked() as client:
            for first in range(0, max(len(values), 1), METRICS_A_BATCH):
                client.log_batch(
                    run_id,
                    metrics=values[first : first + METRICS_A_BATCH],
                    tags=[RunTag(name, value) for name, value in tags.items()],
                )

    def write_files(self, files: Iterable[tuple[StoredRun, str, bytes]]) -> None:
        """Writes artifacts of runs, over those that exist."""
        write: WriteInside | None = None
        with self._asked() as client, ExitStack() as stack:
            for run, name, content in files:
                if (database := self._beside(run.artifacts)) is None:
                    self._send(client, run, name, content)
                    continue
                write = write or stack.enter_context(writing_inside(database))
                write(run.artifacts, name, content)  # saves MLflow's lookup, 8 ms

    def _send(self, client: MlflowClient, run: StoredRun, name: str, content: bytes) -> None:
        with TemporaryDirectory() as place:
            path = Path(place, name)
            path.write_bytes(content)
            if self._uri.startswith("databricks"):  # its client knows more than the run tells
                client.log_artifact(run.run_id, str(path))
            else:  # saves a request for the run
                get_artifact_repository(run.artifacts, tracking_uri=self._uri).log_artifact(str(path))

    def files(self, run: StoredRun) -> dict[str, int]:
        """Returns the sizes of the run's artifacts in bytes, by name and without folders."""
        with self._asked() as client:
            return {
                file.path: int(file.file_size or 0) for file in client.list_artifacts(run.run_id) if not file.is_dir
            }

    def tag(self, run_id: str, name: str, value: str) -> None:
        """Sets a tag."""
        with self._asked() as client:
            client.set_tag(run_id, name, value)

    def rename(self, run_id: str, name: str) -> None:
        """Gives a run another name."""
        with self._asked() as client:
            client.update_run(run_id, name=name)

    def mark(self, tags: Mapping[str, str]) -> None:
        """Sets tags of the experiment."""
        with self._asked() as client:
            known = client.get_experiment(self._experiment_id).tags
            for name, value in tags.items():
                if known.get(name) != value:
                    client.set_experiment_tag(self._experiment_id, name, value)

    def model_of(self, run_id: str, tag: str, value: str) -> str | None:
        """Returns the id of a run's complete logged model that has this tag; None where there is none."""
        with self._asked() as client:
            for model in client.search_logged_models([self._experiment_id], f"tags.`{tag}` = '{value}'"):
                if model.source_run_id == run_id and model.status == LoggedModelStatus.READY:
                    return model.model_id
        return None

    def add_model(self, run_id: str, name: str, folder: Path, tags: Mapping[str, str]) -> str:
        """Logs a model that was saved in a folder as an output of a run; returns the model's id."""
        with self._asked() as client:
            model = client.create_logged_model(self._experiment_id, name, run_id, dict(tags))
            if (database := self._beside(model.artifact_location)) is not None:
                with writing_inside(database) as write:
                    for path in sorted(folder.rglob("*")):
                        if path.is_file():
                            write(model.artifact_location, path.relative_to(folder).as_posix(), path.read_bytes())
            else:
                client.log_model_artifacts(model.model_id, str(folder))
            client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
            client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step=0)])
        return model.model_id

    def register(self, name: str, model: str, run_id: str) -> str:
        """Makes a logged model a version of a registered model, unless it already is one; returns the version."""
        with self._asked() as client:
            try:
                client.create_registered_model(name)
            except MlflowException as error:
                if error.error_code != _EXISTS:
                    raise
            source = f"models:/{model}"
            if not self._uri.startswith(("http", "databricks")):  # MLflow resolves models:/ in this process's database
                source = client.get_logged_model(model).artifact_location
            for version in client.search_model_versions(f"name = '{name}'"):
                if version.source == source:
                    return str(version.version)
            return str(client.create_model_version(name, source, run_id, model_id=model).version)

    def end(self, run_id: str, status: str) -> None:
        """Ends a run."""
        with self._asked() as client:
            client.set_terminated(run_id, status)

    def delete(self, run_id: str) -> None:
        """Deletes a run; MLflow keeps it among the deleted ones."""
        with self._asked() as client:
            client.delete_run(run_id)

    def close(self) -> None:
        """Pauses writing, with a sqlite database left as one file, which can be copied. Never raises."""
        if self._database is not None:
            self._database.rest()

    def _beside(self, artifacts: str) -> Path | None:
        """Returns the sqlite database if these artifacts are files beside it, as those of a store's own database must
        be; else None."""
        path = self._path
        if path is not None and (is_of_store(path) or is_inside(path.with_name(FOLDER), artifacts)):
            return path
        return None

    @contextmanager
    def _asked(self) -> Generator[MlflowClient]:
        if self._client is None:
            raise RuntimeError("the experiment was not opened")
        with self._translated_errors():
            yield self._client

    @contextmanager
    def _translated_errors(self) -> Generator[None]:
        self._asked_at = time.monotonic()
        try:
            with translated_errors(self._given):
                yield
        finally:
            self._asked_at = None


def is_of_store(database: Path) -> bool:
    """Whether a database is a store's own: all that it names then belongs to the store, wherever that came from."""
    return database.name == DATABASE and (database.parent / JOURNAL_FILE).is_file()


def _make_database(database: Path) -> None:
    """Creates a new sqlite database under another name, and renames it when it is complete.

    A driver that is killed while MLflow creates its tables would leave only some of them, and MLflow can neither use
    nor complete such a database.
    """
    _remove_drafts(database)
    if database.exists():
        return
    draft = database.with_name(f"{database.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    try:
        MlflowClient(sqlite_uri(draft)).search_experiments(max_results=1)
        draft.replace(database)
    except BaseException:  # most often a full disk
        for side in ("", "-journal", "-wal", "-shm"):
            draft.with_name(draft.name + side).unlink(missing_ok=True)
        raise


def _remove_drafts(database: Path) -> None:
    """Removes drafts left by processes that were killed while they created this database."""
    for path in database.parent.glob("*.new*"):
        if made_by := re.fullmatch(rf"{re.escape(database.name)}\.(\d{{1,9}})\.new(-journal|-wal|-shm)?", path.name):
            try:
                os.kill(int(made_by[1]), 0)
            except ProcessLookupError:
                path.unlink(missing_ok=True)
            except OSError:  # another user's process
                continue


def _numbers(values: Mapping[Any, Any]) -> dict[str, float]:
    """Returns the entries that have text as their name and a number as their value: sqlite may hold other types."""
    return {name: value for name, value in values.items() if isinstance(name, str) and isinstance(value, int | float)}


def _texts(values: Mapping[Any, Any]) -> dict[str, str]:
    """Returns the entries that have text as their name and as their value."""
    return {name: value for name, value in values.items() if isinstance(name, str) and isinstance(value, str)}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0
