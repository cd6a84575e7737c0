"""Which sweeps are here, who works on them, and how one is ended from another terminal."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from mirror_checks import failed, ok, spec, started

from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput
from crowdsweep.record.events import Event, SweepFinished, SweepStatus, TrialPlanned
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.stores import Driver, asked_store, driver_of, stores_in
from crowdsweep.sweep.stopping import ask_to_stop
from crowdsweep.units import when_words
from crowdsweep.views.terminal.stores import listed

NOW = "2026-01-02T12:00:00+00:00"


def write(folder: Path, *, done: bool = True, name: str = "a-sweep", at: int = 1_000) -> Path:
    """Writes a record of two models and a failed trial."""
    events: list[Event] = []
    for model, value in (("a", 0.5), ("b", 0.75)):
        one = spec(0, model=model)
        events += [TrialPlanned(spec=one, label=model), ok(one.key, test_accuracy=value)]
    events += [TrialPlanned(spec=spec(1)), failed(spec(1).key)]
    events += [SweepFinished(status=SweepStatus.DONE, time=2.0)] if done else []
    journal = Journal(folder)
    journal.handle_many([started(name, asks_for=events), *events])
    journal.close()
    os.utime(folder / "journal.jsonl", (at, at))
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_latest_store_is_meant_where_none_is_given(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="crowdsweep-runs holds none here; run a sweep first"):
        asked_store(None)
    old = write(Path("crowdsweep-runs/old"), at=1_000)
    new = write(Path("crowdsweep-runs/new"), name="new-one", at=2_000)
    elsewhere = write(Path("elsewhere"), at=3_000)
    assert stores_in() == [new, old]
    assert asked_store(None) == new
    assert asked_store(Path("old")) == old
    assert asked_store(elsewhere) == elsewhere
    with pytest.raises(
        BadInput, match=r"nowhere: expected the folder .* there are crowdsweep-runs/new, crowdsweep-runs"
    ):
        asked_store(Path("nowhere"))
    for words in (["status"], ["results", "--format", "md"], ["report"]):
        assert run_command_line(words) == 0
        said = capsys.readouterr()
        assert said.err.splitlines()[0] == "crowdsweep-runs/new: the latest sweep here"
        assert "new" in said.out
    assert (new / "report.html").exists()
    assert run_command_line(["status", "old", "--json"]) == 0
    said = capsys.readouterr()
    assert (json.loads(said.out)["name"], said.err) == ("a-sweep", "")


def test_a_sweep_called_as_a_dataset_folder_here_is_found(here: Path) -> None:
    Path("birds").mkdir()
    Path("birds/annotations.csv").touch()
    assert asked_store(Path("birds")) == Path("birds")  # what reads it says that there is no record
    record = write(Path("crowdsweep-runs/birds"), name="birds")
    assert asked_store(Path("birds")) == record
    assert asked_store(write(Path("moved"))) == Path("moved")


def test_the_sweeps_here_are_listed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["list"]) == 0
    assert "no sweep has run here" in capsys.readouterr().err
    write(Path("crowdsweep-runs/whole"), at=2_000)
    write(Path("crowdsweep-runs/dead"), done=False, name="dead", at=3_000)
    (Path("crowdsweep-runs/broken")).mkdir()
    (Path("crowdsweep-runs/broken/journal.jsonl")).write_text("nonsense\nnonsense\n")
    os.utime("crowdsweep-runs/broken/journal.jsonl", (1_000, 1_000))
    assert run_command_line(["list", "--json"]) == 0
    dead, whole, broken = json.loads(capsys.readouterr().out)
    assert (dead["name"], dead["state"], dead["finished"], dead["total"]) == ("dead", "crashed", 3, 4)
    assert (whole["state"], whole["best"], whole["folder"]) == (
        "done", "b, test accuracy 75.0 %", "crowdsweep-runs/whole",
    )  # fmt: skip
    assert broken["state"].startswith("cannot be read")
    assert run_command_line(["list"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["name", "state", "models × datasets", "trials", "best", "when"]
    assert [row[:2] for row in rows[1:3]] == [["dead", "crashed"], ["a-sweep", "done"]]
    assert rows[2][3:] == ["3/4", "b, test accuracy 75.0 %", "1970-01-01"]


def test_a_sweep_that_has_recorded_nothing_yet_begins(here: Path) -> None:
    store = here / "new"
    store.mkdir()
    held = {"pid": os.getpid(), "host": socket.gethostname(), "since": NOW}
    (store / "journal.lock").write_text(json.dumps(held))
    with (store / "journal.jsonl").open("a"):
        assert listed(store)["state"] == "begins"
    assert listed(store)["state"].startswith("cannot be read")


def test_times_are_told_as_long_ago() -> None:
    now = datetime.fromisoformat(NOW)
    told = [
        when_words(f"2026-01-{day:02d}T{clock}+00:00", now)
        for day, clock in ((2, "11:59:30"), (2, "11:00:00"), (2, "03:00:00"), (1, "01:00:00"))
    ]
    assert told == ["30 s ago", "60 min ago", "9 h ago", "35 h ago"]


def test_a_broken_off_sweep_is_told_from_one_that_runs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = write(here / "store", done=False)
    assert driver_of(store) is None, "the process lives, but writes no more"
    assert run_command_line(["status", str(store)]) == 0
    said = capsys.readouterr().out
    assert "a-sweep: crashed" in said
    assert "run the sweep again to continue" in said
    journal = Journal(store)
    driver = driver_of(store)
    assert driver is not None
    assert (driver.pid, driver.here) == (os.getpid(), True)
    assert run_command_line(["status", str(store)]) == 0
    assert "a-sweep: running" in capsys.readouterr().out
    journal.close()


@pytest.mark.parametrize(
    "told",
    [
        *("", "[]", "{}", '{"pid": "x"}', "[" * 1000, "x" * 5000),
        *(f'{{"pid": {pid}, "host": "h", "since": "x"}}' for pid in (-1, 1 << 31, 10**30, "Infinity", "NaN", '"1e9"')),
    ],
)
def test_a_lock_file_that_says_nothing_names_nobody(tmp_path: Path, told: str) -> None:
    store = write(tmp_path / "store", done=False)
    (store / "journal.lock").write_text(told.replace('"h"', json.dumps(socket.gethostname())))
    assert driver_of(store) is None


@pytest.mark.parametrize("name", ["journal.lock", "job.json"])
@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_what_is_no_file_beside_a_record_is_not_waited_for(
    name: str, kind: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = write(here / "crowdsweep-runs/x")
    (store / name).unlink(missing_ok=True)
    os.mkfifo(store / name) if kind == "pipe" else (store / name).symlink_to("/dev/zero")
    assert run_command_line(["list"]) == 0
    assert run_command_line(["status", str(store)]) == 0
    assert run_command_line(["stop", str(store)]) == 2
    assert "and none does" in capsys.readouterr().err


def test_stop_says_why_it_cannot(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["stop"]) == 2
    assert "none of crowdsweep-runs runs" in capsys.readouterr().err
    store = write(Path("crowdsweep-runs/x"))
    assert run_command_line(["stop", str(store)]) == 2
    assert "expected a sweep that runs, and none does" in capsys.readouterr().err
    far = {"pid": 1, "host": "far-away", "since": NOW}
    (store / "journal.lock").write_text(json.dumps(far))
    with pytest.raises(BadInput, match="and none does"):  # it has ended, as its record says
        ask_to_stop(store)
    running = write(Path("crowdsweep-runs/y"), done=False)
    (running / "journal.lock").write_text(json.dumps(far))
    assert driver_of(running) == Driver(pid=1, host="far-away", since=NOW)
    for words in (["stop", str(running)], ["stop"]):
        assert run_command_line(words) == 2
        assert "is run by process 1 on far-away" in capsys.readouterr().err


SWEEP = """
name: long
datasets: [{name: gaussians, items: 300, annotators: 40}]
models: [{name: soft-mv, params: {epochs: 30}}]
seeds: {report: 400}
pack: 2
engine: inline
tracking: {enabled: false}
"""


@pytest.fixture
def running(here: Path) -> Iterator["subprocess.Popen[str]"]:
    """A sweep that runs in a process of its own."""
    (here / "long.yaml").write_text(SWEEP)
    process = subprocess.Popen(
        [sys.executable, "-m", "crowdsweep", "run", "long.yaml"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    journal = here / "crowdsweep-runs/long/journal.jsonl"
    until = time.monotonic() + 120
    while not (journal.exists() and "trial_finished" in journal.read_text()):
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_stop_ends_a_running_sweep_in_order(
    running: "subprocess.Popen[str]", capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["stop"]) == 0
    said = capsys.readouterr().out
    assert f"asked process {running.pid} to stop" in said
    assert "long: interrupted" in said
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "interrupted: nothing that finished is lost" in out + err
    state = read_journal(Path("crowdsweep-runs/long"))
    assert state.status is SweepStatus.INTERRUPTED
    assert 0 < len(state.results) < 400
