"""A tracked sweep whose model is registered, as MLflow shows and serves it, and the same probabilities everywhere."""

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from browser import Browser, chromium
from mlflow.entities import Run

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.data import catalogue
from crowdsweep.labelling.classifiers import load_classifier
from crowdsweep.tracking.mlflow_runs import MlflowClient, tracking_uri

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("mlflow pages")]
PICTURES = os.environ.get("CROWDSWEEP_PICTURES")
"""A folder that the pictures are kept in, for somebody who wants to look at them."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a dataset `crowd` and the record `store` of a sweep over it, both made by commands."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        command("data", "simulate", folder / "crowd", "--source", "digits", "--set", "annotators=30")
        sweep = {
            "name": "shown",
            "datasets": [str(folder / "crowd")],
            "models": [
                "majority-vote",
                {"name": "soft-mv", "params": {"epochs": 20, "steps": 0}},
                {
                    "name": "dl-ds",
                    "params": {"epochs": 20, "steps": 0},
                    "search": {"smoothing": {"values": [0.01, 1.0]}, "dropout": {"values": [0.0, 0.5]}},
                },
            ],
            "seeds": {"search": 1, "report": 2},
            "sampler": {"kind": "grid"},
            "engine": "inline",
            "tracking": {"register": "crowd labels"},
        }
        (folder / "shown.yaml").write_text(yaml.safe_dump(sweep))
        command("run", folder / "shown.yaml", "--store", folder / "store", "--quiet")
        yield folder


def command(*words: str | Path) -> None:
    assert run_command_line([str(word) for word in words]) == 0


def runs_of(store: Path) -> dict[str, list[Run]]:
    """Returns the runs of each kind, in the order in which MLflow's pages list them."""
    client = MlflowClient(tracking_uri(store))
    experiment = client.get_experiment_by_name("shown")
    found: dict[str, list[Run]] = {}
    order = ["tags.`crowdsweep.order` ASC"]
    for run in client.search_runs([experiment.experiment_id], max_results=1000, order_by=order):
        found.setdefault(run.data.tags["crowdsweep.kind"], []).append(run)
    return found


def test_a_sweep_stands_on_top_and_its_cells_have_ranks(place: Path) -> None:
    runs = runs_of(place / "store")
    (top,) = runs["sweep"]
    first, second, *others = runs["cell"]
    names = [run.info.run_name for run in runs["cell"]]
    assert [re.fullmatch(r"(\d) · (dl-ds|soft-mv) · crowd · \d\d\.\d %", name)[1] for name in names[:2]] == ["1", "2"]
    assert all(re.fullmatch(r"dl-ds · crowd · dropout 0\.[05], smoothing [\d.]+", name) for name in names[2:5])
    assert names[5] == "majority-vote · crowd"
    assert first.data.metrics["Score"] >= second.data.metrics["Score"]
    assert first.data.metrics["Score"] == pytest.approx(first.data.metrics["test_accuracy"], abs=1e-4)
    assert first.data.metrics["Score_low"] <= first.data.metrics["Score"] <= first.data.metrics["Score_high"]
    assert (first.data.metrics["Score_rank"], second.data.metrics["Score_rank"]) == (1, 2)
    values = [run.data.metrics["Score_searched"] for run in others[:3]]
    assert values == sorted(values, reverse=True)
    assert top.data.metrics["Score"] == first.data.metrics["Score"]
    assert top.data.tags["crowdsweep.trials_ok"] == str(len(runs["trial"]))
    client = MlflowClient(tracking_uri(place / "store"))
    files = {file.path for file in client.list_artifacts(top.info.run_id)}
    assert files == {"report.html", "table.md", "table.csv", "table.tex", "sweep.yaml"}
    report = Path(client.download_artifacts(top.info.run_id, "report.html")).read_bytes()
    assert report == (place / "store" / "report.html").read_bytes()
    description = top.data.tags["mlflow.note.content"]
    assert "| 1    | " in description
    assert "Compare the 4 points of dl-ds on crowd" in description


def test_what_is_rebuilt_says_the_same_and_changes_nothing_twice(place: Path, tmp_path: Path) -> None:
    def told(store: Path) -> list[tuple[Any, ...]]:
        runs = [run for several in runs_of(store).values() for run in several]
        own = ("mlflow.note.content", "mlflow.parentRunId")  # with ids of runs
        facts = [
            (run.info.run_name, run.data.metrics, {k: v for k, v in run.data.tags.items() if k not in own})
            for run in runs
        ]
        return sorted(facts, key=lambda fact: fact[2]["crowdsweep.key"])

    copy = tmp_path / "copy"
    shutil.copytree(place / "store", copy, ignore=shutil.ignore_patterns("mlflow.db", "mlartifacts"))
    command("mirror", copy)
    assert told(copy) == told(place / "store")
    before = rows_of(copy / "mlflow.db")
    command("mirror", copy)
    assert rows_of(copy / "mlflow.db") == before


def rows_of(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as opened:
        return list(opened.iterdump())


def test_a_model_that_is_logged_again_is_not_logged_twice(place: Path) -> None:
    client = MlflowClient(tracking_uri(place / "store"))
    (before,) = client.search_model_versions("name = 'crowd labels'")
    command("label", place / "store")
    experiment = client.get_experiment_by_name("shown").experiment_id
    (model,) = client.search_logged_models([experiment])
    (after,) = client.search_model_versions("name = 'crowd labels'")
    assert (before.version, before.source) == (after.version, after.source) == (1, model.artifact_location)
    (top,) = runs_of(place / "store")["sweep"]
    assert model.source_run_id == top.info.run_id
    assert model.tags["dataset"] == "digits"


def test_everything_that_labels_gives_the_same_probabilities(place: Path, tmp_path: Path) -> None:
    """The command's classifier and table, Python, the estimator, and a server that MLflow starts, of a moved store."""
    store = tmp_path / "moved"
    shutil.copytree(place / "store", store)
    labels = store / "labels"
    recipe = yaml.safe_load((labels / "label.yaml").read_text())
    data = cs.load(place / "crowd")
    features = catalogue.load(str(place / "crowd"), {}).items.features
    command("mirror", store)  # finds the moved artifacts, as `ui` does
    served = served_probabilities(store, features[-40:])
    saved = load_classifier(labels / "classifier")
    np.testing.assert_allclose(served, saved.predict(features[-40:]), rtol=0, atol=1e-15)
    settings = {
        name: recipe["params"][name] for name in ("smoothing", "dropout", "epochs", "steps") if name in recipe["params"]
    }
    fitted = cs.fit(recipe["model"], data, seeds=2, **settings)
    of_python = np.stack([column.to_numpy() for column in fitted.predict_proba(features).columns], axis=1)
    np.testing.assert_array_equal(of_python[-40:], saved.predict(features)[-40:])
    estimator = cs.CrowdClassifier(recipe["model"], seeds=2, **settings).fit(None, data)
    np.testing.assert_array_equal(estimator.predict_proba(features), of_python)
    table = pq.read_table(labels / "raw-probabilities.parquet")
    unseen = pq.read_table(labels / "labels.parquet")["answers"].to_numpy() == 0
    written = np.stack([table[name].to_numpy() for name in table.column_names[1:]], axis=1)
    assert unseen.sum() > 100
    np.testing.assert_allclose(written[unseen], of_python[unseen], rtol=0, atol=1e-15)


def served_probabilities(store: Path, features: np.ndarray) -> np.ndarray:
    """Starts MLflow's server of the registered model, and returns its answer to one request."""
    port = free_port()
    words = [sys.executable, "-m", "mlflow", "models", "serve", "--env-manager", "local", "--port", str(port)]
    environment = {**os.environ, "MLFLOW_TRACKING_URI": tracking_uri(store), "MLFLOW_DISABLE_TELEMETRY": "true"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    with running([*words, "-m", "models:/crowd labels/1"], environment):
        reached(f"http://127.0.0.1:{port}/ping")
        body = json.dumps({"inputs": features.tolist()}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/invocations", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return np.array(json.load(answer)["predictions"])


def test_a_person_walks_through_mlflows_pages(place: Path, tmp_path: Path) -> None:
    """The list of runs, the sweep's run, its report, a comparison of a search's points; and a trial's curve."""
    if chromium() is None and os.environ.get("CI") != "true":
        pytest.skip("there is no chromium: apt-get install chromium")
    pictures = Path(PICTURES) if PICTURES else tmp_path
    store, port = place / "store", free_port()
    runs_shown = "#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=crowdsweep"
    words = [sys.executable, "-m", "crowdsweep", "ui", str(store), "--port", str(port)]
    with running(words, dict(os.environ), stdout=subprocess.PIPE) as server, Browser(tmp_path / "profile") as page:
        assert server.stdout is not None
        link = re.search(rf"http://127.0.0.1:{port}/\?token=\S+", server.stdout.readline())
        assert link is not None
        assert link[0].endswith(runs_shown)
        reached(f"http://127.0.0.1:{port}/health")
        page.open(f"http://127.0.0.1:{port}/{runs_shown}")
        page.until_shown("needs the link")
        page.open(link[0])
        runs = runs_of(store)
        first, (top,) = runs["cell"][0], runs["sweep"]
        page.until_shown("shown", first.info.run_name, "Score_high")
        page.until_shown("6 matching runs" if len(runs["cell"]) == 5 else "7 matching runs")
        page.picture(pictures / "runs.png")
        shown = page.text()
        assert "Model training" in shown
        assert shown.index(first.info.run_name) < shown.index(runs["cell"][1].info.run_name)
        assert "seed 0" not in shown
        page.open(f"http://127.0.0.1:{port}/#/experiments/1/runs/{top.info.run_id}?workflowType=machine_learning")
        page.until_shown("Compare the 4 points", "test accuracy, %", "Logged models")
        page.picture(pictures / "sweep.png")
        links = page.value("[...document.querySelectorAll('a')].map(a => [a.innerText, a.href])")
        (report,) = [to for said, to in links if said == "report.html"]
        (compare,) = [to for said, to in links if said.startswith("Compare the 4 points")]
        page.open(report)
        page.until("document.querySelector('iframe')?.src.startsWith('blob:')")  # what it shows is shut off from us
        written = page.value("fetch(document.querySelector('iframe').src).then(answer => answer.text())")
        assert written == (store / "report.html").read_text()
        page.picture(pictures / "report.png")
        page.open(compare)
        page.until_shown("Parallel Coordinates Plot", "dev_accuracy")
        page.until("document.querySelectorAll('.js-plotly-plot .y-axis').length == 3")
        axes = page.value("[...document.querySelectorAll('.js-plotly-plot .axis-title')].map(e => e.textContent)")
        assert axes == ["dropout", "smoothing", "dev_accuracy"]
        page.picture(pictures / "compare.png")
        trial = next(run for run in runs["trial"] if run.data.tags["mlflow.parentRunId"] == first.info.run_id)
        curves = f"#/experiments/1/runs/{trial.info.run_id}/model-metrics?workflowType=machine_learning"
        page.open(f"http://127.0.0.1:{port}/{curves}")
        page.until_shown("Step", f"{trial.info.run_name} (dev_accuracy)")  # of a line; bars have no steps
        page.picture(pictures / "curve.png")
        page.open(f"http://127.0.0.1:{port}/#/experiments")  # MLflow's own rows say nothing of the kind of pages
        page.until_shown("shown", "Model training")
        page.picture(pictures / "experiments.png")
        page.value('document.querySelector(\'main a[href*="/experiments/1"], a[href*="/experiments/1"]\').click()')
        page.until_shown(first.info.run_name, "matching runs")
        page.picture(pictures / "row.png")


def free_port() -> int:
    """Returns a port that nobody listens on and that browsers go to."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port > 20_000:  # browsers refuse some that are lower
            return port


@contextmanager
def running(words: list[str], environment: dict[str, str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    """Runs a server and everything that it starts, for a while."""
    server = subprocess.Popen(
        words,
        env=environment,
        start_new_session=True,
        text=True,
        **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more},
    )
    try:
        yield server
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)
        if server.stdout is not None:
            server.stdout.close()


def reached(url: str) -> None:
    """Waits until a server answers."""
    deadline = time.monotonic() + 180
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10):
                return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < deadline, f"nothing answers at {url}"
            time.sleep(0.5)
