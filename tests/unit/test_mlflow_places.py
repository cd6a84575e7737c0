"""No artifact is read, written or deleted outside of the folder beside a store's database, whatever that says."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mlflow.exceptions import MlflowException
from mlflow.store.artifact import artifact_repository_registry as registry
from mlflow_sweeps import outcomes, runs_in, sweep

from crowdsweep.tracking.artifact_files import relocate_artifacts, writing_inside
from crowdsweep.tracking.artifact_places import is_inside
from crowdsweep.tracking.mlflow_confined import confine
from crowdsweep.tracking.mlflow_connection import MlflowConnection
from crowdsweep.tracking.mlflow_runs import MlflowClient, tracking_uri
from crowdsweep.tracking.run_book import Rejected


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A person's folder beside the store's."""
    folder = tmp_path / "private"
    folder.mkdir()
    (folder / "id_rsa").write_text("TOPSECRET")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Path:
    """A store with runs of a sweep, a logged model and a version of it."""
    folder = tmp_path_factory.mktemp("made") / "store"
    folder.mkdir()
    shutil.copy(empty_database, folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        sweep(folder, outcomes((0,)))
        log_model(folder)
    return folder


def log_model(folder: Path) -> None:
    client = MlflowClient(tracking_uri(folder))
    experiment = client.get_experiment_by_name("an experiment").experiment_id
    (run,) = runs_in(folder)[1].values()
    tags = {"crowdsweep.digest": "d"}
    model = client.create_logged_model(experiment, "classifier", run.info.run_id, tags)
    client.create_registered_model("labels")
    client.create_model_version("labels", model.artifact_location, run.info.run_id)


@pytest.fixture
def place(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it that knows where it lies."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = shutil.copytree(made, tmp_path / "store")
    relocate_artifacts(folder / "mlflow.db", whole=True)
    return folder


PLACES: dict[str, Callable[[Path, Path], str]] = {
    "a folder": lambda store, private: private.as_uri(),
    "a path": lambda store, private: str(private),
    "up": lambda store, private: f"{(store / 'mlartifacts').as_uri()}/../../private",
    "up, encoded": lambda store, private: f"{(store / 'mlartifacts').as_uri()}/%2e%2e/%2E%2E/private",
    "a link": lambda store, private: f"{(store / 'mlartifacts').as_uri()}/link",
    "the store": lambda store, private: store.as_uri(),
    "a host": lambda store, private: f"file://host{private}",
    "another case": lambda store, private: f"FILE://{private}",
    "a bucket": lambda store, private: "s3://bucket/x",
    "a site": lambda store, private: "http://127.0.0.1:9/x",
    "nonsense": lambda store, private: "file://[",
    "nothing": lambda store, private: "",
}
COLUMNS = (
    ("runs", "artifact_uri"),
    ("experiments", "artifact_location"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def named_in(store: Path, table: str, column: str) -> list[str]:
    with closing(sqlite3.connect(store / "mlflow.db")) as rows:
        return [row[0] for row in rows.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL")]


@pytest.mark.parametrize("kind", PLACES)
def test_what_names_another_place_is_pointed_back_or_named(place: Path, private: Path, kind: str) -> None:
    (place / "mlartifacts" / "link").symlink_to(private)
    planted = PLACES[kind](place, private)
    with closing(sqlite3.connect(place / "mlflow.db")) as rows, rows:
        for table, column in COLUMNS:
            rows.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS NOT NULL", (planted,))
    told = relocate_artifacts(place / "mlflow.db", whole=True)
    folder = place / "mlartifacts"
    for table, column in COLUMNS[:3]:
        outside = [location for location in named_in(place, table, column) if not is_inside(folder, location)]
        assert outside == []
    left = [location for column in COLUMNS for location in named_in(place, *column) if not is_inside(folder, location)]
    assert len(told) == len(left)
    assert all(planted in words for words in told)
    assert relocate_artifacts(place / "mlflow.db", whole=True) == told, "again, the same"


def test_a_sound_database_is_left_as_it_is(place: Path) -> None:
    before = {column: named_in(place, *column) for column in COLUMNS}
    told = relocate_artifacts(place / "mlflow.db", whole=True)
    assert {column: named_in(place, *column) for column in COLUMNS} == before
    assert told == []


def test_in_a_persons_own_database_nothing_of_theirs_is_changed(place: Path, tmp_path: Path) -> None:
    """Its name and what lies beside it do not say that it came with a store."""
    theirs = tmp_path / "theirs" / "mlflow.db"
    theirs.parent.mkdir()
    shutil.copy(place / "mlflow.db", theirs)
    client = MlflowClient(f"sqlite:///{theirs}")
    client.create_experiment("mine", artifact_location="file:///data/mlartifacts")
    client.create_experiment("elsewhere", artifact_location="s3://bucket/x")
    MlflowConnection(f"sqlite:///{theirs}", "an experiment").open()
    locations = named_in(theirs.parent, "experiments", "artifact_location")
    assert {"file:///data/mlartifacts", "s3://bucket/x"} <= {*locations}


def test_artifacts_of_a_persons_own_experiment_go_where_it_says(tmp_path: Path, empty_database: Path) -> None:
    database, artifacts = tmp_path / "own" / "runs.db", tmp_path / "elsewhere"
    database.parent.mkdir()
    shutil.copy(empty_database, database)
    uri = f"sqlite:///{database}"
    MlflowClient(uri).create_experiment("an experiment", artifact_location=artifacts.as_uri())
    sweep(tmp_path / "store", outcomes((0,)), uri=uri)
    assert [path.name for path in artifacts.rglob("confusion.json")] == ["confusion.json"]


@pytest.mark.parametrize("kind", [kind for kind in PLACES if kind != "the store"])
def test_nothing_is_written_or_made_outside(place: Path, private: Path, kind: str) -> None:
    (place / "mlartifacts" / "link").symlink_to(private)
    before = sorted(path for path in place.parent.rglob("*"))
    with pytest.raises(Rejected, match="expected artifacts below"), writing_inside(place / "mlflow.db") as write:
        write(PLACES[kind](place, private) + "/new", "report.html", b"")
    assert sorted(path for path in place.parent.rglob("*")) == before


@pytest.fixture
def confined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that this process's MLflow keeps to, for one test."""
    monkeypatch.setattr(
        registry._artifact_repository_registry, "_registry", dict(registry._artifact_repository_registry._registry)
    )
    folder = tmp_path / "store" / "mlartifacts"
    folder.mkdir(parents=True)
    confine(folder)
    return folder


@pytest.mark.parametrize("kind", PLACES)
def test_the_server_keeps_to_its_folder(confined: Path, private: Path, kind: str) -> None:
    (confined / "link").symlink_to(private)
    with pytest.raises((MlflowException, ValueError), match=r"is not served|Invalid"):
        registry.get_artifact_repository(PLACES[kind](confined.parent, private))


def test_the_server_follows_no_link_within_its_folder(confined: Path, private: Path) -> None:
    run = confined / "run" / "artifacts"
    run.mkdir(parents=True)
    (run / "sound.txt").write_text("sound")
    (run / "file").symlink_to(private / "id_rsa")
    (run / "folder").symlink_to(private)
    (run / "traces.json").symlink_to(private / "id_rsa")
    served: Any = registry.get_artifact_repository(run.as_uri())
    assert Path(served.download_artifacts("sound.txt")).read_text() == "sound"
    for name in ("file", "folder/id_rsa", "folder", "../../../private/id_rsa", "%2e%2e/%2e%2e/%2e%2e/private/id_rsa"):
        with pytest.raises(MlflowException):
            served.download_artifacts(name)
        with pytest.raises(MlflowException):
            served.delete_artifacts(name)
    with pytest.raises(MlflowException):
        served.log_artifact(str(run / "sound.txt"), "folder")
    with pytest.raises(MlflowException):
        served.list_artifacts("folder")
    with pytest.raises(MlflowException):
        served.download_trace_data()
    assert [path.name for path in private.iterdir()] == ["id_rsa"]
    assert (private / "id_rsa").read_text() == "TOPSECRET"
