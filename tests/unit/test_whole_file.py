"""Files that are written whole: what a killed writer left is removed by the next driver, and nothing else is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crowdsweep.journal.local import LocalRows
from crowdsweep.journal.whole_file import remove_drafts, write_whole

DIES = """
import os, sys
from pathlib import Path
from crowdsweep.journal import whole_file
whole_file.os.fsync = lambda file: os._exit(9)
whole_file.write_whole(Path(sys.argv[1]), b"half", durable=True)
"""


def died_writing(path: Path) -> None:
    """Has a process write a file and die before it is whole."""
    done = subprocess.run([sys.executable, "-c", DIES, str(path)], check=False)
    assert done.returncode == 9
    assert not path.exists()
    assert list(path.parent.glob(f".{path.name}.*.new"))


@pytest.mark.parametrize("place", [".", "artifacts"])
def test_the_next_driver_removes_what_a_killed_one_had_not_finished(place: str, tmp_path: Path) -> None:
    folder = tmp_path / place
    folder.mkdir(exist_ok=True)
    died_writing(folder / "one.npy")
    LocalRows(tmp_path, write=False).get("one.npy")
    assert list(folder.glob(".one.npy.*")), "a reader leaves it"
    LocalRows(tmp_path, write=True).close()
    assert not list(folder.glob(".one.npy.*"))


def test_nothing_else_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".notes.new").write_text("a person's")
    os.mkfifo(tmp_path / ".pipe.12345678.new")  # nobody waits for what may come out of it
    (tmp_path / ".link.12345678.new").symlink_to(tmp_path / ".notes.new")
    fsync = os.fsync

    def meanwhile(file: int) -> None:
        remove_drafts(tmp_path)
        fsync(file)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_whole(tmp_path / "one", b"whole", durable=True)
    assert (tmp_path / "one").read_bytes() == b"whole"
    assert (tmp_path / ".notes.new").read_text() == "a person's"
    assert (tmp_path / ".link.12345678.new").is_symlink()
