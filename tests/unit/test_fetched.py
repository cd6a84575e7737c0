"""Reports and labels in an object store: what a folder promises holds there too, wherever a writer dies."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from object_stores import PLACE
from obstore.store import MemoryStore

from crowdsweep.errors import ForeignFile, JournalError
from crowdsweep.files.owned import Kind, replaced
from crowdsweep.record import fetched
from crowdsweep.record.fetched import as_folder
from crowdsweep.record.objects import Objects

NAMES = ("a.csv", "b.csv", "says.yaml", "inner/c.bin")
KIND = Kind(
    name="things",
    may_write=lambda name: name in NAMES,
    folders=("inner",),
    last=("says.yaml",),
)
OLD = {"a.csv": b"old a", "b.csv": b"old b", "says.yaml": b"old", "inner/c.bin": b"old c"}
NEW = {"a.csv": b"new a", "says.yaml": b"new", "inner/c.bin": b"old c"}  # one is changed, one goes, one is as it was


class Dying(Objects):
    """Objects of a writer that dies before its n-th change."""

    left = 1 << 30

    def put(self, name: str, content: bytes) -> None:
        self._live()
        super().put(name, content)

    def remove(self, names: list[str]) -> None:
        for name in names:
            self._live()
            super().remove([name])

    def _live(self) -> None:
        Dying.left -= 1
        if Dying.left < 0:
            raise JournalError("it died")


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    memory = MemoryStore()
    monkeypatch.setattr(Dying, "left", 1 << 30)
    monkeypatch.setattr(fetched, "Objects", lambda place: Dying(place, client=memory))
    return Objects(PLACE, client=memory)


def write(files: Mapping[str, bytes]) -> None:
    with as_folder(PLACE, KIND, write=True) as folder, replaced(folder, (), KIND) as fresh:
        for name, content in files.items():
            (fresh / name).parent.mkdir(exist_ok=True)
            (fresh / name).write_bytes(content)


def found(objects: Objects) -> dict[str, bytes | None]:
    return {one.name: objects.get(one.name) for one in objects.names("") if one.name in NAMES}


def test_files_come_and_go_as_in_a_folder(objects: Objects) -> None:
    write(OLD)
    assert found(objects) == OLD
    write(NEW)
    assert found(objects) == NEW
    with as_folder(PLACE, KIND) as folder:
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} >= set(NEW)
        (folder / "a.csv").write_bytes(b"read only")
    assert found(objects) == NEW
    assert not folder.exists()


def test_a_folder_of_this_machine_is_itself(tmp_path: Path) -> None:
    with as_folder(tmp_path, KIND, write=True) as folder:
        assert folder is tmp_path


def test_what_is_as_it_was_is_not_sent_again(objects: Objects) -> None:
    write(OLD)
    Dying.left = 0
    with as_folder(PLACE, KIND, write=True):
        pass


@pytest.mark.parametrize("damaged", ["a.csv", "inner/c.bin"])
def test_what_a_person_put_there_or_changed_stays(damaged: str, objects: Objects) -> None:
    objects.put(damaged, b"mine")
    with pytest.raises(ForeignFile, match=f"^{PLACE}: {damaged} would be overwritten"):
        write(NEW)
    assert found(objects) == {damaged: b"mine"}
    objects.remove([damaged])
    write(OLD)
    objects.put(damaged, b"changed")
    with pytest.raises(ForeignFile, match="changed since crowdsweep wrote it"):
        write({**NEW, "inner/c.bin": b"new c"})
    assert found(objects) == {**OLD, damaged: b"changed"}


def test_other_objects_are_not_touched(objects: Objects) -> None:
    objects.put("notes.txt", b"mine")
    objects.put("inner/deeper/c.bin", b"mine")
    write(OLD)
    write(NEW)
    assert objects.get("notes.txt") == objects.get("inner/deeper/c.bin") == b"mine"


def test_a_writer_that_dies_anywhere_is_followed_by_one_that_does_not(objects: Objects) -> None:
    """What says what the others are is never found beside others."""
    for changes in range(100):
        Dying.left = 1 << 30
        write(OLD)
        Dying.left = changes
        try:
            write(NEW)
        except JournalError:
            there = found(objects)
            if "says.yaml" in there:
                assert there in (OLD, {**NEW, "b.csv": b"old b"}, NEW)
            Dying.left = 1 << 30
            write(NEW)
        else:
            break
        assert found(objects) == NEW
    assert changes > 4
