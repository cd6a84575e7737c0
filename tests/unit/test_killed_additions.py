"""`crowdsweep add`, killed at any place, leaves the old folder or the new one."""

import shutil
from pathlib import Path

import pytest
from data_folders import folder_of
from dies import deaths
from pets import MORE, bytes_in, pets_folder, written

import crowdsweep as cs
from crowdsweep.data import catalogue
from crowdsweep.data.on_disk.folder import read_folder
from crowdsweep.data.on_disk.updates import CHANGED, update_together
from crowdsweep.errors import DataError
from crowdsweep.files import drafts
from crowdsweep.files.drafts import alone_in
from crowdsweep.files.inside import opened_folder
from crowdsweep.sweepfile.job_package import _files


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return pets_folder(tmp_path / "pets")


def two_files(folder: Path) -> None:
    with update_together(folder) as place:
        (place / "annotations.csv").write_text("item,annotator,label\na,x,new\na,y,old\n")
        (place / "items.csv").write_text("item,gold\na,new\n")


def test_files_change_together_wherever_their_writer_dies(tmp_path: Path) -> None:
    folder = tmp_path / "d"

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder_of(folder, annotations="item,annotator,label\na,x,old\na,y,new\n")
        (folder / "notes.txt").write_text("mine")

    prepare()
    old = read_folder(folder).fingerprint
    two_files(folder)
    new = read_folder(folder).fingerprint
    seen = set()
    for _ in deaths(lambda: two_files(folder), prepare):
        found = read_folder(folder).fingerprint
        seen.add((found == new, (folder / CHANGED).exists()))
        assert found in (old, new)
        if found == new:
            sent = {path.name: path.read_text() for path in _files(folder)}
            assert sent.keys() == {"annotations.csv", "items.csv", "notes.txt"}
            assert "a,x,new" in sent["annotations.csv"]
        two_files(folder)
        assert sorted(path.name for path in folder.iterdir()) == ["annotations.csv", "items.csv", "notes.txt"]
        assert read_folder(folder).fingerprint == new
    assert {(False, False), (True, True)} <= seen


@pytest.mark.long
def test_an_addition_that_is_killed_anywhere_is_made_up_for(pets: Path, tmp_path: Path) -> None:
    kept = shutil.copytree(pets, tmp_path / "kept")
    file = written(tmp_path / "more.csv", MORE + "p4,ann,owl,\n")

    def work() -> None:
        cs.add(pets, file, new_classes=["owl"])

    def prepare() -> None:
        shutil.rmtree(pets, ignore_errors=True)
        shutil.copytree(kept, pets)

    old = read_folder(pets).fingerprint
    work()
    new, whole = read_folder(pets).fingerprint, bytes_in(pets)
    for _ in deaths(work, prepare):
        assert catalogue.load(str(pets), {}).fingerprint in (old, new)
        work()
        assert bytes_in(pets) == whole


def test_a_folder_that_another_one_writes_to_and_what_is_not_ours(pets: Path, monkeypatch) -> None:
    monkeypatch.setattr(drafts, "PATIENCE_S", 0.0)
    with opened_folder(pets) as descriptor, alone_in(descriptor), pytest.raises(DataError, match="another crowdsweep"):
        two_files(pets)
    (pets / CHANGED).mkdir()
    (pets / CHANGED / "thesis.tex").write_text("mine")
    now = bytes_in(pets)
    with pytest.raises(DataError, match=r"expected files that `crowdsweep add` changes, got thesis\.tex"):
        two_files(pets)
    assert bytes_in(pets) == now
    shutil.rmtree(pets / CHANGED)
    (pets / CHANGED).symlink_to(pets.parent)
    with pytest.raises(DataError, match="is a link"):
        two_files(pets)
