"""A store that is named by a link: into a store or an empty folder it is followed, into a person's it is not."""

from pathlib import Path

import pytest

from crowdsweep.errors import ForeignFile
from crowdsweep.record.events import SweepFinished, SweepStatus
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.store_files import check_store


def link_to(folder: Path) -> Path:
    link = folder.parent / "link"
    link.symlink_to(folder, target_is_directory=True)
    return link


def write(store: Path) -> None:
    journal = Journal(store)
    journal.handle(SweepFinished(status=SweepStatus.DONE, time=1.0))
    journal.close()


@pytest.mark.parametrize("theirs", ["thesis.tex", "journal.jsonl", "artifacts/plot.npy", ".hidden", "a\x1bb"])
def test_a_link_into_a_persons_folder_is_refused_and_nothing_is_written(theirs: str, tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    (folder / theirs).parent.mkdir(parents=True)
    (folder / theirs).write_text('{"a": "diary"}\n')
    link = link_to(folder)
    for call in (write, check_store):
        with pytest.raises(ForeignFile, match="behind this link") as refused:
            call(link)
        assert str(folder) in str(refused.value)
        assert "\x1b" not in str(refused.value)
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()] == [theirs]


def test_a_link_to_an_empty_folder_or_to_a_store_is_followed(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    link = link_to(folder)
    write(link)
    check_store(link)
    (folder / "notes.txt").write_text("of this sweep")
    journal = Journal(link)
    journal.close()
    assert read_journal(link).rows == 1


def test_a_store_whose_driver_died_before_the_first_row_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    link = link_to(folder)
    Journal(link).close()
    assert {path.name for path in folder.iterdir()} == {"journal.jsonl", "journal.lock"}
    write(link)
    assert read_journal(link).rows == 1


def test_the_folder_itself_may_be_given(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    folder.mkdir()
    (folder / "thesis.tex").write_text("five years")
    write(folder)
    assert (folder / "thesis.tex").read_text() == "five years"
