"""A record that is damaged, and files of a store that are deleted. The record is one that ends at some row, as a killed
driver leaves it: the beginning of one that nobody disturbed."""

import shutil
from collections.abc import Callable
from random import Random

from chaos.faults import Strike, fault, rows_in_words
from chaos.journal_file import lines_of
from chaos.sandbox import Sandbox

FEWEST_ROWS = 8
Lines = list[bytes]


def cut_record(box: Sandbox, draw: Random) -> None:
    """Puts the beginning of the undisturbed record into the sandbox, and remembers what had finished in it."""
    shutil.copytree(box.undisturbed, box.store)
    lines = lines_of(box.journal)
    upto = draw.choice([len(lines), draw.randint(FEWEST_ROWS, len(lines))])
    box.journal.write_bytes(b"".join(lines[:upto]))
    box.remember()
    named = {one.digest for result in box.known.values() for one in result.kept.values()}
    for path in (box.store / "artifacts").iterdir():
        if path.stem not in named:
            path.unlink()


def _damaged(lines: Lines, at: int, draw: Random) -> None:
    row = bytearray(lines[at])
    for _ in range(draw.choice([1, 1, 20])):
        row[draw.randrange(len(row) - 1)] ^= 1 << draw.randrange(7)
    lines[at] = bytes(row).replace(b"\n", b"?")[:-1] + b"\n"


def _doubled(lines: Lines, at: int, draw: Random) -> None:
    lines.insert(draw.randint(at, len(lines)), lines[at])


def _swapped(lines: Lines, at: int, draw: Random) -> None:
    lines[at], lines[at - 1] = lines[at - 1], lines[at]


def _deleted(lines: Lines, at: int, draw: Random) -> None:
    del lines[at]


def _changed(change: Callable[[Lines, int, Random], None]) -> Strike:
    def strike(box: Sandbox, draw: Random) -> str:
        cut_record(box, draw)
        lines = lines_of(box.journal)
        places = [draw.randrange(1, len(lines) - 3) for _ in range(draw.choice([1, 1, 3]))]
        for at in places:
            change(lines, at, draw)
        box.journal.write_bytes(b"".join(lines))
        return f"row {', '.join(str(at + 1) for at in places)} of {len(lines)}"

    return strike


for _kind, _change in (("damaged", _damaged), ("doubled", _doubled), ("swapped", _swapped), ("deleted", _deleted)):
    fault(f"rows {_kind}", draws=4)(_changed(_change))


@fault("unterminated tail", draws=3)
def _torn_tail(box: Sandbox, draw: Random) -> str:
    shutil.copytree(box.undisturbed, box.store)
    lines = lines_of(box.journal)
    upto = draw.randrange(FEWEST_ROWS, len(lines))
    half = lines[upto][: draw.randrange(1, len(lines[upto]))]
    box.journal.write_bytes(b"".join(lines[:upto]))
    box.remember()
    box.journal.write_bytes(b"".join([*lines[:upto], half]))
    return f"{len(half)} bytes of row {upto + 1}"


@fault("lock deleted", draws=3)
def _lock_deleted(box: Sandbox, draw: Random) -> str:
    """A second driver comes after it, and has to be kept out all the same."""
    command = box.start()
    box.until_rows(draw.randint(2, 40), command)
    where = rows_in_words(box)
    (box.store / "journal.lock").unlink(missing_ok=True)
    _, second = box.run()
    box.finish(command)
    assert "another driver" in second or command.is_over, second
    return where


@fault("reports deleted", draws=2)
def _reports_deleted(box: Sandbox, draw: Random) -> str:
    cut_record(box, draw)
    doomed = [box.store / name for name in ("report.html", "table.csv", "table.md", "table.tex", "results.parquet")]
    for path in draw.sample(doomed, draw.randint(1, len(doomed))):
        path.unlink()
    return rows_in_words(box)


@fault("artifacts deleted", draws=3)
def _artifacts_deleted(box: Sandbox, draw: Random) -> str:
    cut_record(box, draw)
    files = sorted((box.store / "artifacts").iterdir())
    if not files:
        return f"not struck: no trial had ended, {rows_in_words(box)}"
    doomed = draw.sample(files, draw.choice([1, len(files) // 2, len(files)]))
    for path in doomed:
        path.unlink()
    return f"{len(doomed)} of {len(files)}, {rows_in_words(box)}"
