"""Files of runs beside a sqlite database: written there and nowhere else, and found there when the store was moved."""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from crowdsweep.files.drafts import write_below
from crowdsweep.files.inside import LinkInTheWay
from crowdsweep.tracking.background import Rejected

_PATIENCE_S = 5.0
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_ONE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: it lacks a table
_OF_MODELS = (
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


class DatabaseBusy(OSError):
    """Another program is writing a database, which is whole."""


class NoDatabase(OSError):
    """A file is no database of MLflow's, or a damaged one."""


def bring_along(database: Path, folder: str) -> None:
    """Has every experiment whose artifacts lie in files, its runs and its models point to the folder beside the
    database.

    MLflow keeps absolute places: those of a store that was moved or copied lead to where it lay before.

    Args:
        database: a sqlite file of MLflow.
        folder: URI of where artifacts of a new experiment go.

    Raises:
        DatabaseBusy: another program is writing it.
        NoDatabase: it is not one.
        OSError: it cannot be read or written.
    """
    with _named_errors(database):
        _point_to(database, folder)


def _point_to(database: Path, folder: str) -> None:
    with closing(sqlite3.connect(database, timeout=_PATIENCE_S)) as rows, rows:
        known = rows.execute("SELECT experiment_id, artifact_location FROM experiments").fetchall()
        for experiment, location in known:
            if location == folder or not location.startswith("file:") or not location.endswith("/mlartifacts"):
                continue
            rows.execute("UPDATE experiments SET artifact_location = ? WHERE experiment_id = ?", (folder, experiment))
            rows.execute(
                "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) "
                "WHERE experiment_id = ? AND substr(artifact_uri, 1, ?) = ?",
                (folder, len(location) + 1, experiment, len(location), location),
            )
            for table, column in _OF_MODELS:
                rows.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",  # noqa: S608 - our own words
                    (folder, len(location) + 1, len(location) + 1, location + "/"),
                )


@contextmanager
def _named_errors(database: Path) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # without what an extended one adds
        if code in _BUSY:
            raise DatabaseBusy(
                f"{database}: another program is writing it, and has not ended within {_PATIENCE_S:g} s"
            ) from error
        kind = NoDatabase if code in _NOT_ONE else OSError
        raise kind(f"{database}: cannot be used as MLflow's database: {error}") from error


def experiment_in(database: Path, name: str, tag: str) -> tuple[str, bool] | None:
    """Returns the id of an experiment, and whether it has a tag; None where there is no such experiment.

    Args:
        database: a sqlite file of MLflow, which can be read.
        name: of the experiment.
        tag: of it.

    Raises:
        OSError: as `bring_along`.
    """
    with _named_errors(database), closing(sqlite3.connect(database, timeout=_PATIENCE_S)) as rows:
        found = rows.execute(
            "SELECT experiment_id, EXISTS (SELECT 1 FROM experiment_tags AS t "
            "WHERE t.experiment_id = e.experiment_id AND t.key = ?) FROM experiments AS e WHERE name = ?",
            (tag, name),
        ).fetchone()
    return None if found is None else (str(found[0]), bool(found[1]))


def write_inside(folder: str, artifacts: str, name: str, content: bytes) -> None:
    """Writes a file of a run whose artifacts lie in files.

    Args:
        folder: URI of the folder that it must lie beside; nothing is written through a link below that one's parent.
        artifacts: URI of the run's folder.
        name: of the file.
        content: all of it.

    Raises:
        Rejected: it would lie elsewhere.
    """
    path, beside = _path(artifacts) / name, _path(folder).absolute().parent
    roots = [root for root in (beside, beside.resolve()) if path.is_relative_to(root)]
    parts = path.relative_to(roots[0]).parts if roots else ()
    if not parts or not set(parts).isdisjoint({"..", "."}):
        raise Rejected(f"{path}: expected artifacts beside the database, below {_path(folder)}")
    try:
        write_below(beside, parts, content)
    except LinkInTheWay as error:
        raise Rejected(
            f"{path}: expected artifacts beside the database, below {_path(folder)}; {error.strerror}"
        ) from error


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
