"""A sweep that is tracked on an MLflow server of its own, which is killed in the middle and started again."""

import json
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from killable_server import STARTS_S, KillableServer
from mirror_checks import failed, ok, spec, started

from crowdsweep.record.events import Event, SweepFinished, SweepStatus, TrialPlanned
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.tracking.mlflow_runs import MlflowClient, MlflowMirror, rebuild

EXPERIMENT = "on a server"
CLOSES_S = 45.0


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KillableServer]:
    server = KillableServer(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def trials(seeds: Sequence[int]) -> list[Event]:
    events: list[Event] = []
    for seed in seeds:
        key = spec(seed).key
        events += [TrialPlanned(spec=spec(seed)), failed(key) if seed == 1 else ok(key, test_accuracy=seed / 10)]
    return events


def runs_on(server: KillableServer) -> dict[str, Any]:
    """Returns all runs by key; two of one key are an error."""
    client = MlflowClient(server.uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    if experiment is None:
        return {}
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    by_key = {run.data.tags["crowdsweep.key"]: run for run in runs}
    assert len(by_key) == len(runs), "recorded twice"
    return by_key


def check_runs(server: KillableServer, seeds: Sequence[int]) -> None:
    runs = runs_on(server)
    cell = runs.pop(spec(0).cell_key)
    assert (cell.info.status, cell.data.tags["crowdsweep.trials_ok"]) == ("FINISHED", str(len(seeds) - 1))
    assert cell.data.params["smoothing"] == "0.01"
    assert set(runs) == {spec(seed).key for seed in seeds}
    for seed in seeds:
        run = runs[spec(seed).key]
        assert run.data.tags["mlflow.parentRunId"] == cell.info.run_id
        assert run.data.params["seed"] == str(seed)
        assert run.info.status == ("FAILED" if seed == 1 else "FINISHED")
        if seed != 1:
            assert run.data.metrics["test_accuracy"] == pytest.approx(seed / 10)


@pytest.mark.long
def test_a_server_that_dies_in_the_middle(
    server: KillableServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    journal = Journal(store)
    mirror = MlflowMirror(store, experiment=EXPERIMENT, record=journal.handle, look=journal.snapshot)

    def tell(events: Sequence[Event]) -> None:
        for event in events:
            journal.handle(event)
            mirror.handle(event)

    tell([started(), *trials((0, 1, 2))])
    deadline = time.monotonic() + STARTS_S
    while sum(run.info.status != "RUNNING" for run in runs_on(server).values()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    client = MlflowClient(server.uri)
    run = runs_on(server)[spec(2).key]
    (data,) = run.inputs.dataset_inputs
    assert (data.dataset.name, data.dataset.digest) == ("digits", "0123456789abcdef")
    assert [point.value for point in client.get_metric_history(run.info.run_id, "objective")] == [-3.0, -2.5, -2.25]
    confusion = Path(client.download_artifacts(run.info.run_id, "confusion.json", str(tmp_path)))
    assert json.loads(confusion.read_text())["probabilities"] == [[0.9, 0.1], [0.2, 0.8]]
    assert list((tmp_path / "artifacts").rglob("traceback.txt")), "artifacts are the server's to keep"
    assert [path.name for path in store.iterdir() if "mlflow" in path.name or "mlartifacts" in path.name] == []

    server.kill()
    with caplog.at_level(logging.WARNING):
        tell([*trials((3, 4)), SweepFinished(status=SweepStatus.DONE, time=2.0)])
        began = time.monotonic()
        mirror.close()
        took = time.monotonic() - began
    journal.close()
    assert took < CLOSES_S
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 1, told
    assert told[0].startswith("MLflow cannot be written; the sweep continues")
    assert mirror.lacks == "2 trials"
    state = read_journal(store)
    assert len(state.results) == 5, "the record lost nothing"

    server.start()
    done = rebuild(state, server.uri, EXPERIMENT)
    assert (done.found, done.written, done.refused) == (3, 2, 0)
    check_runs(server, (0, 1, 2, 3, 4))
    assert rebuild(state, server.uri, EXPERIMENT).written == 0
