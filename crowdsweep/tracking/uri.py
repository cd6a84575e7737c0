"""Where MLflow runs go: the tracking URI and what follows from it."""

import os
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from crowdsweep.errors import BadInput

_REACH_S = 5.0
_SHORTEST_SECRET = 3
_BETWEEN = re.compile("[?#;&]|=|%3[bd]|%26", re.IGNORECASE)
_SECRET = re.compile("password|passwd|pwd|secret|token|key|=|[A-Za-z0-9_-]{32,}", re.IGNORECASE)


def tracking_uri(store: str | Path, uri: str | None = None) -> str:
    """Returns where runs go: `uri`, else MLFLOW_TRACKING_URI, else a database in the store's folder.

    Raises:
        BadInput: the store is no local folder, or its database is a link, and nothing says where else.
    """
    chosen = uri or os.environ.get("MLFLOW_TRACKING_URI")
    if chosen:
        return chosen
    if "://" in str(store):
        raise BadInput(
            f"tracking: no database can live in {store}; give tracking.uri or MLFLOW_TRACKING_URI (a tracking server), "
            f"or set tracking.enabled to false"
        )
    database = Path(store).absolute() / "mlflow.db"
    if database.is_symlink():
        raise BadInput(f"{database}: expected a file of the store, got a link; remove it, or give tracking.uri")
    return sqlite_uri(database)


def sqlite_uri(path: Path) -> str:
    """Returns the tracking URI of a sqlite file; what would end the path in a URI is escaped."""
    return "sqlite:///" + str(path).replace("%", "%25").replace("?", "%3F")


def without_credentials(uri: str) -> str:
    """Returns a tracking URI that may be shown and journalled: where it leads, and nothing that could be a secret.

    Only what stands before the query, the fragment and any parameters is kept, without what stands before an `@`,
    and without what of a path looks like a secret.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _before_marks(uri.rpartition("@")[2])
    if scheme.startswith("sqlite"):  # a # is a letter of its path
        return f"{scheme}://{rest.partition('?')[0]}"
    if scheme.startswith("file"):
        return f"{scheme}://{rest.partition('?')[0].partition('#')[0]}"
    host, slash, path = _before_marks(rest.rpartition("@")[2]).partition("/")
    kept = [part for part in path.split("/") if not _SECRET.search(part)]
    return f"{scheme}://{host}{slash}{'/'.join(kept)}"


def _before_marks(text: str) -> str:
    return re.split("[?#;]", text, maxsplit=1)[0]


def discreetly(words: str, uri: str) -> str:
    """Returns what a library said of a tracking URI, without the secrets that may stand in it."""
    public = without_credentials(uri)
    if public == uri:
        return words
    words = words.replace(uri, public)
    for secret in sorted(_secrets(uri, public), key=len, reverse=True):
        words = words.replace(secret, "***")
    return words


def _secrets(uri: str, public: str) -> set[str]:
    """Returns every part of a URI that is not shown, as it stands and as servers decode it."""
    rest = uri.partition("://")[2] or uri
    parts: set[str] = set()
    for form in (rest, unquote(rest)):
        parts |= {form.rpartition("@")[0], *_BETWEEN.split(form)[1:], *form.split("/")}
    parts |= {part for text in tuple(parts) for part in (text.partition(":")[2], text.partition("=")[2])}
    parts |= {unquote(part) for part in parts}
    return {part for part in parts if len(part) >= _SHORTEST_SECRET and part not in public}


@contextmanager
def discreet(uri: str) -> Generator[None]:
    """Passes errors on, but for one that cites a secret of a URI: MLflow's do, and errors are logged.

    Raises:
        ConnectionError: in place of such an error, with its words and without the secret.
    """
    try:
        yield
    except Exception as error:
        told = discreetly(str(error), uri)
        if told == str(error):
            raise
        raise ConnectionError(told) from None


def log_in(uri: str) -> str:
    """Moves the name and password of a tracking server's URI to where MLflow looks for them; returns the URI without.

    MLflow's own errors cite the URI that it was given, and they are logged.
    """
    scheme, _, rest = uri.partition("://")
    named, at, place = rest.rpartition("@")
    if scheme not in ("http", "https") or not at:
        return uri
    name, _, password = named.partition(":")
    os.environ["MLFLOW_TRACKING_USERNAME"] = unquote(name)
    os.environ["MLFLOW_TRACKING_PASSWORD"] = unquote(password)
    return f"{scheme}://{place}"


def database_file(uri: str) -> Path | None:
    """Returns the sqlite file that a tracking URI means; None where it means something else."""
    database = uri.removeprefix("sqlite:///").partition("?")[0]
    if not uri.startswith("sqlite:///") or database in ("", ":memory:"):
        return None
    return Path(unquote(database)).absolute()


def artifact_folder(uri: str) -> str | None:
    """Where the artifacts of a new experiment go: beside a database file; anywhere else MLflow knows better."""
    database = database_file(uri)
    return None if database is None else (database.parent / "mlartifacts").as_uri()


def check_reachable(uri: str) -> None:
    """Fails within seconds where nobody listens; MLflow's own client tries for minutes first.

    Raises:
        OSError: no connection.
    """
    try:
        parts = urlsplit(uri)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise BadInput(f"tracking: expected a URI such as http://host:5000, got {without_credentials(uri)!r}") from None
    if parts.scheme in ("http", "https") and parts.hostname:
        try:
            socket.create_connection((parts.hostname, port), timeout=_REACH_S).close()
        except OSError as error:
            raise ConnectionError(f"no tracking server answers at {parts.hostname}:{port}: {error}") from error
