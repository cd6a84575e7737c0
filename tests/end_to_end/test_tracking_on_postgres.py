"""MLflow on PostgreSQL with artifacts in an S3 store: two sweeps at once, parts that die, `ui` of what is there."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pytest
from artifact_store import BUCKET, SECRET, ArtifactStore
from awkward_server import AwkwardServer, Manner
from killable_server import STARTS_S, KillableServer
from postgres_server import NO_POSTGRES, Postgres, PostgresServer, programs
from sweeps_at_once import EXPERIMENT, IMPATIENT, at_once, check_runs, drive, runs_at

from crowdsweep.errors import BadInput
from crowdsweep.record.journal import read_journal
from crowdsweep.tracking.mlflow_runs import MlflowClient, rebuild
from crowdsweep.views.in_mlflow import rebuild_runs

pytestmark = pytest.mark.long
FEW, MANY = 20, 1000
DRIVES = (
    "import sys; from pathlib import Path; from sweeps_at_once import drive; "
    "print('lacks', repr(drive(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))"
)
SOON_S = 30.0


@pytest.fixture(scope="module")
def made() -> Iterator[Postgres]:
    if programs() is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(NO_POSTGRES)
    made = Postgres()
    yield made
    made.close()


@pytest.fixture
def database(made: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresServer]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    server = made.server()
    server.start()
    yield server
    server.close()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[ArtifactStore]:
    store = ArtifactStore()
    store.put_into(monkeypatch)
    yield store
    store.stop()


@pytest.fixture
def server(database: PostgresServer, s3: ArtifactStore, tmp_path: Path) -> Iterator[KillableServer]:
    folder = tmp_path / "server"
    folder.mkdir()
    server = KillableServer(folder, database=database.uri, artifacts=f"s3://{BUCKET}/served")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def stores(tmp_path: Path) -> list[Path]:
    return [tmp_path / "one", tmp_path / "three"]


def ask(database: PostgresServer, statement: str) -> Any:
    """Returns the first row of the answer; None where there is none."""
    import psycopg2

    with closing(psycopg2.connect(database.uri.replace("+psycopg2", ""))) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(statement)
        return cursor.fetchone() if cursor.description else None


def count_runs(database: PostgresServer) -> int:
    return ask(database, "SELECT count(*) FROM runs")[0]


def check(uri: str, stores: Sequence[Path], n_trials: int, s3: ArtifactStore) -> None:
    """As `check_runs`; every trial has its file, and no secret stands in a store."""
    trials = {run.info.run_id for run in check_runs(uri, stores, n_trials)}
    files = {name.split("/")[-3] for name in s3.names() if name.endswith("/confusion.json")}
    assert trials <= files
    for store in stores:
        assert not [path for path in store.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def until(so: Callable[[], bool], within_s: float = STARTS_S) -> None:
    deadline = time.monotonic() + within_s
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("n_trials", [FEW, pytest.param(MANY, marks=pytest.mark.timeout(3600))])
def test_two_sweeps_at_once_by_a_server_that_dies(
    server: KillableServer, database: PostgresServer, s3: ArtifactStore, stores: list[Path], n_trials: int
) -> None:
    began = time.monotonic()
    with at_once(*(partial(drive, store, server.uri, n_trials) for store in stores)) as lacks:
        until(lambda: count_runs(database) > n_trials / 2, within_s=STARTS_S + n_trials)  # others may use the machine
        server.kill()
        time.sleep(1)
        server.start()
    print(f"{2 * n_trials} trials by a server: {time.monotonic() - began:.1f} s")
    assert lacks == ["", ""], "they wait for it, and write the rest"
    check(server.uri, stores, n_trials, s3)


def test_a_server_that_is_slow_fails_and_loses_answers(
    server: KillableServer, s3: ArtifactStore, stores: list[Path]
) -> None:
    draw = Random(0)

    def manner(method: str, path: str) -> Manner:
        return draw.choices(["passes", "is slow", "fails", "loses the answer"], [80, 4, 6, 10])[0]

    between = AwkwardServer(server.uri, manner)
    with at_once(*(partial(drive, store, between.uri, FEW) for store in stores)) as lacks:
        pass
    between.close()
    assert all(between.counts[how] >= 5 for how in ("is slow", "fails", "loses the answer"))
    assert lacks == ["", ""]
    check(server.uri, stores, FEW, s3)


@pytest.mark.parametrize("n_trials", [FEW, MANY])
def test_two_sweeps_at_once_into_the_database_itself(
    database: PostgresServer, s3: ArtifactStore, stores: list[Path], tmp_path: Path, n_trials: int
) -> None:
    MlflowClient(database.uri).create_experiment(EXPERIMENT, artifact_location=f"s3://{BUCKET}/direct")
    began = time.monotonic()
    with at_once(*(partial(drive, store, database.uri, n_trials) for store in stores)) as lacks:
        pass
    print(f"{2 * n_trials} trials into the database: {time.monotonic() - began:.1f} s")
    assert lacks == ["", ""]
    check(database.uri, stores, n_trials, s3)
    if n_trials == FEW:
        page = served(stores[0], database.uri, tmp_path)
        assert page["probabilities"] == [[0.9, 0.1], [0.2, 0.8]]


def test_two_sweeps_that_begin_in_an_empty_database(
    database: PostgresServer, stores: list[Path], tmp_path: Path
) -> None:
    """Each would make MLflow's tables."""
    ask(database, "CREATE DATABASE fresh")
    uri = database.uri.removesuffix("runs") + "fresh"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    drivers = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", DRIVES, str(store), uri, str(FEW)],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
        )
        for store in stores
    ]
    assert [driver.communicate(timeout=300)[0].decode() for driver in drivers] == ["lacks ''\n"] * 2
    check_runs(uri, stores, FEW)


@pytest.mark.parametrize("part", ["database", "artifacts"])
def test_what_a_part_that_dies_costs_mirror_makes_up_for(
    part: str, database: PostgresServer, s3: ArtifactStore, stores: list[Path]
) -> None:
    MlflowClient(database.uri).create_experiment(EXPERIMENT, artifact_location=f"s3://{BUCKET}/direct")
    gate = Barrier(len(stores) + 1)

    def halfway() -> None:
        gate.wait()
        gate.wait()

    with at_once(
        *(partial(drive, store, database.uri, FEW, timing=IMPATIENT, halfway=halfway) for store in stores)
    ) as lacks:
        gate.wait()
        until(lambda: count_runs(database) > 0)
        (database.kill if part == "database" else s3.stop)()
        gate.wait()
    (database if part == "database" else s3).start()
    assert all(words.endswith("trials") for words in lacks), lacks
    for store, words in zip(stores, lacks, strict=True):
        read = read_journal(store)
        assert len(read.results) == FEW, "the sweep went on"
        assert rebuild(read, database.uri, EXPERIMENT).written >= int(words.split()[0])
    check(database.uri, stores, FEW, s3)


def served(store: Path, uri: str, folder: Path) -> Mapping[str, Any]:
    """Returns a file of a run as `ui` serves it, which is told the database's user by the variable."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = next(run for run in runs_at(uri) if run.data.tags["crowdsweep.kind"] == "trial").info.run_id
    words = [sys.executable, "-P", "-m", "crowdsweep", "ui", str(store), "--port", str(port)]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": uri}
    with (folder / "said").open("wb") as said:
        ui = subprocess.Popen(words, cwd=folder, stdout=said, stderr=said, env=environment)
    try:
        until(lambda: ui.poll() is not None or answers(f"http://127.0.0.1:{port}/health"))
        until(lambda: ui.poll() is not None or "token=" in (folder / "said").read_text())
        text = (folder / "said").read_text()
        assert "which is served here" in text, text
        token = re.search(r"/\?token=([\w-]+)#/experiments/", text)
        assert token is not None, text
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/get-artifact?path=confusion.json&run_uuid={run}",
            headers={"Authorization": f"Bearer {token[1]}"},
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return json.loads(answer.read())
    finally:
        ui.send_signal(signal.SIGINT)
        ui.wait(timeout=60)


def answers(url: str) -> bool:
    """Whether a server listens there; one that asks for a token does."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def refused(store: Path, uri: str) -> str:
    """Returns what `mirror` says in the end, soon."""
    began = time.monotonic()
    with pytest.raises(BadInput) as told:
        rebuild_runs(store, uri)
    assert time.monotonic() - began < SOON_S
    words = str(told.value)
    assert "\n" not in words
    assert SECRET not in words
    return words


def test_what_mirror_says_where_a_part_of_it_is_missing(
    database: PostgresServer, server: KillableServer, s3: ArtifactStore, tmp_path: Path
) -> None:
    store = tmp_path / "one"
    with at_once(partial(drive, store, server.uri, 2)):
        pass
    assert 'database "none" does not exist' in refused(store, database.uri.removesuffix("runs") + "none")
    assert "does not exist" in refused(store, database.uri.replace("runs@", "somebody:hunter2@"))
    s3.stop()
    assert "artifacts at mlflow-artifacts://" in refused(store, server.uri)
    s3.start()
    server.kill()
    assert "no tracking server answers" in refused(store, server.uri)
    database.kill()
    assert "no database answers" in refused(store, database.uri)
