"""One small tracked sweep, looked at through every command that reads it."""

import csv
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from crowdsweep.cli import run_command_line

SWEEP = """
name: small
datasets: [anesthesia, {name: gaussians, annotators: 40, items: 60}]
models:
  - majority-vote
  - {name: dawid-skene, search: {smoothing: {values: [0.01, 1.0]}}}
seeds: {search: 2, report: 3}
engine: inline
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs the sweep as a user would, in a process of its own, and returns its record."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.yaml").write_text(SWEEP)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    done = subprocess.run(
        [sys.executable, "-m", "crowdsweep", "run", "small.yaml"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for promised in ("report.html", "results.parquet", "crowdsweep ui crowdsweep-runs/small"):
        assert promised in done.stdout
    return folder / "crowdsweep-runs/small"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert run_command_line([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_results_have_one_row_a_trial_and_the_promised_columns(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "results", store, "--format", "csv"))))
    assert len(rows) == 12
    promised = [
        "sweep",
        "phase",
        "model",
        "dataset",
        "dataset_params",
        "point",
        "seed",
        "status",
        "key",
        "wall_s",
        "batch_wall_s",
        "batch_size",
        "peak_bytes",
        "iterations",
        "device",
        "host",
    ]
    assert list(rows[0])[: len(promised)] == promised
    assert {row["status"] for row in rows} == {"ok"}
    assert all(json.loads(row["point"]) is not None for row in rows)
    everything = json.loads(printed(capsys, "results", store, "--format", "json", "--phase", "all"))
    assert len(everything) == 12 + 2 * 2 * 2
    assert printed(capsys, "results", store, "--format", "md").startswith("| sweep")
    assert "\\begin{tabular}" in printed(capsys, "results", store, "--format", "latex")


def test_status_and_report(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "status", store, "--json"))
    assert found["status"] == "done"
    assert found["done"] == found["total"] == 20
    assert {best["dataset"].split()[0] for best in found["best"]} == {"anesthesia", "gaussians"}
    assert "20 done, 0 failed, 0 to go" in printed(capsys, "status", store)
    (store / "report.html").unlink()
    assert printed(capsys, "report", store).strip() == str(store / "report.html")
    assert (store / "report.html").is_file()


def test_replay_finds_the_same_numbers(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = csv.DictReader(io.StringIO(printed(capsys, "results", store, "--format", "csv", "--phase", "all")))
    for key in [row["key"] for row in rows][::5]:
        assert "as recorded" in printed(capsys, "replay", key[:12], "--store", store)


def test_run_again_does_nothing_again(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (store / "journal.jsonl").read_text().count("trial_finished")
    started = time.monotonic()
    printed(capsys, "run", store.parent.parent / "small.yaml", "--store", store, "--quiet")
    assert (store / "journal.jsonl").read_text().count("trial_finished") == before
    assert time.monotonic() - started < 120


def test_the_ui_shows_the_runs(store: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "crowdsweep", "ui", str(store), "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        found = wait_for(f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/get-by-name?experiment_name=small")
        experiment = found["experiment"]["experiment_id"]
        query = {"experiment_ids": [experiment], "max_results": 100}
        runs = wait_for(f"http://127.0.0.1:{port}/api/2.0/mlflow/runs/search", query)["runs"]
    finally:
        os.killpg(server.pid, 15)
        server.wait(timeout=30)
    nested = [run for run in runs if any(tag["key"] == "mlflow.parentRunId" for tag in run["data"]["tags"])]
    assert len(nested) == 20
    assert {run["info"]["status"] for run in runs} == {"FINISHED"}


def wait_for(url: str, body: dict | None = None) -> dict:
    """Returns what a server answers, once it does."""
    deadline = time.monotonic() + 120
    data = None if body is None else json.dumps(body).encode()
    while True:
        request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
