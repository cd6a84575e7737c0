"""The tracking URI, which says where MLflow runs go, and what follows from it."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from crowdsweep.errors import BadInput
from crowdsweep.record.shown_uri import HIDDEN, without_credentials
from crowdsweep.record.store_uri import Store

DATABASE = "mlflow.db"
"""File name of a store's own database."""


def tracking_uri(store: Store, uri: str | None = None) -> str:
    """Returns the URI that runs go to: `uri`, else MLFLOW_TRACKING_URI, else a database in the store's folder.

    A record keeps a URI without its secrets. Where the variable names the same place with secrets, its value is used.

    Raises:
        BadInput: no URI is given, and the store is not a local folder or its database is a link; or the URI is a
            recorded one whose secrets are hidden.
    """
    given = os.environ.get("MLFLOW_TRACKING_URI")
    chosen = given if uri and given and without_credentials(given) == uri else uri or given
    if chosen and HIDDEN in chosen:
        raise BadInput(
            f"tracking: expected a complete URI, got {without_credentials(chosen)}, as in the record, which leaves out "
            f"possible secrets; give the complete URI as MLFLOW_TRACKING_URI, or to `mirror` as --uri"
        )
    if chosen:
        return chosen
    if not isinstance(store, Path):
        raise BadInput(
            f"tracking: MLflow's database cannot be stored in {store}; give tracking.uri or MLFLOW_TRACKING_URI (a "
            f"tracking server), or set tracking.enabled to false"
        )
    database = whole(store) / DATABASE
    if database.is_symlink():
        raise BadInput(f"{database}: expected a file of the store, got a link; remove it, or give tracking.uri")
    return sqlite_uri(database)


def has_place(store: Store, uri: str | None = None) -> bool:
    """Whether runs have a place to go to: an object store cannot hold a database, so a sweep there needs a URI."""
    return bool(uri or os.environ.get("MLFLOW_TRACKING_URI")) or isinstance(store, Path)


def recorded_uri(store: Store, config: Mapping[str, Any], given: str | None = None) -> str:
    """Returns `tracking_uri` of the given URI, else of the one in the recorded sweep file. The record may be somebody
    else's: a database that only the record names must exist already, unless it is in the store's folder.

    Raises:
        BadInput: as in `tracking_uri`; or the record names a database elsewhere that does not exist.
    """
    if given:
        return tracking_uri(store, given)
    uri = tracking_uri(store, config.get("tracking", {}).get("uri"))
    file = database_file(uri)
    if file is not None and not file.exists() and not (isinstance(store, Path) and file.parent == whole(store)):
        raise BadInput(
            f"tracking: expected the database {file}, which the record of {store} names, and found none there; to "
            f"create it, run the sweep, or name it: `mirror` --uri {shlex.quote(uri)}"
        )
    return uri


def whole(folder: Path) -> Path:
    """Returns the absolute path of a folder without `..`, to compare with artifact locations. Where the path has a
    `..`, links before it are resolved, as the system does."""
    path = folder.absolute()
    return path.resolve() if ".." in path.parts else path


def sqlite_uri(path: Path) -> str:
    """Returns the tracking URI of a sqlite file; characters that would end the path in a URI are escaped."""
    return "sqlite:///" + str(path).replace("%", "%25").replace("?", "%3F")


def log_in(uri: str) -> str:
    """Moves the name and password of a tracking server's URI to MLflow's environment variables; returns the URI without
    them.

    MLflow's own errors quote the URI that it was given, and they are logged.
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
    """Returns the sqlite file that a tracking URI names; None where it names something else."""
    database = uri.removeprefix("sqlite:///").partition("?")[0]
    if not uri.startswith("sqlite:///") or database in ("", ":memory:"):
        return None
    path = Path(unquote(database))
    return whole(path.parent) / path.name
