"""The database of MLflow's runs on several threads: what one sweep closes, no other is using."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event, text

from crowdsweep.tracking.sqlite_file import SqliteFile


def test_a_sweep_that_ends_closes_nothing_that_another_thread_takes(tmp_path: Path) -> None:
    """A connection that is closed in the middle of a query crashes the interpreter, so none that is being closed may be
    had by another thread. The thread asks for one at the worst moment: between the look and the close."""
    engine = create_engine(f"sqlite:///{tmp_path / 'runs.db'}")
    had: list[Any] = []

    def used() -> None:
        with engine.connect() as connection:
            connection.execute(text("select 1"))
            had.append(connection.connection.dbapi_connection)

    file = SqliteFile(tmp_path / "runs.db")
    file.hasten()
    used()
    closed: list[Any] = []

    @event.listens_for(engine, "close")
    def meanwhile(closing: Any, _: Any) -> None:
        closed.append(closing)
        if len(closed) == 1:
            with ThreadPoolExecutor(1) as another:
                another.submit(used).result()

    file.rest()
    assert closed[0] is had[0]
    assert had[1] is not had[0]


def test_the_last_of_two_sweeps_of_one_file_makes_it_one_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("create table numbers (n)"))
    engine.dispose()

    def settings() -> tuple[str, int]:
        with engine.connect() as connection:
            connection.execute(text("select count(*) from numbers"))  # looks at the file
            mode = connection.execute(text("PRAGMA journal_mode")).scalar_one()
            return str(mode), int(connection.execute(text("PRAGMA synchronous")).scalar_one())

    first, second = SqliteFile(path), SqliteFile(path)
    first.hasten()
    second.hasten()
    assert settings() == ("wal", 1)
    first.rest()
    assert settings() == ("wal", 1), "the second still writes"
    second.rest()
    assert [settings(), settings()] == [("delete", 2)] * 2
    assert [one.name for one in tmp_path.iterdir()] == ["runs.db"]
    second.hasten()
    assert settings() == ("wal", 1), "and again"
    second.rest()
