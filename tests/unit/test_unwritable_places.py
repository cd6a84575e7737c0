"""Places that cannot be written are found before the work that would be written there: nobody waits for nothing."""

import errno
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crowdsweep.cli.commands import run_command_line
from crowdsweep.data.on_disk import folder as dataset_folder
from crowdsweep.files.inside import check_can_write
from crowdsweep.importing import file_to_folder
from crowdsweep.labelling import folder as labelling
from crowdsweep.views import report_files

CSV = "item,annotator,label\n" + "".join(f"i{i},w{w},{'ab'[i % 2]}\n" for i in range(6) for w in range(3))


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A folder that this user cannot write into; of root, who may do everything else, it is immutable."""
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    folder.chmod(0o555)
    is_root = os.geteuid() == 0
    if is_root and subprocess.run(["chattr", "+i", folder], check=False, capture_output=True).returncode:
        pytest.skip("root can write everywhere here")
    yield folder
    if is_root:
        subprocess.run(["chattr", "-i", folder], check=True)
    folder.chmod(0o755)


def too_late(*_: Any, **__: Any) -> Any:
    raise AssertionError("the work had begun")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a CSV and a dataset."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(CSV)
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds" / "annotations.csv").write_text(CSV)
    return tmp_path


def in_a_closed_folder(closed: Path) -> tuple[Path, str]:
    return (
        closed / "labels",
        rf"got {closed}: (Operation not permitted|Permission denied); correct that, or give another",
    )


def a_file(closed: Path) -> tuple[Path, str]:
    return closed / "notes.txt", "got a file"


def below_a_file(closed: Path) -> tuple[Path, str]:
    return closed / "notes.txt" / "labels", "notes.txt.*: Not a directory"


def below_a_link_to_nowhere(closed: Path) -> tuple[Path, str]:
    (closed.parent / "link").symlink_to("nowhere")
    return closed.parent / "link" / "labels", "link: No such file or directory"


@pytest.mark.parametrize("place", [in_a_closed_folder, a_file, below_a_file, below_a_link_to_nowhere])
def test_label_looks_before_it_fits(
    place: Callable[[Path], tuple[Path, str]],
    here: Path,
    closed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(labelling, "fit_everything", too_late)
    out, words = place(closed)
    assert run_command_line(["label", "birds", "--model", "majority-vote", "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert str(out) in told
    assert re.search(words, told), told


def test_label_looks_for_room(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(labelling, "fit_everything", too_late)
    monkeypatch.setattr(os, "write", full)
    assert run_command_line(["label", "birds", "--model", "majority-vote", "--out", "new"]) == 2
    monkeypatch.undo()
    assert f"got {here}: No space left on device" in capsys.readouterr().err
    assert not (here / "new").exists()


def test_new_folders_of_data_are_looked_at_before_a_file_is_read_or_a_crowd_drawn(
    here: Path, closed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file_to_folder, "read_form", too_late)
    monkeypatch.setattr(dataset_folder, "write_folder", too_late)
    new = str(closed / "new")
    for words in (["init", "t.csv", new], ["data", "import", "csv", "t.csv", new], ["data", "simulate", new]):
        assert run_command_line(words) == 2
        told = capsys.readouterr().err
        assert f"{new}: expected a folder that can be written, got {closed}: " in told, told


def test_a_report_looks_before_the_record_is_read(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report_files, "analysed", too_late)
    for words in (["report", str(closed)], ["report", str(closed), "--figures", "svg"]):
        assert run_command_line(words) == 2
        assert f"{closed}: could not be written" in capsys.readouterr().err
    assert not (tmp_path / "closed" / "figures").exists()


def test_the_look_leaves_nothing_and_needs_no_files_without_names(
    tmp_path: Path, closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS, some overlays and macOS have no O_TMPFILE: there the system is asked."""
    check_can_write(tmp_path / "a" / "b")
    monkeypatch.delattr(os, "O_TMPFILE")
    check_can_write(tmp_path / "a" / "b")
    with pytest.raises(PermissionError) as told:
        check_can_write(closed / "b")
    assert told.value.filename == str(closed)
    assert [path.name for path in tmp_path.iterdir()] == ["closed"]
