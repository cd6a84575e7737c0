"""Where MLflow's runs lie: the database's files, odd and moved folders, links, and passwords that go nowhere."""

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from journals import folded
from mirror_checks import spec, started
from mlflow_sweeps import outcomes, runs_in, sweep

from crowdsweep.errors import BadInput
from crowdsweep.record.journal import Journal
from crowdsweep.record.shown_uri import redacted, without_credentials
from crowdsweep.record.store_uri import StoreUri
from crowdsweep.tracking.artifact_files import relocate_artifacts
from crowdsweep.tracking.mlflow_runs import (
    MlflowClient,
    MlflowMirror,
    tracking_uri,
)
from crowdsweep.tracking.sqlite_file import is_shared


def test_the_database_is_one_file_when_nobody_writes(store: Path) -> None:
    files = []
    state = folded([started(), *outcomes()])
    mirror = MlflowMirror(
        store, experiment="an experiment", look=lambda: state, record=lambda event: files.append(database_files(store))
    )
    mirror.handle(state.started[0])
    mirror.close()
    assert files == [{"mlflow.db", "mlflow.db-wal", "mlflow.db-shm"}], "written through a log"
    assert database_files(store) == {"mlflow.db"}
    with closing(sqlite3.connect(store / "mlflow.db")) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert len(runs_in(store)[1]) == 4


def database_files(store: Path) -> set[str]:
    return {path.name for path in store.glob("mlflow.db*")}


def test_what_a_killed_process_left_of_a_database_is_removed(store: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead, living = int(ended.stdout), os.getppid()
    doomed = [store / f"mlflow.db.{dead}.new{side}" for side in ("", "-journal")]
    kept = [store / f"mlflow.db.{living}.new", store / "mlflow.db.new", store / f"other.db.{dead}.new"]
    for path in (*doomed, *kept):
        path.touch()
    sweep(store, outcomes((0,)))
    assert [path for path in (*doomed, *kept) if path.exists()] == kept


def test_somebody_who_reads_keeps_the_log_and_stops_nobody(store: Path) -> None:
    sweep(store, outcomes((0,)))
    with closing(sqlite3.connect(store / "mlflow.db", isolation_level=None)) as reader:
        reader.execute("PRAGMA journal_mode=WAL")
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (2,)
        sweep(store, outcomes((1, 2)))
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (2,)
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (4,)
    assert len(runs_in(store)[1]) == 3


def test_a_file_system_of_many_machines_is_told_from_a_disk(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/vda / ext4 rw 0 0\nhome:/export /home nfs4 rw 0 0\n/dev/vdb /home/my\\040disk xfs rw 0 0\n"
        "me@there: /mnt fuse.sshfs rw 0 0\n/dev/vdc /mnt ext4 rw 0 0\n"
    )
    assert is_shared(Path("/home/me/results/mlflow.db"), mounts)
    assert not is_shared(Path("/home/my disk/mlflow.db"), mounts)
    assert not is_shared(Path("/homely/mlflow.db"), mounts)
    assert not is_shared(Path("/mnt/mlflow.db"), mounts), "the later mount counts"
    assert not is_shared(Path("/home/me"), tmp_path / "there is no such list")


def test_where_runs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    with pytest.raises(BadInput, match=r"tracking\.uri or MLFLOW_TRACKING_URI"):
        tracking_uri(StoreUri("s3", "bucket", ("x",)))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert tracking_uri(tmp_path) == "http://server:5000"
    assert tracking_uri(tmp_path, "sqlite:///x.db") == "sqlite:///x.db"
    assert without_credentials("sqlite:////a/b@c.db") == "sqlite:////a/b@c.db"


SECRETS = ("hunter2", "hunter/2", "hunt%40er2")


SHOWN = {
    "http://me:{}@host:5000/ml": "http://host:5000/ml",
    "https://{}@host/ml": "https://host/ml",
    "https://host/ml?token={}&x=1": "https://host/ml",
    "https://host/ml#{}": "https://host/ml",
    "https://host/ml;password={}": "https://host/ml",
    "http://me:{}@[host": "http://[host",
    "databricks://profile:{}@host": "databricks://host",
    "postgresql+psycopg2://me:{}@host/runs?sslpassword={}": "postgresql+psycopg2://host/runs",
    "mssql+pyodbc:///?odbc_connect=UID%3Dme%3BPWD%3D{}": "mssql+pyodbc:///",
    "me:{}@host": "host",
}


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("uri", SHOWN)
def test_a_secret_is_not_shown_wherever_it_stands_in_a_uri(uri: str, secret: str) -> None:
    given = uri.format(secret, secret)
    assert without_credentials(given) == SHOWN[uri]
    assert without_credentials(SHOWN[uri]) == SHOWN[uri]
    for said in (f"cannot open {given!r}", f"login failed with {secret}", f"login failed with {unquote(secret)}"):
        assert secret not in redacted(said, given)
        assert unquote(secret) not in redacted(said, given)


def test_a_secret_of_a_path_is_not_shown() -> None:
    assert without_credentials("https://host/api/token-4711/ml") == "https://host/api/***/ml"
    assert without_credentials("https://host/" + 40 * "a" + "/ml") == "https://host/***/ml"
    assert without_credentials("https://host/s3cr3t") == "https://host/***"
    assert without_credentials("sqlite:////data/my-token/mlflow.db") == "sqlite:////data/my-token/mlflow.db"


@pytest.mark.parametrize("name", ["a?b", "a%20b", "a#b", "a b@c:d;e=f&g", "ä'\""])
def test_odd_folders_hold_a_store(store: Path, tmp_path: Path, name: str) -> None:
    odd = tmp_path / name
    odd.mkdir()
    (store / "mlflow.db").rename(odd / "mlflow.db")
    sweep(odd, outcomes())
    assert len(runs_in(odd)[1]) == 4
    assert not [path for path in tmp_path.rglob("*.db") if path.parent != odd]
    assert (odd / "mlartifacts").is_dir()


def test_a_moved_store_takes_its_artifacts_along(store: Path, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    (store / "mlflow.db").rename(here / "mlflow.db")
    sweep(here, outcomes())
    here.rename(there)
    relocate_artifacts(there / "mlflow.db", whole=True)
    client = MlflowClient(tracking_uri(there))
    trial = runs_in(there)[1][spec(3, groups=2).key]
    assert "traceback.txt" in [file.path for file in client.list_artifacts(trial.info.run_id)]
    sweep(there, outcomes((0, 1, 2, 3, 4)))
    assert not here.exists()
    assert all(run.info.artifact_uri.startswith(there.as_uri()) for run in runs_in(there)[1].values())


def test_no_link_leads_what_is_written_out_of_a_store(store: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = tmp_path / "inside"
    inside.mkdir()
    (store / "mlflow.db").rename(inside / "mlflow.db")
    (inside / "mlartifacts").symlink_to(outside)
    sweep(inside, outcomes())
    assert not list(outside.rglob("*.txt"))
    (inside / "mlflow.db").rename(tmp_path / "elsewhere.db")
    (inside / "mlflow.db").symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(BadInput, match="got a link"):
        tracking_uri(inside)


def test_two_stores_with_one_name_share_no_run(store: Path, tmp_path: Path) -> None:
    uri = tracking_uri(store)
    for place, time_s in (("one", 1.0), ("two", 2.0)):
        journal = Journal(tmp_path / place)
        mirror = MlflowMirror(
            tmp_path / place, experiment="an experiment", uri=uri, record=journal.handle, look=journal.snapshot
        )
        for event in (replace(started(), time=time_s), *outcomes((0, 1))):
            journal.handle(event)
            mirror.handle(event)
        mirror.close()
        journal.close()
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("an experiment")
    runs = client.search_runs([experiment.experiment_id])
    by_store = Counter(run.data.tags["crowdsweep.store"] for run in runs)
    assert sorted(by_store.values()) == [3, 3]
    assert not [run for run in runs if "crowdsweep.interrupted" in run.data.tags]
