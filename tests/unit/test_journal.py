"""The journal: what survives killed drivers, full disks and damaged files."""

import logging
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from crowdsweep.errors import JournalDamaged, JournalError, JournalLocked
from crowdsweep.journal.codec import encode
from crowdsweep.journal.journal import Journal, open_rows, read_journal
from crowdsweep.journal.local import JOURNAL_FILE, LOCK_FILE
from crowdsweep.journal.objects import LEASE, ObjectRows
from crowdsweep.journal.repair import repair_journal
from crowdsweep.journal.rows import seal
from crowdsweep.testing.mirror_checks import failed, ok, one_of_each, spec, started
from crowdsweep.trial.events import PointProposed, PointScored, RunsCreated, SweepFinished, SweepStatus, TrialPlanned


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
        assert state.rows == 11, "neither the start nor the progress of a trial is kept"


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
from crowdsweep.journal.journal import Journal
from crowdsweep.testing.mirror_checks import ok, spec, started
from crowdsweep.trial.events import TrialPlanned
journal = Journal(sys.argv[1])
journal.handle(started())
for seed in range(10**6):
    journal.handle(TrialPlanned(spec=spec(seed)))
    journal.handle(ok(spec(seed).key))
    print(spec(seed).key, flush=True)
"""


def test_killed_driver_loses_nothing_it_told_of(tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
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
    journal.handle_many([started(), ok("a"), ok("b")])
    journal.close()
    file = tmp_path / JOURNAL_FILE
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    assert set(read_journal(tmp_path).results) == {"a"}
    assert not caplog.records
    assert file.stat().st_size == len(whole) - 10, "a reader changes nothing"
    with caplog.at_level(logging.WARNING):
        journal = Journal(tmp_path)
    assert "torn tail" in caplog.text
    journal.handle(ok("b"))
    journal.close()
    assert file.read_bytes() == whole


@pytest.mark.parametrize("make_bad", [lambda row: row.replace(b"ok", b"OK"), lambda row: b"\0" * len(row)])
def test_damage_is_named(tmp_path: Path, make_bad: object) -> None:
    journal = Journal(tmp_path)
    journal.handle_many([started(), ok("a"), ok("b")])
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
    journal.handle_many([started(), ok("a"), ok("b"), ok("c")])
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
    assert set(journal.state.results) == {"b"}
    journal.close()
    with pytest.raises(JournalError, match="no journal to repair"):
        repair_journal(tmp_path / "nowhere")


def test_full_disk_stops_the_sweep_and_keeps_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.handle_many([started(), ok("a")])
    size = (tmp_path / JOURNAL_FILE).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
    try:
        with pytest.raises(JournalError, match="make room"):
            journal.handle(ok("b"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(JournalError, match="make room"):  # room or not: it does not go on with a gap
        journal.handle(ok("c"))
    assert set(journal.state.results) == {"a"}
    journal.close()
    assert (tmp_path / JOURNAL_FILE).stat().st_size == size
    journal = Journal(tmp_path)
    journal.handle(ok("b"))
    journal.close()
    assert set(read_journal(tmp_path).results) == {"a", "b"}


def test_rows_are_flushed_before_handle_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    journal = Journal(tmp_path)
    size = (tmp_path / JOURNAL_FILE).stat
    monkeypatch.setattr(os, "fsync", lambda _: synced.append(size().st_size))
    journal.handle(started())
    journal.handle_many([ok("a"), ok("b"), ok("c")])
    journal.handle_many([ok("a")])
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
    journal = Journal(f"file://{tmp_path}/store")
    journal.handle(started())
    journal.close()
    assert {path.name for path in (tmp_path / "store").iterdir()} == {JOURNAL_FILE, LOCK_FILE}
    assert read_journal(tmp_path / "store").name == "a-sweep"
    with pytest.raises(JournalError, match="not a store"):
        open_rows("nowhere://bucket/x", write=False)


def written(folder: Path, count: int = 4) -> list[bytes]:
    """Lines of a sound journal."""
    journal = Journal(folder)
    journal.handle_many([started(), *(ok(f"k{number}") for number in range(count - 1))])
    journal.close()
    return (folder / JOURNAL_FILE).read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("change", "kept", "dropped", "missing"),
    [
        (lambda rows: [*rows[:1], *rows[2:]], 3, 0, 1),
        (lambda rows: [*rows[:2], *rows[1:]], 4, 1, 0),
        (lambda rows: [rows[0], rows[2], rows[1], rows[3]], 4, 0, 0),
        (lambda rows: rows[1:], 3, 0, 1),
        (lambda rows: [row.replace(b"\n", b"\r\n") for row in rows], 4, 0, 0),
        (lambda rows: [b"\xef\xbb\xbf", *rows], 4, 0, 0),
        (lambda rows: [rows[0], rows[1][:-1], *rows[2:]], 4, 0, 0),
        (lambda rows: [*rows[:2], b"\0" * 500, *rows[2:]], 4, 1, 0),
        (lambda rows: [*rows, b"\0" * 500], 4, 1, 0),
        (lambda rows: [*rows[:3], rows[3][:-1], b"?"], 3, 1, 0),
        (lambda rows: [*rows, b"\n"], 4, 0, 0),
    ],
    ids=["deleted", "doubled", "swapped", "beheaded", "crlf", "bom", "merged", "nuls", "end-nuls", "newline", "blank"],
)
def test_what_no_driver_wrote_is_refused_and_repaired(
    change: Callable[[list[bytes]], list[bytes]], kept: int, dropped: int, missing: int, tmp_path: Path
) -> None:
    rows = written(tmp_path)
    file = tmp_path / JOURNAL_FILE
    damaged = b"".join(change(rows))
    file.write_bytes(damaged)
    for read in (read_journal, Journal):
        with pytest.raises(JournalDamaged, match=r"row \d+ \(byte \d+\) .* `crowdsweep repair`"):
            read(tmp_path)
    assert file.read_bytes() == damaged, "nothing was cut off"
    done = repair_journal(tmp_path)
    assert (done.kept, done.dropped, done.missing) == (kept, dropped, missing)
    assert done.copy is not None
    assert done.copy.read_bytes() == damaged
    if kept == len(rows):
        assert file.read_bytes() == b"".join(rows)
    assert read_journal(tmp_path).rows == kept
    assert repair_journal(tmp_path).copy is None


@pytest.mark.parametrize(
    "content",
    [
        b"name,value\na,1\n",
        b"one line without an end",
        b"\0" * 5000,
        b'{\n "crc": "00000000"\n}\n',
        b"\n",
        b"\xff\xfe{\0",
    ],
    ids=["table", "text", "nuls", "pretty", "blank", "utf-16"],
)
def test_somebody_elses_file_is_never_touched(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / JOURNAL_FILE
    file.write_bytes(content)
    for read in (read_journal, Journal):
        with pytest.raises(JournalDamaged, match=r"row 1 .* is not a row of a journal"):
            read(tmp_path)
    with pytest.raises(JournalError, match="not one row"):
        repair_journal(tmp_path)
    assert file.read_bytes() == content
    assert {path.name for path in tmp_path.iterdir()} == {JOURNAL_FILE, LOCK_FILE}


def test_a_last_row_may_lack_its_newline(tmp_path: Path) -> None:
    rows = written(tmp_path)
    file = tmp_path / JOURNAL_FILE
    file.write_bytes(b"".join(rows)[:-1])
    assert set(read_journal(tmp_path).results) == {"k0", "k1", "k2"}
    journal = Journal(tmp_path)
    journal.handle(ok("k3"))
    journal.close()
    assert file.read_bytes().startswith(b"".join(rows))
    assert set(read_journal(tmp_path).results) == {"k0", "k1", "k2", "k3"}


def test_an_old_journal_is_gone_on_with_in_a_chain(tmp_path: Path) -> None:
    old = [seal(encode(event)) for event in (started(), ok("a"))]
    file = tmp_path / JOURNAL_FILE
    file.write_bytes(b"".join(old))
    journal = Journal(tmp_path)
    journal.handle_many([ok("b"), ok("c")])
    journal.close()
    rows = file.read_bytes().splitlines(keepends=True)
    assert rows[:2] == old
    assert set(read_journal(tmp_path).results) == {"a", "b", "c"}
    file.write_bytes(b"".join([rows[0], *rows[2:]]))
    with pytest.raises(JournalDamaged, match=r"row 2 .* says that it is row 3"):
        read_journal(tmp_path)
    file.write_bytes(rows[0])  # rows of the first versions do not know their places
    assert read_journal(tmp_path).rows == 1


def test_a_deleted_lock_file_lets_no_second_driver_in(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    with pytest.raises(JournalLocked, match="does not say who it is"):
        Journal(tmp_path)
    first.handle(started())
    first.close()


@pytest.mark.parametrize("replace", [True, False])
def test_a_driver_whose_journal_was_taken_away_stops(replace: bool, tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.handle_many([started(), ok("a")])
    file = tmp_path / JOURNAL_FILE
    file.rename(tmp_path / "moved")
    if replace:
        file.write_bytes((tmp_path / "moved").read_bytes())
    with pytest.raises(JournalError, match="was removed or replaced"):
        first.handle(ok("b"))
    first.close()
    assert set(read_journal(tmp_path).results if replace else {"a"}) == {"a"}


def test_a_driver_whose_journal_was_changed_stops(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.handle(started())
    with (tmp_path / JOURNAL_FILE).open("ab") as file:
        file.write(b"x")
    with pytest.raises(JournalError, match="changed by somebody else"):
        first.handle(ok("b"))
    first.close()


@pytest.mark.parametrize("name", [JOURNAL_FILE, LOCK_FILE])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_odd_files_in_a_store_are_one_line(name: str, kind: str, tmp_path: Path) -> None:
    other = tmp_path / "precious"
    other.write_text("mine")
    store = tmp_path / "store"
    store.mkdir()
    match kind:
        case "folder":
            (store / name).mkdir()
        case "pipe":
            os.mkfifo(store / name)
        case _:
            (store / name).symlink_to(other)
    with pytest.raises(JournalError, match="cannot keep a journal here"):
        Journal(store)
    if name == JOURNAL_FILE:
        with pytest.raises(JournalError):
            read_journal(store)
    assert other.read_text() == "mine"


# --- object stores


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def objects(files: FileSystem, clock: Clock, lease_s: float = 60.0) -> ObjectRows:
    return ObjectRows(files, "bucket/sweep", write=True, settle_s=0.0, clock=clock, lease_s=lease_s)


@pytest.fixture
def files(tmp_path: Path) -> FileSystem:
    return SubTreeFileSystem(str(tmp_path), LocalFileSystem())


def test_objects_resume(files: FileSystem, tmp_path: Path) -> None:
    for number, key in enumerate("abc"):
        journal = Journal("x://", rows=objects(files, Clock()))
        assert len(journal.state.results) == 2 * number
        journal.handle_many([ok(key), failed(key + "!")])
        journal.close()
    names = sorted(path.name for path in (tmp_path / "bucket/sweep/journal").iterdir())
    assert [name.split("-")[0] for name in names] == ["00000000", "00000001", "00000002"], "one object a flush"


def test_lease_of_a_dead_driver_expires(files: FileSystem) -> None:
    clock = Clock()
    first = objects(files, clock)
    with pytest.raises(JournalLocked, match="within 60 s"):
        objects(files, clock)
    clock.now += 61.0
    second = objects(files, clock)
    with pytest.raises(JournalLocked):  # the first one wakes up: too late
        first.append_rows(['{"a":1}'])
    first.close()
    second.append_rows(['{"a":1}'])
    with pytest.raises(JournalLocked):  # and its end did not end the second one's lease
        objects(files, clock)
    second.close()
    objects(files, clock).close()


def test_lease_is_renewed(files: FileSystem, tmp_path: Path) -> None:
    rows = ObjectRows(files, "bucket/sweep", write=True, settle_s=0.0, lease_s=0.3)
    first = (tmp_path / "bucket/sweep" / LEASE).read_bytes()
    deadline = time.monotonic() + 20.0
    while (tmp_path / "bucket/sweep" / LEASE).read_bytes() == first and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (tmp_path / "bucket/sweep" / LEASE).read_bytes() != first
    rows.close()
    assert not (tmp_path / "bucket/sweep" / LEASE).exists()


def test_damaged_object_is_named(files: FileSystem, tmp_path: Path) -> None:
    rows = objects(files, Clock())
    list(rows.read_rows())
    for texts in (['{"a":1}'], ['{"a":2}']):
        rows.append_rows(texts)
    rows.close()
    first = min((tmp_path / "bucket/sweep/journal").iterdir())
    first.write_bytes(first.read_bytes()[:-3])
    with pytest.raises(JournalDamaged, match=f"{first.name}: cannot be read from byte 0 on"):
        list(ObjectRows(files, "bucket/sweep", write=False).read_rows())
    first.unlink()
    with pytest.raises(JournalDamaged, match=r"row 1 .* says that it is row 2"):
        list(ObjectRows(files, "bucket/sweep", write=False).read_rows())


def test_a_deleted_lease_lets_no_second_driver_write(files: FileSystem, tmp_path: Path) -> None:
    clock = Clock()
    first = objects(files, clock)
    first.append_rows(['{"a":1}'])
    (tmp_path / "bucket/sweep" / LEASE).unlink()
    second = objects(files, clock)
    with pytest.raises(JournalLocked):
        first.append_rows(['{"a":2}'])
    second.append_rows(['{"a":2}'])
    second.close()
    assert [row.text for row in ObjectRows(files, "bucket/sweep", write=False).read_rows()] == [b'{"a":1}', b'{"a":2}']


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

    def close(self) -> None:
        pass


def test_nothing_is_known_that_was_not_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path, rows=Failing())
    with pytest.raises(JournalError, match="gone"):
        journal.handle(ok("a"))
    assert not journal.state.results
