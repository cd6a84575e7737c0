"""Where MLflow runs go: the tracking URI and what follows from it."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from crowdsweep.errors import BadInput
from crowdsweep.record.store_uri import Store

DATABASE = "mlflow.db"
"""Name of a store's own database."""
HIDDEN = "***"
"""Stands in a tracking URI that is shown for what could be a secret."""

_SHORTEST_SECRET = 3
_BETWEEN = re.compile("[?#;&]|=|%3[bd]|%26", re.IGNORECASE)
_SECRET = re.compile("password|passwd|pwd|secret|token|key|=|[A-Za-z0-9_-]{32,}", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z\d+.-]*")
_DATABASE_NAME = re.compile(r"[A-Za-z_][\w.-]{0,62}")
_PARTS_OF_SERVERS = frozenset({"", HIDDEN, "api", "ml", "mlflow", "mlruns", "proxy", "server", "tracking", "ui"})
"""Parts of a server's path that are known to be names: whatever else stands there may be what lets one in."""
_FILES = ("sqlite", "file")
DATABASES = ("postgresql", "postgres", "mysql", "mssql")
"""Kinds of databases on a server."""


def tracking_uri(store: str | Store, uri: str | None = None) -> str:
    """Returns where runs go: `uri`, else MLFLOW_TRACKING_URI, else a database in the store's folder.

    A record keeps a URI without its secrets: where the variable says the same place with them, it is the variable's.

    Raises:
        BadInput: the store is no local folder, or its database is a link, and nothing says where else; or the URI is a
            recorded one that lacks a part.
    """
    given = os.environ.get("MLFLOW_TRACKING_URI")
    chosen = given if uri and given and without_credentials(given) == uri else uri or given
    if chosen and HIDDEN in chosen:
        raise BadInput(
            f"tracking: expected a whole URI, got {without_credentials(chosen)}, as the record keeps it, without what "
            f"could be a secret; give the whole one as MLFLOW_TRACKING_URI, or to `mirror` as --uri"
        )
    if chosen:
        return chosen
    if not has_place(store, uri):
        raise BadInput(
            f"tracking: no database can live in {store}; give tracking.uri or MLFLOW_TRACKING_URI (a tracking server), "
            f"or set tracking.enabled to false"
        )
    database = whole(str(store)) / DATABASE
    if database.is_symlink():
        raise BadInput(f"{database}: expected a file of the store, got a link; remove it, or give tracking.uri")
    return sqlite_uri(database)


def has_place(store: str | Store, uri: str | None = None) -> bool:
    """Whether runs have somewhere to go: no database lives in an object store, so of a sweep there it must be said."""
    return bool(uri or os.environ.get("MLFLOW_TRACKING_URI")) or "://" not in str(store)


def recorded_uri(store: str | Store, config: Mapping[str, Any]) -> str:
    """As `tracking_uri`, of the sweep file that a record keeps. A record may be somebody else's: no file is made where
    it says alone.

    Raises:
        BadInput: as `tracking_uri`; or it names a database elsewhere that is not there.
    """
    uri = tracking_uri(store, config.get("tracking", {}).get("uri"))
    file = database_file(uri)
    if file is not None and not file.exists() and file.parent != whole(str(store)):
        raise BadInput(
            f"tracking: expected the database {file}, which the record of {store} names, and found none there; to have "
            f"it made, run the sweep, or name it yourself: `mirror` --uri {shlex.quote(uri)}"
        )
    return uri


def whole(folder: str | Path) -> Path:
    """Returns the absolute path of a folder without `..`, as places of artifacts are compared with it: where there is
    one, links before it are followed, as the system does."""
    path = Path(folder).absolute()
    return path.resolve() if ".." in path.parts else path


def sqlite_uri(path: Path) -> str:
    """Returns the tracking URI of a sqlite file; what would end the path in a URI is escaped."""
    return "sqlite:///" + str(path).replace("%", "%25").replace("?", "%3F")


def without_credentials(uri: str) -> str:
    """Returns a tracking URI that may be shown and journalled: its scheme, its host, and what is known to be a name: a
    path of this machine, a database, the usual parts of a server's path. `***` stands for other parts of a path; names
    and passwords before an `@`, queries, fragments and parameters are left out.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _bare(uri)
    if not _SCHEME.fullmatch(scheme):
        scheme = HIDDEN
    kind = scheme.partition("+")[0].lower()
    if kind in _FILES:
        place = rest.partition("?")[0] if kind == "sqlite" else _before_marks(rest)  # a # is a letter of sqlite's path
        return f"{scheme}://{place if place.startswith('/') else place.rpartition('@')[2]}"
    host, slash, path = _before_marks(rest.rpartition("@")[2]).partition("/")
    parts = path.split("/")
    if kind in DATABASES:
        named = _DATABASE_NAME.fullmatch(parts[0]) and not _SECRET.search(parts[0])
        shown = [parts[0] if named or parts[0] in ("", HIDDEN) else HIDDEN, *(HIDDEN for _ in parts[1:])]
    else:
        shown = [part if part in _PARTS_OF_SERVERS else HIDDEN for part in parts]
    return f"{scheme}://{_host(host)}{slash}{'/'.join(shown)}"


def _bare(uri: str) -> str:
    """As `without_credentials`, of what has no `://`: a path, a word that MLflow knows, or a mistake."""
    text = _before_marks(uri.rpartition("@")[2])
    scheme, colon, path = text.partition(":")
    if colon and not (scheme in _FILES and path.startswith("/")):
        return _host(text)
    name, equals, _ = text.partition("=")
    return f"{name}={HIDDEN}" if equals else text


def _host(text: str) -> str:
    """Returns a host and its port; what stands where a port should is none that may be shown."""
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or port.isdigit():
        return text
    return f"{name.partition(':')[0]}:{HIDDEN}"


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
    scheme, _, rest = uri.partition("://")
    if not rest or not _SCHEME.fullmatch(scheme):
        rest = uri
    parts: set[str] = set()
    for form in (rest, unquote(rest)):
        parts |= {form.rpartition("@")[0], *_BETWEEN.split(form)[1:], *form.split("/")}
    parts |= {part for text in tuple(parts) for part in (text.partition(":")[2], text.partition("=")[2])}
    parts |= {text.removesuffix(":") for text in tuple(parts)}  # a token in the place of a name
    parts |= {unquote(part) for part in parts}
    return {part for part in parts if len(part) >= _SHORTEST_SECRET and part not in public}


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
    path = Path(unquote(database))
    return whole(path.parent) / path.name
