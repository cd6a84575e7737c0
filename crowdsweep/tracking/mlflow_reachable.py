"""Checks within seconds whether MLflow's server or database answers; MLflow's own client retries for minutes."""

import json
import math
import os
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

os.environ.setdefault("PGCONNECT_TIMEOUT", "7")  # seconds; only PostgreSQL's library reads it

import sqlalchemy
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.utils.credentials import get_default_host_creds
from mlflow.utils.rest_utils import http_request
from sqlalchemy.pool import NullPool

from crowdsweep.errors import BadInput
from crowdsweep.paths import is_folder, lexists
from crowdsweep.record.shown_uri import DATABASES, without_credentials
from crowdsweep.tracking.mlflow_failures import TrackingFailed, of_status, translated_errors
from crowdsweep.tracking.uri import database_file

PATIENCE_S = 7.0
"""Seconds to wait for an answer."""

_CONNECTS_S = 5.0
_ARTIFACTS_S = 20.0  # a server asks its object store in turn, after it has imported a client
_LOCK = 0x63726F77  # any number that other programs do not use
_NOTHING = "nothing-is-here"  # listing an empty place is fast
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433, "http": 80, "https": 443}
_ASKED = "/api/2.0/mlflow/experiments/search?max_results=1"


def check_reachable(uri: str) -> None:
    """Sends a small request to a tracking server, connects to a database server, or opens a sqlite file.

    Args:
        uri: MLflow's tracking URI; other kinds of places are not checked.

    Raises:
        TrackingFailed: the server does not answer, or not as it should; or the file cannot be opened.
        BadInput: the URI is not valid.
    """
    if (file := database_file(uri)) is not None and is_folder(file.parent):
        _open_file(file)
    kind = uri.partition(":")[0].partition("+")[0].lower()
    if kind not in (*DATABASES, "http", "https"):
        return
    within_patience(uri, lambda: (_ask_server if kind.startswith("http") else _ask_database)(uri))


def check_tables(uri: str) -> None:
    """Checks that a database on a server has MLflow's tables.

    Raises:
        TrackingFailed: the database does not answer, or lacks the tables.
    """

    def ask() -> None:
        with _connected(uri) as connection:
            has = sqlalchemy.inspect(connection).has_table
            if not (has("alembic_version") and has("experiments") and has("runs")):
                raise TrackingFailed("it has no runs of MLflow")

    within_patience(uri, ask)


@contextmanager
def alone_on(uri: str) -> Generator[None]:
    """Keeps other drivers out of a PostgreSQL database while MLflow may create its tables; does nothing elsewhere.

    Two drivers that create the tables at once fail, and leave tables that MLflow can neither use nor complete.

    Raises:
        TrackingFailed: the database does not answer.
    """
    if not uri.startswith("postgresql"):
        yield
        return
    with _connected(uri) as connection:
        # The lock ends with this transaction: it outlives neither a driver that is killed nor a pooled connection.
        connection.execute(sqlalchemy.text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        yield


def check_artifacts(uri: str, asked: str, location: str) -> None:
    """Sends a small request to the place of an experiment's artifacts; folders are not checked.

    Args:
        uri: MLflow's tracking URI as it was given, for messages.
        asked: the same URI as it is passed to MLflow.
        location: the experiment's artifact location, in an object store or at the server.

    Raises:
        TrackingFailed: the place does not answer, or may not be read.
    """
    scheme = urlsplit(location).scheme
    if scheme in ("", "file"):
        return

    def ask() -> None:
        get_artifact_repository(location, tracking_uri=asked).list_artifacts(_NOTHING)

    try:
        within_patience(uri, ask, _ARTIFACTS_S)
    except TrackingFailed as error:
        raise TrackingFailed(f"artifacts at {scheme}://{urlsplit(location).netloc}: {error}") from None


def within_patience(uri: str, ask: Callable[[], object], patience_s: float | None = None) -> None:
    """Makes a call that may hang or raise anything, and waits for a limited time.

    Raises:
        TrackingFailed: the call failed, or did not end in time.
        CrowdsweepError: the call raised an error of the project.
    """
    patience_s = PATIENCE_S if patience_s is None else patience_s
    failed: list[Exception] = [TrackingFailed(f"the server does not answer within {patience_s:g} s")]

    def tried() -> None:
        try:
            with translated_errors(uri):
                ask()
            failed.clear()
        except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
            failed[:] = [error]

    thread = threading.Thread(target=tried, daemon=True)  # drivers and name servers may not keep a time limit
    thread.start()
    thread.join(patience_s)
    if failed:
        raise failed[0]


def _open_file(file: Path) -> None:
    try:
        with file.open("r+b") if lexists(file) else TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise TrackingFailed(f"{file}: the file cannot be opened ({error.strerror})") from error


def _ask_server(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError:
        host, port = None, 0
    if not host:
        raise BadInput(f"tracking: expected a URI such as http://host:5000, got {without_credentials(uri)!r}")
    _connect(host, port, "no tracking server answers")
    answer = http_request(
        get_default_host_creds(uri), _ASKED, "GET", max_retries=0, timeout=math.ceil(PATIENCE_S), raise_on_status=False
    )
    if answer is None:
        raise TrackingFailed("the server gives no answer")
    asks_again = answer.status_code >= 500 or answer.status_code == 429  # MLflow's client would retry for minutes
    if asks_again or (answer.status_code in (401, 404) and not _is_mlflows(answer.text)):
        raise TrackingFailed(of_status(answer.status_code))
    if answer.status_code == 200 and not _is_mlflows(answer.text):
        raise TrackingFailed("it answers, but not as an MLflow server; is the address right?")


def _is_mlflows(text: str) -> bool:
    try:
        return isinstance(json.loads(text or "{}"), dict)
    except ValueError:
        return False


def _ask_database(uri: str) -> None:
    with _connected(uri):
        pass


@contextmanager
def _connected(uri: str) -> Generator[sqlalchemy.Connection]:
    url = sqlalchemy.make_url(uri)
    url.get_dialect().import_dbapi()
    if url.host:
        port = url.port or _PORTS.get(url.get_backend_name(), 0)
        _connect(url.host, port, "no database answers")
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    try:
        connection = engine.connect()
        try:
            yield connection
        finally:
            connection.close()
    finally:
        engine.dispose()


def _connect(host: str, port: int, words: str) -> None:
    try:
        socket.create_connection((host, port), timeout=_CONNECTS_S).close()
    except OSError as error:
        raise TrackingFailed(f"{words} at {host}:{port}: {error}") from error
