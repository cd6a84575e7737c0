"""kill -9 of the driver while fits are stopped early: whoever goes on stops the same points at the same steps."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from imported_drivers import imported_drivers

from crowdsweep import app
from crowdsweep.record.journal import read_journal
from crowdsweep.record.result import StoppedEarly
from crowdsweep.record.store_files import JOURNAL_FILE
from crowdsweep.sweep.replay import replay_trial
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig

LEARNING = Path(__file__).parents[1] / "learning"
N_SEARCHED = 28  # trials
TEN = tuple(range(2, 22, 2))
LONGEST_S = 120.0


@pytest.fixture(scope="module")
def drivers() -> Iterator[ForkServerContext]:
    with imported_drivers(CROWDSWEEP_PLUGINS=str(LEARNING)) as context:
        yield context


def config_of(**changes: Any) -> SweepConfig:
    space = {"noise": {"min": 0.1, "max": 12.0}, "pause_s": {"values": [0.002, 0.006]}}
    mapping: dict[str, Any] = {
        "name": "stopped",
        "datasets": [{"name": "digits", "annotators": 20}],
        "models": [{"name": "rising", "search": space}],
        "metric": "dev_accuracy",
        "budget": {"points": N_SEARCHED // 2},
        "seeds": {"search": 2, "report": 2},
        "sampler": {"kind": "random", "parallel": 2},
        "early_stop": {"kind": "median"},
        "report_every": 1,
        "engine": "inline",
        "pack": 1,
        "tracking": {"enabled": False},
    }
    return parse_sweep({**mapping, **changes})


def kill_once_it_has(drivers: ForkServerContext, config: SweepConfig, store: Path, n_results: int) -> None:
    """Starts a driver, and kills it as soon as the record has so many results."""
    driver = drivers.Process(target=app.run, args=(config, store), kwargs={"quiet": True})
    driver.start()
    until = time.monotonic() + LONGEST_S
    while driver.is_alive() and time.monotonic() < until:
        with suppress(FileNotFoundError):  # it has written nothing yet
            if (store / JOURNAL_FILE).read_bytes().count(b'"kind":"trial_finished"') >= n_results:
                break
        time.sleep(0.02)
    driver.kill()
    driver.join()
    assert driver.exitcode == -signal.SIGKILL, f"it was not at work when it had {n_results} results"


def stops(store: Path) -> dict[str, StoppedEarly | None]:
    return {key: result.stopped_early for key, result in read_journal(store).results.items()}


def check_killed(drivers: ForkServerContext, config: SweepConfig, folder: Path, places: Sequence[int]) -> None:
    for n_results in places:
        kill_once_it_has(drivers, config, folder / "killed", n_results)
    assert app.run(config, folder / "killed", quiet=True).status == "done"
    assert app.run(config_of(), folder / "reference", quiet=True).status == "done"
    expected = stops(folder / "reference")
    assert stops(folder / "killed") == expected
    assert sum(stop is not None for stop in expected.values()) >= N_SEARCHED // 5
    got, whole = read_journal(folder / "killed"), read_journal(folder / "reference")
    assert (dict(got.values), dict(got.selected)) == (dict(whole.values), dict(whole.selected))
    stopped = next(key for key, stop in expected.items() if stop is not None)
    again = replay_trial(stopped, [folder / "killed"])
    assert again.same, again.describe()
    assert again.now.stopped_early == expected[stopped]


@pytest.mark.parametrize("places", [(9,), pytest.param(TEN, marks=pytest.mark.long)], ids=["one", "ten"])
def test_the_same_points_stop_after_any_kill(drivers: ForkServerContext, tmp_path: Path, places: Sequence[int]) -> None:
    check_killed(drivers, config_of(), tmp_path, places)


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("ray")
def test_the_same_points_stop_on_ray_after_ten_kills(drivers: ForkServerContext, tmp_path: Path) -> None:
    config = config_of(engine="ray", pack=2, resources={"cpu": 0.5})
    check_killed(drivers, config, tmp_path, TEN)
