"""The journal's file when others touched it: foreign rows, a missing lock, odd files in its place."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from mirror_checks import ok, started

from crowdsweep.errors import JournalDamaged, JournalError, JournalLocked
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.repair import repair_journal
from crowdsweep.record.store_files import JOURNAL_FILE, LOCK_FILE

A, B, C = ("a" * 16, "b" * 16, "c" * 16)
KEYS = [f"{number:016x}" for number in range(100)]


def written(folder: Path, count: int = 4) -> list[bytes]:
    """Lines of a sound journal."""
    journal = Journal(folder)
    journal.handle_many([started(), *(ok(KEYS[number]) for number in range(count - 1))])
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
    assert set(read_journal(tmp_path).results) == set(KEYS[:3])
    journal = Journal(tmp_path)
    journal.handle(ok(KEYS[3]))
    journal.close()
    assert file.read_bytes().startswith(b"".join(rows))
    assert set(read_journal(tmp_path).results) == set(KEYS[:4])


def test_a_deleted_lock_file_lets_no_second_driver_in(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    (tmp_path / LOCK_FILE).unlink()
    with pytest.raises(JournalLocked, match="an unknown driver"):
        Journal(tmp_path)
    first.handle(started())
    first.close()


@pytest.mark.parametrize("replace", [True, False])
def test_a_driver_whose_journal_was_taken_away_stops(replace: bool, tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.handle_many([started(), ok(A)])
    file = tmp_path / JOURNAL_FILE
    file.rename(tmp_path / "moved")
    if replace:
        file.write_bytes((tmp_path / "moved").read_bytes())
    with pytest.raises(JournalError, match="was removed or replaced"):
        first.handle(ok(B))
    first.close()
    assert set(read_journal(tmp_path).results if replace else {A}) == {A}


def test_a_driver_whose_journal_was_changed_stops(tmp_path: Path) -> None:
    first = Journal(tmp_path)
    first.handle(started())
    with (tmp_path / JOURNAL_FILE).open("ab") as file:
        file.write(b"x")
    with pytest.raises(JournalError, match="changed by another program"):
        first.handle(ok(B))
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
