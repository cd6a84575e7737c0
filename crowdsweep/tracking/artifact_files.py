"""Artifact files of runs beside a sqlite database: written only there, and found again after the store was moved."""

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from crowdsweep.errors import plain, shortened
from crowdsweep.files.drafts import writing_below
from crowdsweep.files.inside import UnexpectedLink
from crowdsweep.tracking.artifact_places import FOLDER, is_indirect, is_inside, is_within, path_of, place_in, relocated
from crowdsweep.tracking.run_book import Rejected
from crowdsweep.tracking.run_records import KIND, MODEL_DIGEST
from crowdsweep.tracking.sweep_page import VIEW_TAG

_PATIENCE_S = 5.0
_TABLES = (
    *("alembic_version", "datasets", "experiment_tags", "experiments", "input_tags", "inputs", "latest_metrics"),
    *("logged_model_metrics", "logged_model_params", "logged_model_tags", "logged_models", "metrics"),
    *("model_version_tags", "model_versions", "params", "registered_model_tags", "registered_models", "runs", "tags"),
)
"""Tables of MLflow that sweeps are written to and read from."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOT_ONE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last: a table is missing

WriteInside = Callable[[str, str, bytes], None]
"""Writes a whole file. Arguments: URI of its artifact folder, its name with any folders before it, its content."""


class DatabaseBusy(OSError):
    """Another program is writing to a database; the database itself is intact."""


class NoDatabase(OSError):
    """A file is not an MLflow database, or is a damaged one."""


class _Named(NamedTuple):
    """A row of a database that names an artifact location.

    Attributes:
        table, column, row: where the location is stored; `row` is sqlite's rowid.
        what: description of the row, for messages.
        ours: whether crowdsweep wrote the row.
        below: folders below the artifact root where MLflow puts the artifacts of such a row; None where it may put them
            anywhere.
    """

    table: str
    column: str
    row: int
    what: str
    location: str
    ours: bool = False
    below: tuple[str, ...] | None = None


def relocate_artifacts(database: Path, *, whole: bool) -> list[str]:
    """Points the artifact locations in a database to the folder beside it.

    MLflow stores absolute locations. In a store that was moved or copied they lead to its old place, and in a store
    that somebody else made they may lead anywhere. A location below a folder of the same name elsewhere is mapped to
    the same path below this folder. In a store's own database, other rows that crowdsweep wrote get the location that
    MLflow gives to such rows. Anything else is left unchanged.

    Args:
        whole: whether the database is a store's own, which was moved with all its artifacts; in other databases only
            rows that crowdsweep wrote are changed.

    Returns:
        Descriptions of the rows that still name a location elsewhere, which must not be served; empty unless `whole`.

    Raises:
        DatabaseBusy: another program is writing to the database.
        NoDatabase: the file is not an MLflow database.
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
            if place is None or place == named.location:  # the same location: behind a link
                elsewhere.append(f"{named.what}: {named.location}")
                continue
            came[named.location] = place
            change = f"UPDATE {named.table} SET {named.column} = ? WHERE rowid = ?"  # noqa: S608 - our own words
            rows.execute(change, (place, named.row))
    return elsewhere if whole else []


def _check_are_tables(rows: sqlite3.Connection, database: Path) -> None:
    """Refuses views, triggers and virtual tables on the used tables, because MLflow never makes them: a view may be
    endless, and a trigger may delete anything.
    """
    asked = (
        f"SELECT type, name FROM sqlite_master WHERE lower(tbl_name) IN ({', '.join('?' * len(_TABLES))}) "  # noqa: S608 - our own words
        "AND (type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%')"
    )
    for kind, name in rows.execute(asked, _TABLES):
        what = plain(shortened(f"{kind} {name}"))
        raise NoDatabase(f"{database}: cannot be used as MLflow's database: it has a {what}, which MLflow never makes")


def _named_places(rows: sqlite3.Connection) -> Iterator[_Named]:
    """Yields every artifact location that a database names; models come before the versions made from them."""
    # Ours: experiments with our tag, and MLflow's empty default experiment, located in its working directory.
    asked = (
        "SELECT rowid, experiment_id, artifact_location, experiment_id IN "
        "(SELECT experiment_id FROM experiment_tags WHERE key = ?) OR "
        "(experiment_id = 0 AND experiment_id NOT IN (SELECT experiment_id FROM runs)) FROM experiments"
    )
    for row, number, location, ours in rows.execute(asked, (VIEW_TAG,)):
        what = f"experiment {number}"
        yield _Named("experiments", "artifact_location", row, what, str(location or ""), bool(ours), ())
    asked = (
        "SELECT rowid, run_uuid, artifact_uri, run_uuid IN (SELECT run_uuid FROM tags WHERE key = ?) FROM runs "
        "WHERE artifact_uri IS NOT NULL"
    )
    for row, run, location, ours in rows.execute(asked, (KIND,)):
        below = (str(run), "artifacts")
        yield _Named("runs", "artifact_uri", row, f"run {run}", str(location), bool(ours), below)
    asked = (
        "SELECT rowid, model_id, artifact_location, model_id IN "
        "(SELECT model_id FROM logged_model_tags WHERE tag_key = ?) FROM logged_models"
    )
    for row, model, location, ours in rows.execute(asked, (MODEL_DIGEST,)):
        what, below = f"model {model}", ("models", str(model), "artifacts")
        yield _Named("logged_models", "artifact_location", row, what, str(location or ""), bool(ours), below)
    for column in ("source", "storage_location"):
        asked = f"SELECT rowid, name, version, {column} FROM model_versions WHERE {column} IS NOT NULL"  # noqa: S608 - our own words
        for row, name, version, location in rows.execute(asked):
            yield _Named("model_versions", column, row, f"version {version} of {name}", str(location))


@contextmanager
def _named_errors(database: Path) -> Generator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the primary part of an extended code
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

    Raises:
        OSError: as in `relocate_artifacts`.
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
    """Yields a function that writes artifact files of runs or models beside a database; it raises `Rejected` for a file
    that would lie elsewhere."""
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
