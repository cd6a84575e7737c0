"""Files of runs beside a sqlite database: written there and nowhere else, and found there when the store was moved."""

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.errors import plain, shortened
from crowdsweep.files.drafts import writing_below
from crowdsweep.files.inside import UnexpectedLink
from crowdsweep.tracking.artifact_places import (
    FOLDER,
    is_indirect,
    is_inside,
    is_within,
    path_of,
    place_in,
    relocated,
)
from crowdsweep.tracking.run_book import Rejected
from crowdsweep.tracking.run_records import KIND, MODEL_DIGEST
from crowdsweep.tracking.sweep_page import VIEW_TAG

_PATIENCE_S = 5.0
_TABLES = (
    *("alembic_version", "datasets", "experiment_tags", "experiments", "input_tags", "inputs", "latest_metrics"),
    *("logged_model_metrics", "logged_model_params", "logged_model_tags", "logged_models", "metrics"),
    *("model_version_tags", "model_versions", "params", "registered_model_tags", "registered_models", "runs", "tags"),
)
"""Of MLflow, that sweeps are written to and read from."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_ONE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: it lacks a table

WriteInside = Callable[[str, str, bytes], None]
"""Writes a file whole: URI of the artifacts that it is one of, its name with those of folders before it, all of it."""


class DatabaseBusy(OSError):
    """Another program is writing a database, which is whole."""


class NoDatabase(OSError):
    """A file is no database of MLflow's, or a damaged one."""


@dataclass(frozen=True, kw_only=True)
class _Named:
    """A row of a database that names a place of artifacts.

    Attributes:
        table, column, row: where it stands; the row by sqlite's number.
        what: it is, for messages.
        location: what it names.
        ours: whether crowdsweep wrote it.
        below: folders below that of all artifacts, where MLflow puts the artifacts of such a row; None where it could
            put them anywhere.
    """

    table: str
    column: str
    row: int
    what: str
    location: str
    ours: bool = False
    below: tuple[str, ...] | None = None


def relocate_artifacts(database: Path, *, whole: bool) -> list[str]:
    """Points the artifacts of a database to the folder beside it.

    MLflow keeps absolute places. Those of a store that was moved or copied lead to where it lay before, and those of a
    store that somebody else made may lead anywhere. What lay below a folder of this name elsewhere now lies below this
    one; what crowdsweep wrote lies where MLflow puts it; anything else is left as it is.

    Args:
        database: a sqlite file of MLflow.
        whole: whether it is a store's, all of which came along; of others only what crowdsweep wrote did.

    Returns:
        What names a place elsewhere all the same, in words: none of it may be served.

    Raises:
        DatabaseBusy: another program is writing it.
        NoDatabase: the file is no database of MLflow.
        OSError: the database cannot be read or written.
    """
    folder = database.with_name(FOLDER)
    elsewhere: list[str] = []
    came: dict[str, str] = {}
    with _named_errors(database), closing(sqlite3.connect(database, timeout=_PATIENCE_S)) as rows, rows:
        _check_are_tables(rows, database)
        for named in list(_named_places(rows)):
            if not (whole or named.ours) or is_indirect(named.location) or is_inside(folder, named.location):
                continue
            place = came.get(named.location) or relocated(folder.as_uri(), named.location)
            if place in (None, named.location) and whole and named.ours and named.below is not None:
                place = place_in(folder.as_uri(), *named.below)
            if place is None or place == named.location:  # the latter is behind a link
                elsewhere.append(f"{named.what}: {named.location}")
                continue
            came[named.location] = place
            change = f"UPDATE {named.table} SET {named.column} = ? WHERE rowid = ?"  # noqa: S608 - our own words
            rows.execute(change, (place, named.row))
    return elsewhere if whole else []


def _check_are_tables(rows: sqlite3.Connection, database: Path) -> None:
    """Refuses what MLflow never makes of the tables that are used, and what would run when they are: a view may be
    without an end, a trigger takes away what it likes.

    Raises:
        NoDatabase: there is such a thing.
    """
    asked = (
        f"SELECT type, name FROM sqlite_master WHERE lower(tbl_name) IN ({', '.join('?' * len(_TABLES))}) "  # noqa: S608 - our own words
        "AND (type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%')"
    )
    for kind, name in rows.execute(asked, _TABLES):
        what = plain(shortened(f"{kind} {name}"))
        raise NoDatabase(f"{database}: cannot be used as MLflow's database: it has a {what}, which MLflow never makes")


def _named_places(rows: sqlite3.Connection) -> Iterator[_Named]:
    """Yields every place of artifacts that a database names: models before the versions that were made of them."""
    asked = (
        "SELECT rowid, experiment_id, artifact_location, experiment_id IN "
        "(SELECT experiment_id FROM experiment_tags WHERE key = ?) OR "  # or the one that MLflow makes, with the folder
        "(experiment_id = 0 AND experiment_id NOT IN (SELECT experiment_id FROM runs)) FROM experiments"  # it stands in
    )
    for row, number, location, ours in rows.execute(asked, (VIEW_TAG,)):
        yield _Named(
            table="experiments",
            column="artifact_location",
            row=row,
            what=f"experiment {number}",
            location=str(location or ""),
            ours=bool(ours),
            below=(),
        )
    asked = (
        "SELECT rowid, run_uuid, artifact_uri, run_uuid IN (SELECT run_uuid FROM tags WHERE key = ?) FROM runs "
        "WHERE artifact_uri IS NOT NULL"
    )
    for row, run, location, ours in rows.execute(asked, (KIND,)):
        yield _Named(
            table="runs",
            column="artifact_uri",
            row=row,
            what=f"run {run}",
            location=str(location),
            ours=bool(ours),
            below=(str(run), "artifacts"),
        )
    asked = (
        "SELECT rowid, model_id, artifact_location, model_id IN "
        "(SELECT model_id FROM logged_model_tags WHERE tag_key = ?) FROM logged_models"
    )
    for row, model, location, ours in rows.execute(asked, (MODEL_DIGEST,)):
        yield _Named(
            table="logged_models",
            column="artifact_location",
            row=row,
            what=f"model {model}",
            location=str(location or ""),
            ours=bool(ours),
            below=("models", str(model), "artifacts"),
        )
    for column in ("source", "storage_location"):
        asked = f"SELECT rowid, name, version, {column} FROM model_versions WHERE {column} IS NOT NULL"  # noqa: S608 - our own words
        for row, name, version, location in rows.execute(asked):
            yield _Named(
                table="model_versions",
                column=column,
                row=row,
                what=f"version {version} of {name}",
                location=str(location),
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
    except UnicodeDecodeError as error:
        raise NoDatabase(f"{database}: cannot be used as MLflow's database: it has text that is not UTF-8") from error


def experiment_in(database: Path, name: str, tag: str) -> tuple[str, bool] | None:
    """Returns the id of an experiment, and whether it has a tag; None where there is no such experiment.

    Args:
        database: a sqlite file of MLflow, which can be read.
        name: of the experiment.
        tag: of it.

    Raises:
        OSError: as `relocate_artifacts`.
    """
    with _named_errors(database), closing(sqlite3.connect(database, timeout=_PATIENCE_S)) as rows:
        found = rows.execute(
            "SELECT experiment_id, EXISTS (SELECT 1 FROM experiment_tags AS t "
            "WHERE t.experiment_id = e.experiment_id AND t.key = ?) FROM experiments AS e WHERE name = ?",
            (tag, name),
        ).fetchone()
    return None if found is None else (str(found[0]), bool(found[1]))


@contextmanager
def writing_inside(database: Path) -> Generator[WriteInside]:
    """Yields what writes files of runs, or of models, whose artifacts lie beside a database; it raises `Rejected` where
    one would lie elsewhere."""
    folder = database.with_name(FOLDER)
    with writing_below(folder.parent) as write:

        def write_one(artifacts: str, name: str, content: bytes) -> None:
            place = path_of(artifacts)
            path = None if place is None else place / name
            if path is None or not is_within(folder, path.parent):
                raise Rejected(f"{artifacts}: expected artifacts below {folder}, and no link on the way to {name}")
            try:
                write(path.relative_to(folder.parent).parts, content)
            except UnexpectedLink as error:
                raise Rejected(f"{path}: expected artifacts below {folder}; {error.strerror}") from error

        yield write_one
