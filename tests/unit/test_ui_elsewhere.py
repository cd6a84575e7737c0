"""What `ui` does of a sweep whose runs are not beside its record: it opens that place, or serves that database."""

import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from mirror_checks import started
from mlflow_sweeps import outcomes

from crowdsweep.errors import BadInput
from crowdsweep.record.events import RunsCreated
from crowdsweep.record.journal import Journal
from crowdsweep.tracking import ui
from crowdsweep.tracking.tracked_elsewhere import ServedElsewhere

PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def nowhere_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def tracked(folder: Path, uri: str, *, runs: bool = True) -> Path:
    """A store whose sweep was tracked at a URI."""
    journal = Journal(folder)
    beginning = started()
    journal.handle_many([replace(beginning, config={**beginning.config, "tracking": {"uri": uri}}), *outcomes()])
    if runs:
        journal.handle(RunsCreated(tracking_uri=uri, experiment_id="7", runs={"a": "b"}))
    journal.close()
    return folder


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    addresses: list[str] = []
    monkeypatch.setattr(ui.webbrowser, "open", addresses.append)
    monkeypatch.setattr(ui, "_has_screen", lambda: True)
    return addresses


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServedElsewhere]:
    """What MLflow's server would be started on."""
    taken: list[ServedElsewhere] = []

    def take(one: ServedElsewhere, *_: object) -> int:
        taken.append(one)
        return 0

    monkeypatch.setattr(ui, "_serve", take)
    return taken


def test_the_pages_of_a_server_are_opened(tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    store = tracked(tmp_path / "a", "http://host:5000")
    told: list[str] = []
    assert ui.serve(store, 0, told.append) == 0
    (address,) = opened
    assert address.startswith("http://host:5000/#/experiments/7/runs")
    assert address in told[0]
    assert ui.serve(tracked(tmp_path / "b", "http://host:5000", runs=False), 0, told.append) == 0
    assert opened.pop() == "http://host:5000"
    monkeypatch.setattr(ui, "_has_screen", lambda: False)
    assert ui.serve(store, 0, told.append) == 0
    assert len(opened) == 1, "nobody has a browser there"


@pytest.mark.parametrize("uri", ["databricks", "https://host/***/mlflow"])
def test_what_has_no_known_address_is_named(tmp_path: Path, uri: str, opened: list[str]) -> None:
    told: list[str] = []
    assert ui.serve(tracked(tmp_path / "store", uri), 0, told.append) == 0
    assert told == [f"this sweep is tracked on {uri}: open it there"]
    assert opened == []


def test_a_database_file_elsewhere_is_served(
    tmp_path: Path, empty_database: Path, served: list[ServedElsewhere]
) -> None:
    other = tmp_path / "other" / "runs.db"
    other.parent.mkdir()
    shutil.copy(empty_database, other)
    told: list[str] = []
    assert ui.serve(tracked(tmp_path / "store", f"sqlite:///{other}"), 0, told.append) == 0
    (one,) = served
    assert (one.uri, one.artifacts, one.remote) == (f"sqlite:///{other}", other.parent / "mlartifacts", False)
    assert one.runs.startswith("#/experiments?")
    assert told == [f"this sweep is tracked in sqlite:///{other}, which is served here"]


def test_a_database_of_another_program_is_not_served(tmp_path: Path, served: list[ServedElsewhere]) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as rows:
        rows.execute("CREATE TABLE bookmarks (place TEXT)")
    before = other.read_bytes()
    with pytest.raises(BadInput, match=r"cannot be opened: .*other\.db") as refused:
        ui.serve(tracked(tmp_path / "store", f"sqlite:///{other}"), 0, print)
    assert "\n" not in str(refused.value)
    assert served == []
    assert other.read_bytes() == before


def test_a_database_that_is_down_is_told_of(
    tmp_path: Path, served: list[ServedElsewhere], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the password of the variable, which nobody is told."""
    uri = "postgresql+psycopg2://127.0.0.1:9/runs"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("//", f"//me:{PASSWORD}@"))
    with pytest.raises(BadInput, match=r"cannot be opened: no database answers at 127\.0\.0\.1:9") as refused:
        ui.serve(tracked(tmp_path / "store", uri), 0, print)
    assert PASSWORD not in str(refused.value)
    assert served == []
    assert PASSWORD in os.environ["MLFLOW_TRACKING_URI"]
