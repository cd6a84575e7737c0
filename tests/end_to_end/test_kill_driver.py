"""kill -9 of the driver at moments that nobody chose: run again until done, nothing is lost and nothing done twice."""

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from imported_drivers import imported_drivers

from crowdsweep import app
from crowdsweep.record.codec import decode
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.sweep.plan import make_plan
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig

KILLS = (3, pytest.param(20, marks=pytest.mark.long))


@pytest.fixture(scope="module")
def drivers() -> Iterator[ForkServerContext]:
    with imported_drivers(CROWDSWEEP_PLUGINS=str(Path(__file__).parents[1] / "misbehaving")) as context:
        yield context


def config_of(name: str, **changes: Any) -> SweepConfig:
    mapping: dict[str, Any] = {
        "name": name,
        "datasets": ["anesthesia"],
        "models": [
            {"name": "slow", "params": {"steps": 2, "pause_s": 0.02, "smoothing": 0.5}},
            {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}},
            {"name": "poisoned", "params": {"every": 40}},
        ],
        "budget": {"points": 12, "failed_trials": 0.5},
        "seeds": {"search": 3, "report": 60, "rescored": 2},
        "engine": "inline",
        "pack": 2,
        "tracking": {"enabled": False},
    }
    return parse_sweep({**mapping, **changes})


def killed_at_random(
    drivers: ForkServerContext, config: SweepConfig, store: Path, kills: int, lives_s: tuple[float, float]
) -> int:
    """Starts drivers and kills them; returns how many were at work when it hit them."""
    moments = random.Random(os.urandom(8))
    hits = 0
    for _ in range(kills):
        driver = drivers.Process(target=app.run, args=(config, store), kwargs={"quiet": True})
        driver.start()
        driver.join(moments.uniform(*lives_s))
        hits += driver.is_alive()
        driver.kill()
        driver.join()
        assert driver.exitcode in (0, -signal.SIGKILL), "a driver failed on its own"
    return hits


def finished_rows(store: Path) -> Counter[str]:
    events = (decode(row.text) for row in open_rows(store).read_rows())
    return Counter(event.result.key for event in events if isinstance(event, TrialFinished))


def assert_same_sweep(store: Path, reference: Path) -> None:
    """Each trial of the plan stands there once, with the numbers of the sweep that nobody disturbed."""
    got, expected = read_journal(store), read_journal(reference)
    assert set(got.specs) == set(expected.specs)
    assert set(got.results) == set(expected.results) == set(expected.specs)
    assert set(finished_rows(store).values()) == {1}
    assert dict(got.proposals) == dict(expected.proposals)
    assert dict(got.selected) == dict(expected.selected)
    for key, result in expected.results.items():
        assert got.results[key].status == result.status
        assert dict(got.results[key].metrics) == pytest.approx(dict(result.metrics), rel=1e-6)


@pytest.mark.parametrize("kills", KILLS)
def test_driver_killed_again_and_again(drivers: ForkServerContext, tmp_path: Path, kills: int) -> None:
    config = config_of("killed")
    hits = killed_at_random(drivers, config, tmp_path / "killed", kills, (0.05, 0.7))
    assert hits >= kills // 2, "most drivers had ended before they were killed: the sweep is too short to say anything"
    outcome = app.run(config, tmp_path / "killed", quiet=True)
    reference = app.run(config, tmp_path / "reference", quiet=True)
    assert outcome.status == reference.status == "done"
    assert outcome.failed == reference.failed == 2
    assert outcome.finished == reference.ran == make_plan(config).n_trials
    assert_same_sweep(tmp_path / "killed", tmp_path / "reference")


@pytest.mark.long
def test_driver_killed_with_mlflow(drivers: ForkServerContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow ends up with each trial once, the same numbers, and nothing RUNNING."""
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    config = config_of(
        "mirrored", seeds={"search": 2, "report": 12}, budget={"points": 4, "failed_trials": 1.0}, tracking={}
    )
    store = tmp_path / "killed"
    killed_at_random(drivers, config, store, 2, (3.0, 6.0))
    assert app.run(config, store, quiet=True).status == "done"
    app.run(
        config_of("mirrored", seeds={"search": 2, "report": 12}, budget={"points": 4, "failed_trials": 1.0}),
        tmp_path / "reference",
        quiet=True,
    )
    assert_same_sweep(store, tmp_path / "reference")
    client = MlflowClient(f"sqlite:///{store.absolute() / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mirrored")
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    assert "RUNNING" not in {run.info.status for run in runs}
    trials = {run.data.tags["crowdsweep.key"]: run for run in runs if run.data.tags.get("crowdsweep.kind") == "trial"}
    results = read_journal(store).results
    assert set(trials) == set(results)
    assert sum(run.data.tags.get("crowdsweep.kind") == "trial" for run in runs) == len(results)
    for key, result in results.items():
        logged = {name: value for name, value in trials[key].data.metrics.items() if name in result.metrics}
        assert logged == pytest.approx(dict(result.metrics))


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("kills", [1, 2])
def test_driver_killed_with_its_ray_cluster(drivers: ForkServerContext, tmp_path: Path, kills: int) -> None:
    config = config_of("on-ray", engine="ray", seeds={"search": 3, "report": 30})
    killed_at_random(drivers, config, tmp_path / "killed", kills, (9.0, 12.0))
    done = drivers.Process(target=app.run, args=(config, tmp_path / "killed"), kwargs={"quiet": True})
    done.start()
    done.join()
    assert done.exitcode == 0
    app.run(config_of("on-ray", seeds={"search": 3, "report": 30}), tmp_path / "reference", quiet=True)
    assert_same_sweep(tmp_path / "killed", tmp_path / "reference")
