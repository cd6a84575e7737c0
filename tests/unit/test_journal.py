"""The journal: what survives killed drivers, full disks and damaged files."""

import logging
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from mirror_checks import failed, ok, one_of_each, spec, started

from crowdsweep.errors import JournalDamaged, JournalError, JournalLocked
from crowdsweep.record.events import (
    PointProposed,
    PointScored,
    RunsCreated,
    SweepFinished,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
)
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.repair import repair_journal
from crowdsweep.record.result import Status, StoppedEarly, TrialResult
from crowdsweep.record.store_files import JOURNAL_FILE, LOCK_FILE
from crowdsweep.record.store_uri import store_named

A, B, C = ("a" * 16, "b" * 16, "c" * 16)


def test_state_says_what_happened(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert journal.state.status == "new"
    journal.handle_many(one_of_each())
    live = journal.state
    journal.close()
    good, bad = spec(0).key, spec(1).key
    for state in (live, read_journal(tmp_path)):
        assert (state.name, state.status) == ("a-sweep", "done")
        assert state.config["metric"]["goal"] == "maximize"
        assert state.environment["python"] == "3.11"
        assert list(state.specs) == [good, bad]
        assert state.specs[good] == spec(0)
        assert state.results[good].metrics == {"test_accuracy": 0.75}
        assert state.results[good].confusion == ((0.9, 0.1), (0.2, 0.8))
        assert state.results[bad].failure is not None
        assert state.lost == {good: 1, bad: 1}
        assert [proposal.point for proposal in state.proposals["s"]] == [{"smoothing": 0.1}]
        assert state.values == {"s": {0: None}}
        assert state.selected == {"s": (0,)}
        assert state.runs["sqlite:///x"].runs == {good: "r"}
        assert state.rows == 12, "neither the start nor the progress of a trial is kept"


def test_status_follows_the_drivers(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    told = []
    for event in (started(), SweepFinished(status=SweepStatus.INTERRUPTED, time=2.0), started(resumed=True)):
        journal.handle(event)
        told.append(journal.state.status)
    assert told == ["running", "interrupted", "running"]
    assert len(journal.state.started) == 2
    journal.close()


def test_report_phase_wins_and_plans_are_written_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    key = spec(0).key
    for phase in ("search", "search", "report", "search"):
        journal.handle(TrialPlanned(spec=spec(0, phase=phase)))
    assert journal.state.specs[key].phase == "report"
    assert [role.phase for role in journal.state.roles[key]] == ["search", "report"]
    assert journal.state.rows == 2
    journal.close()


def test_searches_and_runs_are_merged(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for number in (0, 1):
        journal.handle(PointProposed(search="s", number=number, point={"a": number}, model="m", dataset="d"))
    journal.handle(PointScored(search="s", number=1, value=0.5))
    for runs in ({"a": "1", "b": "2"}, {"b": "3"}):
        journal.handle(RunsCreated(tracking_uri="u", experiment_id="0", runs=runs))
    state = journal.state
    assert [one.number for one in state.proposals["s"]] == [0, 1]
    assert state.values["s"] == {1: 0.5}
    assert state.runs["u"].runs == {"a": "1", "b": "3"}
    journal.close()


def test_second_driver_is_told_who_is_first(tmp_path: Path) -> None:
    with_lock = Journal(tmp_path)
    with pytest.raises(JournalLocked, match=rf"pid {os.getpid()} on \S+ since 20\d\d-"):
        Journal(tmp_path)
    with_lock.close()
    Journal(tmp_path).close()


_WRITER = """
import sys
from pathlib import Path
from crowdsweep.record.journal import Journal
from mirror_checks import ok, spec, started
from crowdsweep.record.events import TrialPlanned

journal = Journal(Path(sys.argv[1]))
journal.handle(started())
for seed in range(10**6):
    journal.handle(TrialPlanned(spec=spec(seed)))
    journal.handle(ok(spec(seed).key))
    print(spec(seed).key, flush=True)
"""


def test_killed_driver_loses_nothing_it_told_of(tmp_path: Path) -> None:
    script = [sys.executable, "-c", _WRITER, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    driver = subprocess.Popen(script, stdout=subprocess.PIPE, text=True, env=environment)
    assert driver.stdout is not None
    told = [driver.stdout.readline().strip() for _ in range(30)]
    with pytest.raises(JournalLocked, match=f"pid {driver.pid} "):
        Journal(tmp_path)
    seen_meanwhile = read_journal(tmp_path)
    driver.kill()
    told += [line.strip() for line in driver.stdout if line.endswith("\n")]
    driver.wait()
    driver.stdout.close()
    assert set(told[:30]) <= set(seen_meanwhile.results)
    journal = Journal(tmp_path)  # the lock died with its process
    assert set(told) <= set(journal.state.results)
    assert len(journal.state.results) <= len(told) + 1
    journal.handle(SweepFinished(status=SweepStatus.DONE, time=0.0))
    journal.close()
    assert read_journal(tmp_path).status == "done"


def test_torn_tail_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(tmp_path)
    journal.handle_many([started(), ok(A), ok(B)])
    journal.close()
    file = tmp_path / JOURNAL_FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert set(read_journal(tmp_path).results) == {A}
    assert not caplog.records
    assert file.stat().st_size == len(whole) - 10, "a reader changes nothing"
    with caplog.at_level(logging.WARNING):
        journal = Journal(tmp_path)
    assert "torn tail" in caplog.text
    journal.handle(ok(B))
    journal.close()
    assert file.read_bytes() == whole


@pytest.mark.parametrize("make_bad", [lambda row: row.replace(b"ok", b"OK"), lambda row: b"\0" * len(row)])
def test_damage_is_named(tmp_path: Path, make_bad: object) -> None:
    journal = Journal(tmp_path)
    journal.handle_many([started(), ok(A), ok(B)])
    journal.close()
    file = tmp_path / JOURNAL_FILE
    rows = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(rows[0] + make_bad(rows[1][:-1]) + b"\n" + rows[2])
    with pytest.raises(JournalDamaged, match=rf"{JOURNAL_FILE}: row 2 \(byte {len(rows[0])}\).*crowdsweep repair"):
        read_journal(tmp_path)
    with pytest.raises(JournalDamaged):
        Journal(tmp_path)
    with pytest.raises(JournalDamaged):  # and the lock was given back
        Journal(tmp_path)


def test_repair_drops_what_is_damaged_and_keeps_a_copy(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.handle_many([started(), ok(A), ok(B), ok(C)])
    with pytest.raises(JournalLocked):
        repair_journal(tmp_path)
    journal.close()
    assert repair_journal(tmp_path).dropped == 0
    file = tmp_path / JOURNAL_FILE
    rows = file.read_bytes().splitlines(keepends=True)
    damaged = rows[0] + rows[1][:40] + b"?" + rows[1][41:] + rows[2] + rows[3][:-5]
    file.write_bytes(damaged)
    done = repair_journal(tmp_path)
    assert (done.kept, done.dropped, done.missing) == (2, 2, 0)
    assert done.copy is not None
    assert done.copy.read_bytes() == damaged
    assert file.read_bytes().startswith(rows[0])
    assert repair_journal(tmp_path).copy is None
    journal = Journal(tmp_path)
    assert set(journal.state.results) == {B}
    journal.close()
    with pytest.raises(JournalError, match="no journal to repair"):
        repair_journal(tmp_path / "nowhere")


def test_full_disk_stops_the_sweep_and_keeps_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.handle_many([started(), ok(A)])
    size = (tmp_path / JOURNAL_FILE).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
    try:
        with pytest.raises(JournalError, match="make room"):
            journal.handle(ok(B))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(JournalError, match="make room"):  # room or not: it does not go on with a gap
        journal.handle(ok(C))
    assert set(journal.state.results) == {A}
    journal.close()
    assert (tmp_path / JOURNAL_FILE).stat().st_size == size
    journal = Journal(tmp_path)
    journal.handle(ok(B))
    journal.close()
    assert set(read_journal(tmp_path).results) == {A, B}


def test_rows_are_flushed_before_handle_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    journal = Journal(tmp_path)
    size = (tmp_path / JOURNAL_FILE).stat
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(size().st_size))
    journal.handle(started())
    journal.handle_many([ok(A), ok(B), ok(C)])
    journal.handle_many([ok(A)])
    assert synced[-1] == size().st_size
    assert len(synced) == 2, "one flush for a group, none for what is known"
    journal.close()


def test_no_journal_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal here"):
        read_journal(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="cannot keep a journal here"):
        Journal(tmp_path / "file")


def test_a_store_by_uri(tmp_path: Path) -> None:
    journal = Journal(store_named(f"file://{tmp_path}/store"))
    journal.handle(started())
    journal.close()
    assert {path.name for path in (tmp_path / "store").iterdir()} == {JOURNAL_FILE, LOCK_FILE}
    assert read_journal(tmp_path / "store").name == "a-sweep"


class Failing:
    """Rows whose store goes away."""

    def read_rows(self) -> Sequence[object]:
        return iter(())

    def append_rows(self, texts: Sequence[str]) -> None:
        raise JournalError("gone")

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        raise JournalError("gone")

    def get(self, name: str) -> bytes | None:
        return None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        return iter([None] * len(names))

    def names(self, folder: str) -> set[str]:
        return set()

    def remove(self, names: Sequence[str]) -> None:
        raise JournalError("gone")

    def heed(self, press: Callable[[], object]) -> None:
        pass

    def close(self) -> None:
        pass


def test_nothing_is_known_that_was_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, rows=Failing())
    with pytest.raises(JournalError, match="gone"):
        journal.handle(ok(A))
    assert not journal.state.results


def test_a_finished_trial_is_not_replaced_by_a_later_failure(tmp_path: Path) -> None:
    """Stopped early, a trial has a result that its search was told; stopped with its driver, it has none."""
    keys = [spec(seed).key for seed in range(3)]
    stop = StoppedEarly(step=20, best=0.25, bar=0.5, n_rivals=7)
    first = [
        TrialResult(key=keys[0], status=Status.STOPPED, stopped_early=stop),
        TrialResult(key=keys[1], status=Status.STOPPED),
        ok(keys[2]).result,
    ]
    journal = Journal(tmp_path)
    journal.handle_many([TrialFinished(result=result) for result in first])
    journal.handle_many([failed(key) for key in keys])
    live = journal.state
    journal.close()
    for state in (live, read_journal(tmp_path)):
        assert [state.results[key].status for key in keys] == [Status.STOPPED, Status.FAILED, Status.OK]
