"""Sweeps that go wrong in part: poisoned trials, too many of them, Ctrl-C, a mirror that cannot be written."""

import contextlib
import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from warm import Forked, WarmServer

from crowdsweep import app
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import JournalLocked
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.result import Status
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig
from crowdsweep.views.in_mlflow import rebuild_runs

DONE, BAD_INPUT, FAILED_TRIALS, OVER_BUDGET, INTERRUPTED = 0, 2, 3, 4, 130
SLOW = {"name": "slow", "params": {"steps": 2, "pause_s": 0.05}}


def mapping_of(models: list[Any], **changes: Any) -> dict[str, Any]:
    return {
        "name": "wrong",
        "datasets": ["anesthesia"],
        "models": models,
        "engine": "inline",
        "pack": 2,
        "tracking": {"enabled": False},
        **changes,
    }


def config_of(models: list[Any], **changes: Any) -> SweepConfig:
    return parse_sweep(mapping_of(models, **changes))


def test_poisoned_trials_fail_with_their_traceback_and_stop_no_other(misbehaving: None, tmp_path: Path) -> None:
    models = [{"name": "poisoned", "params": {"every": 3}}, "majority-vote"]
    outcome = app.run(config_of(models, seeds={"report": 9}, budget={"failed_trials": 0.5}), tmp_path, quiet=True)
    state = read_journal(tmp_path)
    failed = {state.specs[key].seed: result.failure for key, result in state.results.items() if result.failure}
    assert (outcome.status, outcome.failed, outcome.finished) == ("done", 3, 18)
    assert sorted(failed) == [0, 3, 6]
    assert failed[3] is not None
    assert (failed[3].kind, failed[3].message) == ("ZeroDivisionError", "seed 3 is poison")
    assert 'raise ZeroDivisionError(f"seed' in failed[3].traceback


def test_the_failure_budget_ends_a_sweep_and_a_larger_one_goes_on(misbehaving: None, tmp_path: Path) -> None:
    models = [{"name": "poisoned", "params": {"every": 2}}]
    outcome = app.run(config_of(models, seeds={"report": 60}), tmp_path, quiet=True)
    assert outcome.status == "over_budget"
    assert 6 < outcome.failed <= 6 + 2
    assert outcome.finished < 60
    again = app.run(config_of(models, seeds={"report": 60}, budget={"failed_trials": 1.0}), tmp_path, quiet=True)
    assert (again.status, again.finished, again.failed) == ("done", 60, 30)
    assert again.ran == 60 - outcome.finished


def test_a_second_driver_is_kept_out(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    with pytest.raises(JournalLocked, match=str(os.getpid())):
        app.run(config_of(["uniform"]), tmp_path, quiet=True)
    first.close()


@dataclass(kw_only=True)
class Driver:
    """A `crowdsweep run` in a session of its own, as a terminal starts it.

    Attributes:
        folder: where it stands; what it says goes to a file there.
    """

    folder: Path
    process: Forked

    def ends_within(self, seconds: float) -> tuple[int, str]:
        """Returns its exit code and what it said."""
        return self.process.wait(seconds), self.said

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def says(self, pattern: str) -> None:
        """Waits until it has said words of this pattern."""
        deadline = time.monotonic() + 90
        while not re.search(pattern, self.said):
            assert self.process.poll() is None, self.said[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def press_ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)  # the terminal tells the whole group, Ray's processes among it


Run = Callable[..., Driver]


@pytest.fixture
def run(tmp_path: Path, warm: WarmServer) -> Iterator[Run]:
    """Starts drivers of a sweep file; none of them outlives the test."""
    begun: list[Driver] = []

    def started(mapping: dict[str, Any], *more: str) -> Driver:
        (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(mapping))
        environment = {**os.environ, "CROWDSWEEP_PLUGINS": str(Path(__file__).parents[1] / "misbehaving")}
        command = ["run", "sweep.yaml", "--store", "store", *more]
        with (tmp_path / "said").open("wb") as said:
            process = warm.start(command, cwd=tmp_path, env=environment, stdout=said, stderr=said)
        begun.append(Driver(folder=tmp_path, process=process))
        return begun[-1]

    yield started
    for driver in begun:
        driver.process.kill()


def wait_for_results(folder: Path, number: int, driver: Driver) -> None:
    deadline = time.monotonic() + 90
    journal = folder / "store" / "journal.jsonl"
    while not journal.exists() or journal.read_text().count('"trial_finished"') < number:
        assert driver.process.poll() is None, driver.said[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    "engine",
    ["inline", pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.long, pytest.mark.xdist_group("ray")])],
)
def test_ctrl_c_once_finishes_what_runs_and_says_how_to_go_on(engine: str, tmp_path: Path, run: Run) -> None:
    driver = run(mapping_of([SLOW], seeds={"report": 400}, pack=4), "--engine", engine)
    wait_for_results(tmp_path, 4, driver)
    driver.press_ctrl_c()
    code, said = driver.ends_within(60)
    assert code == INTERRUPTED, said
    assert f"continue with `crowdsweep run sweep.yaml --store store --engine {engine}`" in said
    state = read_journal(tmp_path / "store")
    assert state.status == "interrupted"
    assert 4 <= len(state.results) < 400
    assert len(state.results) % 4 == 0, "a batch that ran was not finished"
    assert all(result.status is Status.OK for result in state.results.values())


def test_ctrl_c_twice_stops_now_and_loses_nothing_that_finished(tmp_path: Path, run: Run) -> None:
    endless = {"name": "slow", "params": {"steps": 100_000, "pause_s": 0.05}}
    driver = run(mapping_of(["uniform", endless]))
    wait_for_results(tmp_path, 5, driver)
    driver.says(
        r"5 of 10 trials, \d running"
    )  # before that, a press has nothing to wait for and ends the sweep, as it should
    driver.press_ctrl_c()
    time.sleep(0.5)
    assert driver.process.poll() is None, "the first Ctrl-C waits for what runs"
    driver.press_ctrl_c()
    code, said = driver.ends_within(30)
    assert code == INTERRUPTED, said
    assert len(read_journal(tmp_path / "store").results) == 5


def test_exit_codes(run: Run) -> None:
    poisoned = {"name": "poisoned", "params": {"every": 4}}
    code, said = run(mapping_of([poisoned], budget={"failed_trials": 0.9})).ends_within(120)
    assert code == FAILED_TRIALS, said
    code, said = run(mapping_of([poisoned], seeds={"report": 40})).ends_within(120)
    assert code == OVER_BUDGET, said


@pytest.mark.parametrize("how", ["exit", "hard_exit", "terminate_parent", "sleep"])
def test_replay_tells_of_a_model_that_ends_its_process_or_hangs(
    how: str, misbehaving: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = {"trial_minutes": 0.02, "failed_trials": 1.0}
    config = config_of([{"name": "wrong", "params": {"how": how}}], seeds={"report": 2}, budget=budget, pack=1)
    app.run(config, tmp_path, quiet=True)
    expected = {key: result.status for key, result in read_journal(tmp_path).results.items()}
    for key, status in expected.items():
        assert run_command_line(["replay", key, "--store", str(tmp_path)]) == DONE
        said = capsys.readouterr().out
        assert said.splitlines()[-1] == "as recorded"
        assert (status is Status.FAILED) == ("train_" not in said and "heldout" not in said)


@pytest.mark.long
def test_mlflow_that_cannot_be_written_any_more(
    misbehaving: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep finishes, and `mirror` writes what MLflow lacks."""
    from mlflow import MlflowClient

    from crowdsweep.tracking import mlflow_runs, repeated_job

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    config = config_of([SLOW], seeds={"report": 12}, tracking={})
    handle = mlflow_runs.MlflowMirror.handle
    database = tmp_path / "mlflow.db"

    def spoilt(mirror: Any, event: Any) -> None:
        """After the fourth result, once a run of it has been written, the database cannot be written any more."""
        handle(mirror, event)
        if type(event).__name__ == "TrialFinished":
            seen.append(event)
            if len(seen) == 4:
                deadline = time.monotonic() + 60
                while not _has_a_finished_run(database):
                    assert time.monotonic() < deadline
                    time.sleep(0.1)
                _block(database)

    seen: list[Any] = []
    monkeypatch.setattr(mlflow_runs.MlflowMirror, "handle", spoilt)
    monkeypatch.setattr(repeated_job, "Timing", partial(repeated_job.Timing, first_delay_s=0.05, stalled_s=60.0))
    outcome = app.run(config, tmp_path, quiet=True)
    assert (outcome.status, outcome.finished, outcome.failed) == ("done", 12, 0)
    _unblock(database)
    written_late = re.search(r": (\d+) trials written, (\d+) were already there$", rebuild_runs(tmp_path))
    assert written_late is not None
    late, before = map(int, written_late.groups())
    assert late > 0, "nothing was amiss: the test did not test anything"
    assert late + before == 12
    client = MlflowClient(f"sqlite:///{database}")
    experiment = client.get_experiment_by_name("wrong")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    assert "RUNNING" not in {run.info.status for run in runs}
    keys = [run.data.tags["crowdsweep.key"] for run in runs if run.data.tags.get("crowdsweep.kind") == "trial"]
    assert sorted(keys) == sorted(read_journal(tmp_path).results)


def _block(database: Path) -> None:
    """Takes sqlite's write lock for good, which even root cannot pass; permissions do not stop root."""
    holder = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    _HOLDERS[database] = holder


def _has_a_finished_run(database: Path) -> bool:
    if not database.exists():
        return False
    with contextlib.closing(sqlite3.connect(database)) as reader:
        try:
            return reader.execute("SELECT count(*) FROM runs WHERE status = 'FINISHED'").fetchone()[0] > 0
        except sqlite3.OperationalError:  # MLflow is still making its tables
            return False


def _unblock(database: Path) -> None:
    holder = _HOLDERS.pop(database)
    holder.execute("ROLLBACK")
    holder.close()


_HOLDERS: dict[Path, Any] = {}
