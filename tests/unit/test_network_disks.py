"""Stores on disks of other machines: without file locks, stale after a restart of the server, with I/O errors."""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mirror_checks import ok, spec

from crowdsweep.errors import JournalError
from crowdsweep.files import placing
from crowdsweep.files.owned import Kind, replace_files
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.local import JOURNAL_FILE

KIND = Kind(name="test", may_write=lambda name: True)


def failing(number: int, calls: Callable[..., bool] = lambda *_: True) -> Callable[[Callable[..., Any]], Any]:
    """Returns what makes a function of the system fail with an error number, for the calls that are named."""

    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if calls(*arguments):
                raise OSError(number, os.strerror(number))
            return function(*arguments, **named)

        return call

    return make


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_disk_without_locks_is_refused_with_the_way_out(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", failing(number)(fcntl.flock))
    with pytest.raises(JournalError, match=r"store: .*no file locks \(.*keep a second driver out.*-o flock.*--store"):
        Journal(tmp_path / "store")
    monkeypatch.undo()
    Journal(tmp_path / "store").close()  # what the refusal left is in nobody's way


def test_reports_and_labels_are_written_to_a_disk_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK)(fcntl.flock))
    replace_files(tmp_path, KIND, {"one.txt": b"1"})
    replace_files(tmp_path, KIND, {"one.txt": b"2"})
    assert (tmp_path / "one.txt").read_bytes() == b"2"
    assert {path.name for path in tmp_path.iterdir()} == {"one.txt", ".crowdsweep.json"}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ESTALE, "the server that has this folder was restarted or lost it"),
        (errno.EIO, "check the disk"),
        (errno.EDQUOT, "make room"),
        (errno.EMFILE, r"allow more open files \(ulimit -n\)"),
    ],
)
@pytest.mark.parametrize("where", ["fsync", "write", "lstat"])
def test_a_row_that_the_server_refuses_stops_the_driver_and_the_next_continues(
    number: int, words: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    journal.handle(ok(spec(0).key))
    if where == "lstat":
        refuse = failing(number, lambda path, *_: path.name == JOURNAL_FILE)
        monkeypatch.setattr(Path, "lstat", refuse(Path.lstat))
    else:
        monkeypatch.setattr(os, where, failing(number)(getattr(os, where)))
    with pytest.raises(JournalError, match=f"could not be written .*What is in the store is safe: {words}"):
        journal.handle(ok(spec(1).key))
    monkeypatch.undo()
    journal.close()
    assert list(read_journal(tmp_path).results) == [spec(0).key]
    journal = Journal(tmp_path)
    journal.handle(ok(spec(1).key))
    journal.close()
    assert list(read_journal(tmp_path).results) == [spec(0).key, spec(1).key]


def test_locks_that_lie_are_noticed_before_the_next_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS with `nolock` locks within one machine alone: the second driver is on another one."""
    first = Journal(tmp_path)
    first.handle(ok(spec(0).key))
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    second = Journal(tmp_path)
    second.handle(ok(spec(1).key))
    with pytest.raises(JournalError, match="was changed by another program while this driver wrote it"):
        first.handle(ok(spec(2).key))
    first.close()
    second.handle(ok(spec(3).key))
    second.close()
    assert list(read_journal(tmp_path).results) == [spec(number).key for number in (0, 1, 3)]


def test_a_rename_that_the_server_refuses_puts_everything_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = {"a.txt": b"1", "b.txt": b"1"}, {"a.txt": b"2", "b.txt": b"2"}
    replace_files(tmp_path, KIND, old)
    monkeypatch.setattr(placing.os, "rename", failing(errno.EIO, lambda name, *_: name == "b.txt")(os.rename))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        replace_files(tmp_path, KIND, new)
    assert {name: (tmp_path / name).read_bytes() for name in old} == old
    monkeypatch.undo()
    replace_files(tmp_path, KIND, new)
    assert {name: (tmp_path / name).read_bytes() for name in new} == new
