"""The journal on object stores: small objects, and a lease that expires."""

import time
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from crowdsweep.errors import JournalDamaged, JournalLocked
from crowdsweep.journal.journal import Journal
from crowdsweep.journal.objects import LEASE, ObjectRows
from crowdsweep.testing.mirror_checks import failed, ok


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
