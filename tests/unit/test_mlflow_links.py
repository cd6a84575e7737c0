"""Links into MLflow's pages, and what `ui` says of a database that it cannot use."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from journals import made_up_sweep, made_up_trials

from crowdsweep.errors import BadInput
from crowdsweep.record.journal import Journal
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.tracking import artifact_files, ui
from crowdsweep.tracking.artifact_files import DatabaseBusy, NoDatabase, experiment_in, relocate_artifacts
from crowdsweep.tracking.sweep_page import compare_link, experiments_link, file_link, runs_link
from crowdsweep.tracking.uri import database_file, sqlite_uri


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A sweep's folder below one whose name has a `#`, with a database of MLflow's first columns."""
    folder = tmp_path / "a #b" / "store"
    journal = Journal(folder)
    journal.handle_many(made_up_sweep(made_up_trials("a", "d", [{"test_accuracy": 0.5}]), models=[]))
    journal.close()
    with closing(sqlite3.connect(folder / "mlflow.db")) as rows, rows:
        rows.execute("CREATE TABLE experiments (experiment_id INTEGER, name TEXT, artifact_location TEXT)")
        rows.execute("CREATE TABLE experiment_tags (experiment_id INTEGER, key TEXT, value TEXT)")
    return folder


@pytest.fixture
def locked(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The database of `store`, which another program is writing."""
    monkeypatch.setattr(artifact_files, "_PATIENCE_S", 0.05)
    with closing(sqlite3.connect(store / "mlflow.db", isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        yield store / "mlflow.db"
        writer.execute("ROLLBACK")


def test_a_locked_database_is_waited_for_and_never_removed(store: Path, locked: Path) -> None:
    with pytest.raises(DatabaseBusy, match="another program is writing it"):
        relocate_artifacts(locked, whole=True)
    with pytest.raises(DatabaseBusy):
        experiment_in(locked, "a", "b")
    with pytest.raises(BadInput, match="wait until it has ended") as refused:
        ui.serve(store, 0, announce=print)
    assert "remove" not in str(refused.value)


@pytest.mark.parametrize("content", [b"no database at all, but long enough to look at" * 30, b""])
def test_what_is_no_database_is_removed_and_made_again(store: Path, content: bytes) -> None:
    (store / "mlflow.db").write_bytes(content)
    with pytest.raises(NoDatabase):
        relocate_artifacts(store / "mlflow.db", whole=True)
    with pytest.raises(BadInput, match="remove it, then write the runs again: `crowdsweep mirror '") as refused:
        ui.serve(store, 0, announce=print)
    assert f"'{store}'" in str(refused.value)  # as a shell takes it, whatever is in it


def test_a_database_that_cannot_be_opened_is_not_removed_either(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        error = sqlite3.OperationalError("attempt to write a readonly database")
        error.sqlite_errorcode = sqlite3.SQLITE_READONLY
        raise error

    monkeypatch.setattr(artifact_files.sqlite3, "connect", refused)
    with pytest.raises(BadInput, match="readonly database; check the disk") as told:
        ui.serve(store, 0, announce=print)
    assert "remove" not in str(told.value)


def test_every_link_opens_the_pages_for_training() -> None:
    links = [
        runs_link("1", viewed=True),
        runs_link("1", viewed=False),
        file_link("r", "1", "a #b.html"),
        compare_link(["r", "s"], "1"),
        experiments_link(),
    ]
    for link in links:
        assert re.fullmatch(r"#/[^?#]*\?(.*&)?workflowType=machine_learning(&.*)?", link)


def test_a_database_below_a_folder_with_a_hash_keeps_its_whole_path(store: Path) -> None:
    uri = sqlite_uri(store / "mlflow.db")
    assert without_credentials(uri) == uri
    assert database_file(uri) == store / "mlflow.db"
    assert without_credentials("sqlite:////a/b.db?key=secret") == "sqlite:////a/b.db"
