"""One small tracked sweep, looked at through every command that reads it."""

import csv
import io
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
from pathlib import Path

import pytest
from warm import WarmServer

from crowdsweep.cli.commands import run_command_line

SWEEP = """
name: small
datasets: [anesthesia, {name: gaussians, annotators: 40, items: 60}]
models:
  - majority-vote
  - {name: dawid-skene, search: {smoothing: {values: [0.01, 1.0]}}}
seeds: {search: 2, report: 3}
engine: inline
"""


pytestmark = pytest.mark.xdist_group("user commands")  # one sweep for all


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, warm: WarmServer) -> Path:
    """Runs the sweep as a user would, in a process of its own, and returns its record."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "small.yaml").write_text(SWEEP)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    done = warm.run(["run", "small.yaml"], cwd=folder, env=environment)
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
        "chosen",
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
        "flags",
        "device",
        "host",
    ]
    assert list(rows[0])[: len(promised)] == promised
    assert {row["status"] for row in rows} == {"ok"}
    assert {(row["model"], *json.loads(row["point"])) for row in rows} == {
        ("majority-vote",),
        ("dawid-skene", "smoothing"),
    }
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


def test_without_gold_held_out_annotations_rank_and_the_report_says_so(store: Path) -> None:
    table = (store / "table.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| ")]
    by_dataset = {row[0].split()[0]: row for row in rows[2:]}
    columns = rows[0]
    anesthesia, gaussians = by_dataset["anesthesia"], by_dataset["gaussians"]
    assert anesthesia[columns.index("metric")] == "held-out log-likelihood, nats"
    assert gaussians[columns.index("metric")].startswith(("train accuracy", "test accuracy"))
    assert anesthesia[columns.index("95 % interval")].startswith("[")
    sentence = "anesthesia has neither gold nor dev or test items"
    assert table.count(sentence) == (store / "report.html").read_text().count(sentence) == 1


def test_runs_of_cells_show_the_confusion_of_the_crowd(store: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{store.absolute() / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("small").experiment_id], max_results=1000)
    cells = [run.info.run_id for run in runs if run.data.tags["crowdsweep.kind"] == "cell"]
    drawn = [cell for cell in cells if "confusion.png" in {file.path for file in client.list_artifacts(cell)}]
    assert drawn
    picture = Path(client.download_artifacts(drawn[0], "confusion.png")).read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_out_of_time_is_said_with_the_way_to_go_on_and_counts_every_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep, record = tmp_path / "short.yaml", tmp_path / "record"
    sweep.write_text(SWEEP.replace("small", "short") + "tracking: {enabled: false}\nbudget: {hours: 1.0e-9}\n")
    for _ in range(2):
        said = printed(capsys, "run", sweep, "--store", record, "--quiet")
        assert "out of time: budget.hours (1e-09) is used up" in said
        assert f"crowdsweep run {sweep} --store {record} --set budget.hours=" in said
        assert (record / "report.html").is_file()
    said = printed(capsys, "run", sweep, "--store", record, "--quiet", "--set", "budget.hours=1")
    assert "out of time" not in said
    assert json.loads(printed(capsys, "status", record, "--json"))["status"] == "done"


def test_the_command_runs_its_numeric_libraries_on_one_thread_unless_told_otherwise() -> None:
    script = "import os, sys, crowdsweep.__main__; print(os.environ['OMP_NUM_THREADS'], 'numpy' in sys.modules)"
    plain = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    for environment, expected in ((plain, "1 False"), ({**plain, "OMP_NUM_THREADS": "3"}, "3 False")):
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected


def test_replay_finds_the_same_numbers(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = csv.DictReader(io.StringIO(printed(capsys, "results", store, "--format", "csv", "--phase", "all")))
    keys = [row["key"] for row in rows][::5]
    assert len(keys) == 4
    for key in keys:
        assert printed(capsys, "replay", key[:12], "--store", store).splitlines()[-1] == "as recorded"


def test_run_again_does_nothing_again(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (store / "journal.jsonl").read_text().count("trial_finished")
    printed(capsys, "run", store.parent.parent / "small.yaml", "--store", store, "--quiet")
    assert (store / "journal.jsonl").read_text().count("trial_finished") == before


def test_the_ui_shows_the_runs_and_says_little_else(store: Path, tmp_path: Path, warm: WarmServer) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (tmp_path / "said").open("wb") as said:
        server = warm.start(["ui", str(store), "--port", str(port)], cwd=tmp_path, stdout=said, stderr=said)
    try:
        page = f"http://127.0.0.1:{port}"
        while server.poll() is None and "token=" not in (tmp_path / "said").read_text():
            time.sleep(0.05)
        with socket.socket() as asked:
            assert asked.connect_ex(("127.0.0.1", port)) == 0, "the link is shown before it can be followed"
        wait_for(f"{page}/health")
        token = re.search(r"/\?token=([\w-]+)#", (tmp_path / "said").read_text())
        assert token is not None
        api = f"{page}/api/2.0/mlflow"
        found = wait_for(f"{api}/experiments/get-by-name?experiment_name=small", token=token[1])
        experiment = found["experiment"]["experiment_id"]
        query = {"experiment_ids": [experiment], "max_results": 100}
        runs = wait_for(f"{api}/runs/search", query, token=token[1])["runs"]
        some = runs[0]["info"]["run_id"]
        for url, body in (
            (page, None),
            (f"{page}/get-artifact?path=report.html&run_uuid={some}", None),
            (f"{api}/runs/delete", {"run_id": some}),
            (f"{api}/runs/log-metric", {"run_id": some, "key": "train_accuracy", "value": 0.99, "timestamp": 0}),
        ):
            for wrong in ("", "another"):
                with pytest.raises(urllib.error.HTTPError) as refused:
                    ask(url, body, wrong)
                assert refused.value.code == 401
                refused.value.close()
    finally:
        os.killpg(server.pid, signal.SIGINT)
        server.wait(timeout=30)
    assert server.returncode == 0
    lines = (tmp_path / "said").read_text().splitlines()
    assert [line for line in lines if "starting MLflow's server" not in line] == [
        line for line in lines if f"http://127.0.0.1:{port}" in line
    ]
    nested = [run for run in runs if any(tag["key"] == "mlflow.parentRunId" for tag in run["data"]["tags"])]
    assert len(nested) == 20
    assert {run["info"]["status"] for run in runs} == {"FINISHED"}


def test_a_busy_port_is_told_with_a_free_one(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert run_command_line(["ui", str(store), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"port {port} is busy, another program listens there; give another one, such as --port " in said


def ask(url: str, body: dict | None = None, token: str = "") -> dict:
    """Returns what a server answers to whoever has that token."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers), timeout=10) as answer:
        said = answer.read()
    return json.loads(said) if said.startswith(b"{") else {}


def wait_for(url: str, body: dict | None = None, token: str = "") -> dict:
    """Returns what a server answers, once it does."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return ask(url, body, token)
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
