"""A store whose sweep MLflow knows, and its database changed by somebody: bytes, values, rows, tables, views."""

import logging
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore as RegistryStore
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore as TrackingStore
from mlflow.tracking._model_registry.registry import ModelRegistryStoreRegistry
from mlflow.tracking._tracking_service.registry import TrackingStoreRegistry
from mlflow_sweeps import outcomes, sweep
from mutations import ODD_VALUES, flipped, pieced, scarred

from crowdsweep.errors import CrowdsweepError
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.tracking import ui
from crowdsweep.tracking.mlflow_runs import MlflowMirror, rebuild
from crowdsweep.tracking.repeated_job import Timing
from crowdsweep.tracking.uri import DATABASE, tracking_uri

EXPERIMENT = "an experiment"
HEADER = 100  # bytes, with which a sqlite file begins
PLACES = (
    "/etc",
    "file:///etc",
    "file://host/etc",
    "../../thesis",
    "s3://bucket/x",
    "models:/m-0",
    "runs:/x/y",
    "http://127.0.0.1:1/x",
    "file:///%00",
    "x" * 6000,
)
VALUES = [
    *(value for value in ODD_VALUES if isinstance(value, str | int | float | None) and value not in ("\ud800", 10**40)),
    *(-(2**63), 2**63 - 1, 1e308, float("-inf"), b"", b"\xff\xfe\0", b"\0" * 5000, "RUNNING", "deleted", "active"),
    *PLACES,
]
VALUES = [value for value in VALUES if not (isinstance(value, int) and value > 2**63 - 1)]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"


@cache
def prepared() -> tuple[bytes, bytes]:
    """Returns a sweep's database and its journal; made once, as MLflow takes seconds to make its tables."""
    with tempfile.TemporaryDirectory() as place:
        store = Path(place, "store")
        sweep(store, outcomes())
        return (store / DATABASE).read_bytes(), (store / "journal.jsonl").read_bytes()


def database(rng: random.Random) -> dict[str, bytes]:
    return {DATABASE: prepared()[0]}


def hurt_database(data: bytes, rng: random.Random) -> bytes:
    """Changes any bytes, most often near the beginning, or what rows and tables say."""
    if rng.random() < 0.35:
        how = rng.choice([flipped, flipped, scarred, pieced])
        if rng.random() < 0.3:
            return flipped(data[:HEADER], rng) + data[HEADER:]
        return how(data, rng)
    with closing(sqlite3.connect(":memory:")) as rows:
        rows.deserialize(data)
        rows.execute("PRAGMA writable_schema = ON")
        rows.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(rng.choice([1, 1, 2, 5])):
            try:
                rng.choice(WAYS)(rows, rng)
            except sqlite3.Error:  # it is no more what this way changes
                continue
        rows.commit()
        return rows.serialize()


def _table(rows: sqlite3.Connection, rng: random.Random) -> str:
    """Returns the name of a table that holds something, for the most part."""
    names = [name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    full = [name for name in names if rows.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone()]
    return rng.choice(full if full and rng.random() < 0.9 else names)


def _cell(rows: sqlite3.Connection, rng: random.Random) -> tuple[str, str]:
    table = _table(rows, rng)
    return table, rng.choice([column[1] for column in rows.execute(f'PRAGMA table_info("{table}")')])


def retype(rows: sqlite3.Connection, rng: random.Random) -> None:
    """Another value in a column: of one row, or of all."""
    table, column = _cell(rows, rng)
    where = rng.choice(["", f'WHERE rowid = (SELECT rowid FROM "{table}" ORDER BY random() LIMIT 1)'])
    rows.execute(f'UPDATE OR REPLACE "{table}" SET "{column}" = ? {where}', (rng.choice(VALUES),))


def no_text(rows: sqlite3.Connection, rng: random.Random) -> None:
    """Text that is none in UTF-8."""
    table, column = _cell(rows, rng)
    rows.execute(f'UPDATE OR REPLACE "{table}" SET "{column}" = CAST(x\'fffe80\' AS TEXT)')


def drop_row(rows: sqlite3.Connection, rng: random.Random) -> None:
    table = _table(rows, rng)
    rows.execute(
        f'DELETE FROM "{table}" WHERE rowid % ? = ?', (modulus := rng.choice([1, 2, 3]), rng.randrange(modulus))
    )


def double_rows(rows: sqlite3.Connection, rng: random.Random) -> None:
    """Rows again, in a table that forbids nothing any more."""
    table = _table(rows, rng)
    rows.execute(f'CREATE TABLE doubled AS SELECT * FROM "{table}" UNION ALL SELECT * FROM "{table}"')
    rows.execute(f'DROP TABLE "{table}"')
    rows.execute(f'ALTER TABLE doubled RENAME TO "{table}"')


def drop_table(rows: sqlite3.Connection, rng: random.Random) -> None:
    rows.execute(f'DROP TABLE "{_table(rows, rng)}"')


def drop_column(rows: sqlite3.Connection, rng: random.Random) -> None:
    table, column = _cell(rows, rng)
    rows.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')


def rename(rows: sqlite3.Connection, rng: random.Random) -> None:
    table, column = _cell(rows, rng)
    rows.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO another')


def view(rows: sqlite3.Connection, rng: random.Random) -> None:
    """A view in the place of a table: of nothing, or without an end."""
    table = _table(rows, rng)
    rows.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_"')
    rows.execute(f'CREATE VIEW "{table}" AS ' + rng.choice([f'SELECT * FROM "{table}_"', ENDLESS]))


def trigger(rows: sqlite3.Connection, rng: random.Random) -> None:
    """What is written takes something else away, or never ends."""
    what = rng.choice(["DELETE FROM runs", f"INSERT INTO params (key) SELECT * FROM ({ENDLESS})"])
    event = rng.choice(["INSERT", "UPDATE"])
    rows.execute(f'CREATE TRIGGER sly AFTER {event} ON "{_table(rows, rng)}" BEGIN {what}; END')


def forge_place(rows: sqlite3.Connection, rng: random.Random) -> None:
    """A place of artifacts elsewhere."""
    table, column = rng.choice([("runs", "artifact_uri"), ("experiments", "artifact_location")])
    rows.execute(f"UPDATE {table} SET {column} = ?", (rng.choice(PLACES),))


def forge_version(rows: sqlite3.Connection, rng: random.Random) -> None:
    """The tables of another version of MLflow, as it says."""
    rows.execute("UPDATE alembic_version SET version_num = ?", (rng.choice([*VALUES, "451aebb31d03"]),))


WAYS: list[Callable[[sqlite3.Connection, random.Random], None]] = [
    *[retype] * 8,
    *[forge_place] * 2,
    *(no_text, drop_row, drop_row, double_rows, drop_table, drop_column, rename, view, trigger, forge_version),
]


def read_database(place: Path, rng: random.Random) -> None:
    """Reads a store's database as `ui`, `mirror` or `run` does.

    Raises:
        CrowdsweepError: that one refuses it.
    """
    store = place / f"{rng.randrange(2**32)}"  # MLflow keeps what it knows of a place
    store.mkdir()
    shutil.move(place / DATABASE, store / DATABASE)
    (store / "journal.jsonl").write_bytes(prepared()[1])
    state, uri = read_journal(store), tracking_uri(store)
    with _forgotten(uri):
        match rng.choice(["ui", "ui", "mirror", "run"]):
            case "ui":
                ui._relocated(store, state, store / DATABASE, lambda told: None)
            case "mirror":
                rebuild(state, uri, EXPERIMENT)
            case _:
                _run(store)


def _run(store: Path) -> None:
    """Does what the end of a `run` does; what it cannot do it says in a warning, in one line."""
    told: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("crowdsweep")
    log.addHandler(handler)
    try:
        journal = Journal(store)
        mirror = MlflowMirror(
            store,
            experiment=EXPERIMENT,
            record=journal.handle,
            look=journal.snapshot,
            timing=Timing(patience_s=9.0, stalled_s=8.0, last_s=0.0),
        )
        mirror.handle(journal.state.started[0])
        mirror.close()
        journal.close()
    finally:
        log.removeHandler(handler)
    assert all("\n" not in words and len(words) < 1000 for words in told), told
    if told:
        raise CrowdsweepError(f"{store}: {told}")


@contextmanager
def _forgotten(uri: str) -> Iterator[None]:
    """Has MLflow forget a database afterwards, and close it."""
    try:
        yield
    finally:
        for store in (TrackingStore, RegistryStore):
            if engine := store._engine_map.pop(uri, None):
                engine.dispose()
        for registry in (TrackingStoreRegistry, ModelRegistryStoreRegistry):
            registry._get_store_with_resolved_uri.cache_clear()
