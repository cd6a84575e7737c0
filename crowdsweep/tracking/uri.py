"""Where MLflow runs go: the tracking URI and what follows from it."""

import os
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from crowdsweep.errors import BadInput

_REACH_S = 5.0
_SECRET = re.compile("password|passwd|pwd|secret|token|key", re.IGNORECASE)


def tracking_uri(store: str | Path, uri: str | None = None) -> str:
    """Returns where runs go: `uri`, else MLFLOW_TRACKING_URI, else a database in the store's folder.

    Raises:
        BadInput: the store is no local folder, and nothing says where else.
    """
    chosen = uri or os.environ.get("MLFLOW_TRACKING_URI")
    if chosen:
        return chosen
    if "://" in str(store):
        raise BadInput(
            f"tracking: no database can live in {store}; give tracking.uri or MLFLOW_TRACKING_URI (a tracking server), "
            f"or set tracking.enabled to false"
        )
    return f"sqlite:///{Path(store).absolute() / 'mlflow.db'}"


def without_credentials(uri: str) -> str:
    """Returns a tracking URI that may be shown and journalled: without a user's name and password."""
    parts = urlsplit(uri)
    query = "&".join(pair for pair in parts.query.split("&") if not _SECRET.search(pair.partition("=")[0]))
    if "@" not in parts.netloc and query == parts.query:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query))


@contextmanager
def discreet(uri: str) -> Generator[None]:
    """Passes errors on, but for one that cites a URI with a password: MLflow's do, and errors are logged.

    Raises:
        ConnectionError: in place of such an error, with its words and without the password.
    """
    try:
        yield
    except Exception as error:
        public = without_credentials(uri)
        if public == uri or uri not in str(error):
            raise
        raise ConnectionError(str(error).replace(uri, public)) from None


def log_in(uri: str) -> str:
    """Moves the name and password of a tracking server's URI to where MLflow looks for them; returns the URI without.

    MLflow's own errors cite the URI that it was given, and they are logged.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or parts.username is None:
        return uri
    os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(parts.username)
    os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(parts.password or "")
    return without_credentials(uri)


def database_file(uri: str) -> Path | None:
    """Returns the sqlite file that a tracking URI means; None where it means something else."""
    database = uri.removeprefix("sqlite:///").partition("?")[0]
    return None if not uri.startswith("sqlite:///") or database in ("", ":memory:") else Path(database).absolute()


def artifact_folder(uri: str) -> str | None:
    """Where the artifacts of a new experiment go: beside a database file; anywhere else MLflow knows better."""
    database = database_file(uri)
    return None if database is None else (database.parent / "mlartifacts").as_uri()


def check_reachable(uri: str) -> None:
    """Fails within seconds where nobody listens; MLflow's own client tries for minutes first.

    Raises:
        OSError: no connection.
    """
    parts = urlsplit(uri)
    if parts.scheme in ("http", "https") and parts.hostname:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname, port), timeout=_REACH_S).close()
        except OSError as error:
            raise ConnectionError(f"no tracking server answers at {parts.hostname}:{port}: {error}") from error
