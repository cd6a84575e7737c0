"""kill -9 of the driver in the middle of long fits: whoever goes on begins at their checkpoints."""

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from imported_drivers import imported_drivers

from crowdsweep import app
from crowdsweep.record.journal import read_journal
from crowdsweep.record.result import TrialResult
from crowdsweep.record.store_files import CHECKPOINTS
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig

LONGEST_S = 120.0
KILLS = 3


@pytest.fixture(scope="module")
def drivers() -> Iterator[ForkServerContext]:
    with imported_drivers() as context:
        yield context


def config_of(**changes: Any) -> SweepConfig:
    mapping: dict[str, Any] = {
        "name": "long",
        "datasets": [{"name": "digits", "annotators": 20}],
        "models": [{"name": "soft-mv", "params": {"epochs": 200, "steps": 0, "patience": None, "hidden": [64]}}],
        "metric": "dev_accuracy",
        "seeds": {"report": 2},
        "checkpoint_minutes": 0.01,
        "engine": "inline",
        "tracking": {"enabled": False},
    }
    return parse_sweep({**mapping, **changes})


def steps(store: Path) -> list[int]:
    return sorted(int(path.name.split("-")[1]) for path in (store / CHECKPOINTS).glob("*"))


def kill_behind(drivers: ForkServerContext, config: SweepConfig, store: Path, step: int) -> int:
    """Starts a driver, and kills it as soon as every trial has a checkpoint behind a step; returns the first one's."""
    driver = drivers.Process(target=app.run, args=(config, store), kwargs={"quiet": True})
    driver.start()
    until = time.monotonic() + LONGEST_S
    while driver.is_alive() and time.monotonic() < until:
        if len(found := steps(store)) == config.seeds.report and found[0] > step:
            break
        time.sleep(0.02)
    driver.kill()
    driver.join()
    assert driver.exitcode == -signal.SIGKILL, "it was not at work any more"
    return steps(store)[0]


def numbers(store: Path) -> dict[str, TrialResult]:
    times = {"wall_s": 0.0, "batch_wall_s": 0.0, "peak_bytes": 0, "resumed": 0, "kept": {}}
    return {key: replace(result, **times) for key, result in read_journal(store).results.items()}


def check_killed(drivers: ForkServerContext, folder: Path, **where: Any) -> None:
    config, step = config_of(**where), 0
    for _ in range(KILLS):
        step = kill_behind(drivers, config, folder / "killed", step)
    assert app.run(config, folder / "killed", quiet=True).status == "done"
    undisturbed = config_of(checkpoint_minutes=None, **where)  # as many threads there: sums round as they do here
    assert app.run(undisturbed, folder / "reference", quiet=True).status == "done"
    assert [result.resumed >= step for result in read_journal(folder / "killed").results.values()] == [True, True]
    assert numbers(folder / "killed") == numbers(folder / "reference")
    assert not (folder / "killed" / CHECKPOINTS).exists()


@pytest.mark.long
def test_a_killed_driver(drivers: ForkServerContext, tmp_path: Path) -> None:
    check_killed(drivers, tmp_path)


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_a_killed_driver_on_ray(drivers: ForkServerContext, tmp_path: Path) -> None:
    check_killed(drivers, tmp_path, engine="ray", resources={"cpu": 2})
