"""Commands beside `run` that are killed, or run two at once; then they are run again, and what they wrote is whole."""

import shutil
import signal
import socket
import time
from pathlib import Path
from random import Random

from chaos import empty_database
from chaos.faults import fault, rows_in_words
from chaos.sandbox import Command, Sandbox

LABELS = ("labels.csv", "annotators.csv")
VOTES = "item,annotator,label\n" + "".join(f"i{n // 5},a{n * 7 % 11},{'cat' if n % 3 else 'dog'}\n" for n in range(200))
SAVES = "import crowdsweep as cs; fit = cs.fit('dawid-skene', 'made', seeds=2); print('begins', flush=True)\n"
SAVES += "for _ in range(20): fit.save('saved')"
REFUSED = 2


def _waited(seconds: float, box: Sandbox, command: Command) -> None:
    began = time.monotonic()
    box.until(lambda: time.monotonic() - began > seconds, command)


def _killed_or_at_once(box: Sandbox, draw: Random, line: str, longest_s: float) -> str:
    """Has a command killed at a drawn moment, or two of them run at once; returns where it hit.

    Raises:
        AssertionError: they end in words that are not ours.
    """
    first = box.start(line)
    if draw.random() < 0.3:
        _waited(draw.uniform(0.0, longest_s / 4), box, first)
        codes = {box.finish(box.start(line)), box.finish(first)}
        assert codes in ({0}, {0, REFUSED}), f"two at once: exit codes {codes}: {box.said}"
        return "two at once"
    _waited(seconds := draw.uniform(0.0, longest_s), box, first)
    hit = first.signal(signal.SIGKILL)
    box.finish(first)
    return f"after {seconds:.1f} s" if hit else "after its end"


def _dataset_to_be(box: Sandbox) -> None:
    """Puts the record of a sweep that ended into the sandbox, and beside it a file of labels."""
    shutil.copytree(box.undisturbed, box.store)
    (box.folder / "votes.csv").write_text(VOTES)
    box.expected |= {"votes.csv", "made"}


@fault("label killed", draws=4)
def _label(box: Sandbox, draw: Random) -> str:
    """Labels, whichever of them were written before, are those of a folder where nothing went wrong."""
    _dataset_to_be(box)
    assert box.run("init votes.csv made")[0] == 0
    box.expected |= {"labels", "apart"}
    if draw.random() < 0.5:
        assert box.run("label made --out labels --seeds 1")[0] == 0
    line = "label made --out labels --seeds 2"
    where = _killed_or_at_once(box, draw, line, 2.0)
    for one in (line, "label made --out apart --seeds 2"):
        code, said = box.run(one)
        assert code == 0, said
    names = [sorted(str(path.relative_to(top)) for path in top.rglob("*")) for top in _both(box)]
    assert names[0] == names[1], f"files of labels: {names[0]} in place of {names[1]}"
    for name in LABELS:
        got, wanted = ((top / name).read_bytes() for top in _both(box))
        assert got == wanted, f"{name} differs from that of a folder where nothing went wrong"
    return where


def _both(box: Sandbox) -> list[Path]:
    return [box.folder / "labels", box.folder / "apart"]


@fault("init killed", draws=3)
def _init(box: Sandbox, draw: Random) -> str:
    """Run again it makes the dataset; where that was done already, the sweep file of it."""
    _dataset_to_be(box)
    where = _killed_or_at_once(box, draw, "init votes.csv made", 1.0)
    code, said = box.run("init votes.csv made")
    if code == REFUSED and not (box.folder / "made" / "sweep.yaml").exists():
        code, said = box.run("init made")
    assert code == 0 or (code == REFUSED and "made" in said), said
    for line in ("data check made", "plan made/sweep.yaml"):
        code, said = box.run(line)
        assert code == 0, said
    return where


@fault("add killed", draws=2)
def _add(box: Sandbox, draw: Random) -> str:
    """Run again it leaves the dataset that a file of all rows makes: each label once, and nothing else beside it."""
    _dataset_to_be(box)
    first, *rows = VOTES.splitlines(keepends=True)
    (box.folder / "votes.csv").write_text("".join([first, *rows[:120]]))
    (box.folder / "more.csv").write_text("".join([first, *rows[120:]]))
    box.expected |= {"more.csv", "apart"}
    for folder in ("made", "apart"):
        assert box.run(f"init votes.csv {folder}")[0] == 0
    where = _killed_or_at_once(box, draw, "add made more.csv", 1.0)
    for folder in ("made", "apart"):
        code, said = box.run(f"add {folder} more.csv")
        assert code == 0, said
    got, wanted = (_labels_of(box.folder / folder) for folder in ("made", "apart"))
    assert got == wanted, f"the dataset differs from one that was added to once: {got.keys() ^ wanted.keys()}"
    return where


def _labels_of(folder: Path) -> dict[str, bytes]:
    """Returns a dataset's files; sweep files name the folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".csv" or path.name[0] == "."}


@fault("Fit.save killed", draws=2)
def _save(box: Sandbox, draw: Random) -> str:
    _dataset_to_be(box)
    box.expected.add("saved")
    assert box.run("init votes.csv made")[0] == 0
    command = box.start_python(SAVES)
    box.until(lambda: "begins" in command.said, command)
    _waited(seconds := draw.uniform(0.0, 0.5), box, command)
    command.signal(signal.SIGKILL)
    assert command.end() != 1, command.said
    again = box.start_python(SAVES)
    assert again.end() == 0, again.said
    assert {path.suffix for path in (box.folder / "saved").iterdir()} >= {".csv", ".yaml"}
    return f"after {seconds:.2f} s"


@fault("stop killed", draws=2)
def _stop(box: Sandbox, draw: Random) -> str:
    """Two commands that end a sweep, one of them killed: it ends in order, or goes on."""
    command = box.start()
    box.until_rows(draw.randint(2, 60), command)
    where = rows_in_words(box)
    stops = [box.start("stop store"), box.start("stop store")]
    _waited(draw.uniform(0.0, 0.5), box, stops[0])
    stops[0].signal(signal.SIGKILL)
    for one in stops:
        one.end()
        assert "Traceback" not in one.said, one.said
    box.finish(command)
    return where


@fault("live report killed", draws=2)
def _live(box: Sandbox, draw: Random) -> str:
    command = box.start()
    box.until_rows(draw.randint(2, 30), command)
    where = rows_in_words(box)
    pages = [box.start("report store --live"), box.start("report store --live")]
    _waited(draw.uniform(0.5, 2.0), box, pages[0])
    pages[0].signal(signal.SIGKILL)
    box.finish(command)
    for page in pages:
        page.press_ctrl_c()
        page.end()
        assert "Traceback" not in page.said, page.said
    return where


@fault("ui killed", draws=1)
def _ui(box: Sandbox, draw: Random) -> str:
    """A page that is served is killed with all it holds open; served again, it answers and ends."""
    box.write(tracking={"enabled": True})
    empty_database.put_into(box.store)
    command = box.start()
    box.finish(command)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    first = box.start(f"ui store --port {port}")
    _waited(seconds := draw.uniform(0.0, 8.0), box, first)
    first.signal(signal.SIGKILL)
    first.end()
    box.until_alone()
    again = box.start(f"ui store --port {port}")
    box.until(lambda: "http://127.0.0.1" in again.said, again)
    again.press_ctrl_c()
    again.end()
    assert "http://127.0.0.1" in again.said, again.said
    return f"after {seconds:.1f} s"
