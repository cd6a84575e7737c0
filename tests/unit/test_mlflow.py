"""MLflow as a mirror, against a real database: what it holds, and how it fails and is mended."""

import json
import logging
import math
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from crowdsweep.errors import BadInput
from crowdsweep.journal.journal import Journal, read_journal
from crowdsweep.journal.shown import ShownTrial
from crowdsweep.journal.state import JournalState
from crowdsweep.sweep.launch import open_and_run, rebuild_mirror
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.testing.mirror_checks import failed, ok, spec, started
from crowdsweep.tracking.artifact_files import bring_along
from crowdsweep.tracking.background import Background
from crowdsweep.tracking.mlflow_runs import (
    MlflowClient,
    MlflowMirror,
    reader_of,
    rebuild,
    tracking_uri,
    without_credentials,
)
from crowdsweep.tracking.run_records import HISTORY_LIMIT, CellTrial, cell_record, trial_record
from crowdsweep.tracking.sqlite_file import is_shared
from crowdsweep.tracking.uri import discreetly
from crowdsweep.trial.artifacts import Artifact
from crowdsweep.trial.events import Event, RunsCreated, SweepFinished, SweepStatus, TrialFinished, TrialPlanned
from crowdsweep.trial.result import Status

SEEDS = (0, 1, 2, 3)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables: making them takes seconds."""
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    mirror = MlflowMirror(path.parent, experiment="template")
    mirror.handle(started())
    mirror.close()
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM experiments WHERE name = 'template'")
    return path


@pytest.fixture
def store(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return tmp_path


def outcomes(seeds: Sequence[int] = SEEDS) -> list[Event]:
    """Four trials of one cell, the last of which failed."""
    events: list[Event] = []
    for seed in seeds:
        key = spec(seed, groups=2).key
        events.append(TrialPlanned(spec=spec(seed, groups=2)))
        events.append(failed(key) if seed == 3 else ok(key, test_accuracy=0.5 + seed / 10, dev_kl=1.0))
    return events


def sweep(store: Path, events: Sequence[Event], *, uri: str | None = None, attempts: int = 2) -> JournalState:
    """Runs a driver's mirrors over a sweep."""
    journal = Journal(store)
    mirror = MlflowMirror(
        store,
        experiment="an experiment",
        uri=uri,
        record=journal.handle,
        look=lambda: journal.state,
        background=lambda idle: Background("MLflow", when_idle=idle, attempts=attempts, first_delay_s=0.001),
    )
    for event in (started(), *events, SweepFinished(status=SweepStatus.DONE, time=3.0)):
        journal.handle(event)
        mirror.handle(event)
    mirror.close()
    journal.close()
    return read_journal(store)


def runs_in(store: Path) -> tuple[dict, dict]:
    """Returns (cells, trials) by key; two runs of one key are an error."""
    client = MlflowClient(tracking_uri(store))
    experiment = client.get_experiment_by_name("an experiment")
    cells: dict = {}
    trials: dict = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        place = cells if run.data.tags["crowdsweep.kind"] == "cell" else trials
        key = run.data.tags["crowdsweep.key"]
        assert key not in place, "recorded twice"
        place[key] = run
    return cells, trials


def sql(store: Path, *statements: str) -> None:
    with sqlite3.connect(store / "mlflow.db") as database:
        for statement in statements:
            database.execute(statement)


def test_a_sweep_as_mlflow_shows_it(store: Path) -> None:
    state = sweep(store, outcomes())
    cells, trials = runs_in(store)
    (cell,) = cells.values()
    assert cell.info.status == "FINISHED"
    assert cell.data.params["groups"] == "2"
    assert cell.data.params["dataset.annotators"] == "100"
    assert cell.data.metrics["test_accuracy_mean"] == pytest.approx(0.6)
    assert cell.data.metrics["test_accuracy_sd"] == pytest.approx(0.1)
    assert cell.data.metrics["test_accuracy_n"] == 3
    assert (cell.data.metrics["trials_ok"], cell.data.metrics["trials_failed"]) == (3, 1)
    assert set(trials) == {spec(seed, groups=2).key for seed in SEEDS}
    run = trials[spec(1, groups=2).key]
    assert run.info.status == "FINISHED"
    assert run.data.tags["mlflow.parentRunId"] == cell.info.run_id
    assert run.data.tags["crowdsweep.seed"] == run.data.params["seed"] == "1"
    assert run.data.tags["crowdsweep.phase"] == "report"
    assert run.data.tags["mlflow.source.git.commit"] == "0" * 40
    assert run.data.tags["crowdsweep.python"] == "3.11"
    assert run.data.metrics["test_accuracy"] == pytest.approx(0.6)
    assert run.data.metrics["wall_s"] == 0.5
    client = MlflowClient(tracking_uri(store))
    history = client.get_metric_history(run.info.run_id, "objective")
    assert [(point.step, point.value) for point in history] == [(0, -3.0), (1, -2.5), (2, -2.25)]
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("digits", "0123456789abcdef")
    confusion = client.download_artifacts(run.info.run_id, "confusion.json")
    assert json.loads(Path(confusion).read_text())["probabilities"] == [[0.9, 0.1], [0.2, 0.8]]
    assert len(list((store / "mlartifacts").rglob("confusion.json"))) == 3
    assert state.runs[tracking_uri(store)].runs == {key: one.info.run_id for key, one in {**cells, **trials}.items()}


def test_a_cell_shows_the_mean_confusion_matrix_of_its_reported_trials(store: Path) -> None:
    drawn: list[list[list[float]]] = []

    def draw(matrix: Sequence[Sequence[float]]) -> bytes:
        drawn.append([list(row) for row in matrix])
        return b"a picture"

    state = sweep(store, outcomes())
    rebuild(state, tracking_uri(store), "illustrated", draw=draw)
    assert drawn == [[[pytest.approx(0.9), pytest.approx(0.1)], [pytest.approx(0.2), pytest.approx(0.8)]]]
    client = MlflowClient(tracking_uri(store))
    experiment = client.get_experiment_by_name("illustrated")
    runs = client.search_runs([experiment.experiment_id])
    (cell,) = [run for run in runs if run.data.tags["crowdsweep.kind"] == "cell"]
    assert Path(client.download_artifacts(cell.info.run_id, "confusion.png")).read_bytes() == b"a picture"


def test_a_failed_trial_ends_as_failed(store: Path) -> None:
    sweep(store, outcomes())
    run = runs_in(store)[1][spec(3, groups=2).key]
    assert run.info.status == "FAILED"
    assert run.data.tags["crowdsweep.failure_kind"] == "NonFiniteObjective"
    assert "is nan" in run.data.tags["crowdsweep.failure_message"]
    text = MlflowClient(tracking_uri(store)).download_artifacts(run.info.run_id, "traceback.txt")
    assert Path(text).read_text().startswith("Traceback")


def test_going_on_records_nothing_twice(store: Path) -> None:
    sweep(store, outcomes((0, 1)))
    before = {key: run.info.run_id for key, run in runs_in(store)[1].items()}
    sweep(store, outcomes((2,)))
    cells, trials = runs_in(store)
    assert len(trials) == 3
    assert before.items() <= {key: run.info.run_id for key, run in trials.items()}.items()
    (cell,) = cells.values()
    assert (cell.info.status, cell.data.metrics["trials_ok"]) == ("FINISHED", 3)


def test_a_success_replaces_the_failure_before_it(store: Path) -> None:
    sweep(store, outcomes((3,)))
    key = spec(3, groups=2).key
    assert runs_in(store)[1][key].info.status == "FAILED"
    sweep(store, [ok(key, test_accuracy=1.0)])
    run = runs_in(store)[1][key]
    assert (run.info.status, run.data.tags["crowdsweep.status"]) == ("FINISHED", "ok")
    assert "crowdsweep.failure_kind" not in run.data.tags


def test_a_crash_leaves_nothing_running(store: Path) -> None:
    """A driver died while its cell and one trial were open: the next one ends both, and writes the trial anew."""
    sweep(store, outcomes((0, 1)))
    cells, trials = runs_in(store)
    cut_short = trials[spec(1, groups=2).key].info.run_id
    parent = next(iter(cells.values())).info.run_id
    sql(store, f"UPDATE runs SET status = 'RUNNING', end_time = NULL WHERE run_uuid IN ('{cut_short}', '{parent}')")
    sweep(store, [])
    cells, trials = runs_in(store)
    assert {run.info.status for run in (*cells.values(), *trials.values())} == {"FINISHED"}
    assert "crowdsweep.interrupted" in cells[spec(1, groups=2).cell_key].data.tags
    assert trials[spec(1, groups=2).key].info.run_id != cut_short
    with sqlite3.connect(store / "mlflow.db") as database:
        assert database.execute("SELECT count(*) FROM runs WHERE status = 'RUNNING'").fetchone() == (0,)


@pytest.mark.parametrize("table", ["runs", "metrics"])
def test_a_database_that_stops_taking_rows_is_mended_by_mirror(
    store: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    sweep(store, outcomes((0,)))
    refuse = f"CREATE TRIGGER refuse BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'readonly database'); END"
    sql(store, refuse)
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        state = sweep(store, outcomes((1, 2, 3)))
    told = [record.getMessage() for record in caplog.records if record.name.startswith("crowdsweep")]
    assert len(state.results) == 4, "the sweep lost nothing"
    assert sum("cannot be written" in words for words in told) == 1
    assert f"MLflow lacks 3 trials; the journal has them: `crowdsweep mirror {store}` writes them" in told
    with pytest.raises(BadInput, match="cannot be written"):
        rebuild(state, tracking_uri(store), "an experiment")
    sql(store, "DROP TRIGGER refuse")
    done = rebuild(state, tracking_uri(store), "an experiment")
    assert (done.found, done.written, done.refused) == (1, 3, 0)
    cells, trials = runs_in(store)
    assert {key: run.info.status for key, run in trials.items()} == {
        spec(seed, groups=2).key: "FAILED" if seed == 3 else "FINISHED" for seed in SEEDS
    }
    (cell,) = cells.values()
    assert (cell.info.status, cell.data.metrics["test_accuracy_n"]) == ("FINISHED", 3)
    assert rebuild(state, tracking_uri(store), "an experiment").written == 0


def test_a_cell_that_was_cut_short_is_completed(store: Path) -> None:
    """Its run was made, and then params were refused for a while."""
    sql(store, "CREATE TRIGGER refuse BEFORE INSERT ON params BEGIN SELECT RAISE(ABORT, 'readonly database'); END")
    state = sweep(store, outcomes((0,)), attempts=1)
    sql(store, "DROP TRIGGER refuse")
    rebuild(state, tracking_uri(store), "an experiment")
    cells, trials = runs_in(store)
    (cell,) = cells.values()
    assert (cell.info.status, cell.data.params["groups"]) == ("FINISHED", "2")
    assert len(trials) == 1


def test_mirror_into_nothing_writes_everything(store: Path) -> None:
    journal = Journal(store)
    journal.handle_many([started(), *outcomes()])
    journal.close()
    done = rebuild(read_journal(store), tracking_uri(store), "an experiment")
    assert str(done) == "4 trials written, 0 stood there already"
    cells, trials = runs_in(store)
    assert (len(cells), len(trials)) == (1, 4)


def test_mirror_mends_what_was_deleted(store: Path) -> None:
    state = sweep(store, outcomes())
    cells, trials = runs_in(store)
    one, other = spec(0, groups=2).key, spec(1, groups=2).key
    client = MlflowClient(tracking_uri(store))
    client.delete_run(trials[one].info.run_id)
    sql(store, f"DELETE FROM latest_metrics WHERE key = 'dev_kl' AND run_uuid = '{trials[other].info.run_id}'")
    assert rebuild(state, tracking_uri(store), "an experiment").written == 2
    client.delete_run(next(iter(cells.values())).info.run_id)
    rebuild(state, tracking_uri(store), "an experiment")
    cells, trials = runs_in(store)
    (cell,) = cells.values()
    assert {run.data.tags["mlflow.parentRunId"] for run in trials.values()} == {cell.info.run_id}
    assert trials[other].data.metrics["dev_kl"] == 1.0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def nobody_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, "")  # so that what a test sets is undone


@pytest.mark.usefixtures("nobody_logged_in")
def test_a_server_that_is_down_delays_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        state = sweep(tmp_path, outcomes(), uri=f"http://somebody:secret@127.0.0.1:{port}", attempts=10**6)
    assert len(state.results) == 4
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert f"no tracking server answers at 127.0.0.1:{port}" in told[0]
    assert "lacks 4 trials" in told[1]
    assert "secret" not in caplog.text


@pytest.mark.usefixtures("nobody_logged_in")
@pytest.mark.parametrize("uri", ["http://me:hunter2@127.0.0.1:{port}", "postgres://me:hunter2@127.0.0.1:{port}/runs"])
def test_a_password_goes_nowhere(
    tmp_path: Path, uri: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nobody listens at the first, and MLflow does not know the scheme of the second, which it cites."""
    uri = uri.format(port=free_port())
    config = parse_sweep(
        {
            "name": "discreet",
            "datasets": ["anesthesia"],
            "models": ["majority-vote"],
            "seeds": {"report": 1},
            "engine": "inline",
            "tracking": {"uri": uri},
        }
    )
    with caplog.at_level(logging.DEBUG):
        assert open_and_run(config, tmp_path).status == "done"
        with pytest.raises(BadInput, match="cannot be written") as refused:
            rebuild_mirror(tmp_path, uri)
    assert "MLflow cannot be written" in caplog.text
    assert read_journal(tmp_path).config["tracking"]["uri"] == uri.replace("me:hunter2@", "")
    told = [caplog.text, *capfd.readouterr(), str(refused.value)]
    told += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in told if "hunter2" in text]


@pytest.mark.usefixtures("nobody_logged_in")
def test_a_server_is_sent_the_name_and_password(tmp_path: Path) -> None:
    sent: list[str | None] = []

    class Guarded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            self.send_error(403)

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    journal = Journal(tmp_path)
    journal.handle(started())
    journal.close()
    with pytest.raises(BadInput, match="403"):
        rebuild(read_journal(tmp_path), f"http://me:w%40rd@127.0.0.1:{server.server_port}", "x")
    server.shutdown()
    server.server_close()
    assert set(sent) == {"Basic " + b64encode(b"me:w@rd").decode()}


def test_the_database_is_one_file_when_nobody_writes(store: Path) -> None:
    files = []
    journal = Journal(store)
    mirror = MlflowMirror(store, experiment="an experiment", record=lambda event: files.append(database_files(store)))
    mirror.handle(started())
    for event in outcomes():
        mirror.handle(event)
    mirror.close()
    journal.close()
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


def test_a_trial_that_enters_the_report_is_marked(store: Path) -> None:
    key = spec(0, groups=2).key
    sweep(store, [TrialPlanned(spec=spec(0, phase="search", groups=2)), ok(key)])
    assert runs_in(store)[1][key].data.tags["crowdsweep.phase"] == "search"
    sweep(store, [TrialPlanned(spec=spec(0, groups=2))])
    cells, trials = runs_in(store)
    assert trials[key].data.tags["crowdsweep.phase"] == "report"
    assert next(iter(cells.values())).data.tags["crowdsweep.phase"] == "report"


def test_a_watched_metric_has_its_history_and_ends_with_its_final_value(store: Path) -> None:
    good, early = (replace(spec(seed), params={"epochs": 30}) for seed in (0, 1))
    curve = tuple((step, step / 100) for step in (10, 20, 30))
    result = replace(ok(good.key).result, metrics={"dev_accuracy": 0.9}, iterations=30, curve=curve)
    result = replace(result, watched="dev_accuracy")
    stopped = replace(result, key=early.key, status=Status.STOPPED, iterations=12, curve=curve[:1])
    stopped = replace(stopped, metrics={"dev_accuracy": 0.15})
    events: list[Event] = [TrialPlanned(spec=good), TrialPlanned(spec=early)]
    sweep(store, [*events, TrialFinished(result=result), TrialFinished(result=stopped)])
    cells, trials = runs_in(store)
    client = MlflowClient(tracking_uri(store))

    def history(key: str) -> list[tuple[int, float]]:
        points = client.get_metric_history(trials[key].info.run_id, "dev_accuracy")
        return [(point.step, point.value) for point in points]

    assert history(good.key) == [(10, 0.1), (20, 0.2), (30, 0.9)]
    assert history(early.key) == [(10, 0.1), (12, 0.15)]
    assert [trials[key].data.metrics["dev_accuracy"] for key in (good.key, early.key)] == [0.9, 0.15]
    assert [trials[key].info.status for key in (good.key, early.key)] == ["FINISHED", "KILLED"]
    assert trials[early.key].data.tags["crowdsweep.status"] == "stopped"
    (cell,) = cells.values()
    assert (cell.data.metrics["trials_ok"], cell.data.metrics["trials_stopped"]) == (1, 1)
    assert cell.data.metrics["dev_accuracy_mean"] == 0.9
    assert rebuild(read_journal(store), tracking_uri(store), "an experiment").written == 0


def test_arrays_are_artifacts_of_their_trial(store: Path) -> None:
    journal = Journal(store)
    kept = journal.keep({"class_shares": np.array([0.5, 0.5]), "../../up": np.arange(3)})
    journal.close()
    key = spec(0).key
    result = replace(ok(key).result, kept={**kept, "large": Artifact(dtype="<f8", shape=(10**9,))})
    state = sweep(store, [TrialPlanned(spec=spec(0)), TrialFinished(result=result)])
    client = MlflowClient(tracking_uri(store))

    def files(experiment: str) -> dict[str, Path]:
        runs = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
        (run,) = [run.info.run_id for run in runs if run.data.tags["crowdsweep.kind"] == "trial"]
        return {file.path: Path(client.download_artifacts(run, file.path)) for file in client.list_artifacts(run)}

    rebuild(state, tracking_uri(store), "again", read=reader_of(store))
    for experiment in ("an experiment", "again"):
        found = files(experiment)
        assert set(found) == {"class_shares.npy", "______up.npy", "confusion.json"}
        np.testing.assert_array_equal(np.load(found["class_shares.npy"], allow_pickle=False), [0.5, 0.5])


def test_what_the_sweep_does_not_ask_for_any_more_is_marked_and_counts_nowhere(store: Path) -> None:
    """Two report seeds, then one; a fixed parameter, then another; and back."""

    def run(smoothing: float, seeds: int) -> dict[tuple[str, str], str]:
        searched = {"name": "one-coin", "search": {"smoothing": {"values": [0.1, 1.0]}}}
        config = parse_sweep(
            {
                "name": "marked",
                "datasets": ["anesthesia"],
                "models": [{"name": "majority-vote", "label": "vote", "params": {"smoothing": smoothing}}, searched],
                "seeds": {"search": 1, "report": seeds, "rescored": 2},
                "engine": "inline",
                "tracking": {"experiment": "an experiment"},
            }
        )
        assert open_and_run(config, store, quiet=True).status == "done"
        cells, trials = runs_in(store)
        votes = [cell for cell in cells.values() if cell.data.tags["crowdsweep.label"] == "vote"]
        (current,) = [cell for cell in votes if float(cell.data.params["smoothing"]) == smoothing]
        assert current.data.metrics["trials_ok"] == seeds
        assert current.info.run_name.startswith("vote · anesthesia")
        assert {cell.data.tags["crowdsweep.asked"] for cell in votes if cell is not current} <= {"false"}
        chosen = [cell for cell in cells.values() if cell.data.tags["crowdsweep.chosen"] == "true"]
        assert {cell.data.tags["crowdsweep.label"] for cell in chosen} == {"vote", "one-coin"}
        assert len(chosen) == 2
        assert {cell.data.metrics["trials_ok"] for cell in chosen} == {seeds}
        return {
            (run.data.params["smoothing"], run.data.tags["crowdsweep.seed"]): run.data.tags["crowdsweep.asked"]
            for run in trials.values()
            if run.data.tags["crowdsweep.label"] == "vote"
        }

    assert run(0.5, seeds=2) == {("0.5", "0"): "true", ("0.5", "1"): "true"}
    assert run(0.75, seeds=1) == {("0.5", "0"): "false", ("0.5", "1"): "false", ("0.75", "0"): "true"}
    assert run(0.5, seeds=1) == {("0.5", "0"): "true", ("0.5", "1"): "false", ("0.75", "0"): "false"}
    marks = {key: one.data.tags["crowdsweep.asked"] for key, one in runs_in(store)[1].items()}
    assert rebuild(read_journal(store), tracking_uri(store), "an experiment").written == 0
    assert {key: one.data.tags["crowdsweep.asked"] for key, one in runs_in(store)[1].items()} == marks


def test_what_is_too_long_is_cut_and_marked(store: Path) -> None:
    params = {f"p{number:03d}": number for number in range(250)}
    long = replace(spec(0), params={**params, "words": "w" * 10_000, "größe/µ?": [16, 16], "n" * 300: None})
    result = replace(
        ok(long.key).result,
        metrics={**{f"m{number:04d}": float(number) for number in range(1500)}, "bad": math.nan},
        objective=[float(step) for step in range(500)],
    )
    sweep(store, [TrialPlanned(spec=long), TrialFinished(result=result)])
    (run,) = runs_in(store)[1].values()
    assert run.info.status == "FINISHED"
    assert {run.data.params[f"p{number:03d}"] for number in range(250)} == {str(number) for number in range(250)}
    assert run.data.params["words"] == "w" * 5999 + "…"
    assert run.data.params["größe/µ_"] == "[16,16]"
    assert run.data.params["n" * 250] == "null"
    assert run.data.metrics["m1499"] == 1499
    assert "bad" not in run.data.metrics
    assert run.data.tags["crowdsweep.non_finite"] == "bad"
    history = MlflowClient(tracking_uri(store)).get_metric_history(run.info.run_id, "objective")
    assert len(history) == HISTORY_LIMIT
    assert (history[0].step, history[-1].step) == (0, 499)
    assert all(point.step == point.value for point in history)


def test_records_never_hold_what_is_not_finite() -> None:
    result = replace(ok("k").result, metrics={"a": math.inf, "b": 1.0}, objective=(math.nan, 2.0), wall_s=math.nan)
    record = trial_record(ShownTrial(spec=spec(0), label="m"), result, sweep="s", environment={})
    assert record.metrics["b"] == 1.0
    assert all(map(math.isfinite, record.metrics.values()))
    assert record.histories == {"objective": [(1, 2.0)]}
    assert record.tags["crowdsweep.non_finite"] == "a, objective"


def test_a_cell_reports_what_was_not_searched() -> None:
    shown = ShownTrial(spec=spec(0), label="m")
    searched = [CellTrial(phase="search", status=Status.OK, metrics={"a": 9.0})] * 3
    alone = cell_record(shown, searched, sweep="s")
    assert (alone.metrics["a_mean"], alone.metrics["a_sd"]) == (9.0, 0.0)
    reported = [
        CellTrial(phase="report", status=Status.OK, metrics={"a": 1.0}),
        CellTrial(phase="report", status=Status.FAILED),
        CellTrial(phase="report", status=Status.OK, metrics={"a": 5.0}, asked=False),
    ]
    both = cell_record(shown, [*searched, *reported], sweep="s")
    assert (both.metrics["a_mean"], both.metrics["a_n"], both.metrics["trials_failed"]) == (1.0, 1, 1)
    assert "a_sd" not in both.metrics
    assert cell_record(shown, reported[1:2], sweep="s").status == "FAILED"
    outdated = cell_record(shown, reported[2:], sweep="s")
    assert (outdated.metrics["a_mean"], outdated.tags["crowdsweep.asked"]) == (5.0, "false")


def test_where_runs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    with pytest.raises(BadInput, match=r"tracking\.uri or MLFLOW_TRACKING_URI"):
        tracking_uri("s3://bucket/x")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    assert tracking_uri(tmp_path) == "http://server:5000"
    assert tracking_uri(tmp_path, "sqlite:///x.db") == "sqlite:///x.db"
    assert without_credentials("sqlite:////a/b@c.db") == "sqlite:////a/b@c.db"


def test_nothing_is_printed(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sweep(store, outcomes())
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_run_ids_are_told_while_the_sweep_runs(store: Path) -> None:
    told: list[Event] = []
    mirror = MlflowMirror(store, experiment="an experiment", record=told.append)
    mirror.handle(started())
    for event in outcomes():
        mirror.handle(event)
    mirror.close()
    assert all(isinstance(event, RunsCreated) for event in told)
    assert {key for event in told if isinstance(event, RunsCreated) for key in event.runs} == {
        spec(0, groups=2).cell_key,
        *(spec(seed, groups=2).key for seed in SEEDS),
    }


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
        assert secret not in discreetly(said, given)
        assert unquote(secret) not in discreetly(said, given)


def test_a_secret_of_a_path_is_not_shown() -> None:
    assert without_credentials("https://host/api/token-4711/ml") == "https://host/api/ml"
    assert without_credentials("https://host/" + 40 * "a" + "/ml") == "https://host/ml"
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
    bring_along(there / "mlflow.db", (there / "mlartifacts").as_uri())
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
            tmp_path / place, experiment="an experiment", uri=uri, record=journal.handle, look=lambda j=journal: j.state
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


def test_mirror_waits_for_the_driver_that_writes(store: Path) -> None:
    journal = Journal(store)
    for event in (started(), *outcomes()):
        journal.handle(event)
    with pytest.raises(BadInput, match="a sweep runs here and writes MLflow itself"):
        rebuild_mirror(store)
    journal.close()
    assert "4 trials written" in rebuild_mirror(store)


class SlowServer(BaseHTTPRequestHandler):
    """Takes a connection and does not answer."""

    def do_GET(self) -> None:
        time.sleep(30)

    do_POST = do_GET

    def log_message(self, *words: object) -> None: ...


@pytest.mark.usefixtures("nobody_logged_in")
def test_ctrl_c_leaves_a_slow_server_to_mirror(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowServer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    presses, told = 0, []
    mirror = MlflowMirror(
        tmp_path,
        experiment="x",
        uri=f"http://127.0.0.1:{server.server_port}",
        presses=lambda: presses,
        tell=told.append,
    )
    for event in (started(), *outcomes()):
        mirror.handle(event)

    def press() -> None:
        nonlocal presses
        presses += 1

    threading.Timer(3.0, press).start()
    began = time.monotonic()
    mirror.close()
    took_s = time.monotonic() - began
    server.shutdown()
    server.server_close()
    assert 2.5 < took_s < 8.0
    assert told == [f"MLflow: 4 runs to go; Ctrl-C leaves them to `crowdsweep mirror {tmp_path}`"]
    assert "MLflow lacks 4 trials" in caplog.text


def test_after_a_second_ctrl_c_nothing_is_waited_for(tmp_path: Path) -> None:
    mirror = MlflowMirror(
        tmp_path,
        experiment="x",
        presses=lambda: 2,
        background=lambda idle: Background("MLflow", when_idle=idle),
    )
    mirror.handle(started())
    began = time.monotonic()
    mirror.close()
    assert time.monotonic() - began < 2.0
