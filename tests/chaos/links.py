"""Links to a person's files and folders where a store has its own, and stores that are moved and copied."""

import shutil
import signal
from pathlib import Path
from random import Random

from chaos import empty_database
from chaos.faults import fault, rows_in_words
from chaos.records import cut_record
from chaos.sandbox import Sandbox

BEHIND = {
    "artifacts": ("data", "figures", "old-data"),
    "mlartifacts": ("figures", "old-data"),
    "journal.jsonl": ("figures/journal.jsonl", "thesis.tex"),
    "journal.lock": ("thesis.tex", "figures"),
    "mlflow.db": ("notes.txt",),
    "report.html": ("report-2025.html", "figures/report.html", "figures"),
    "results.parquet": ("figures/results.parquet",),
    "table.csv": ("latest.tex", "data/labels.csv"),
    ".crowdsweep.json": ("notes.txt",),
}
"""What of a person stands behind a link of this name."""
REFUSED = 2


@fault("a link in the store", draws=6)
def _link(box: Sandbox, draw: Random) -> str:
    """It is refused by its name or replaced; a person then puts back what was there."""
    cut_record(box, draw)
    name = draw.choice(sorted(BEHIND))
    link, aside = box.store / name, box.folder / "aside"
    if name in ("mlartifacts", "mlflow.db"):
        box.write(tracking={"enabled": True})
    if was_there := link.exists():
        link.rename(aside)
    behind = draw.choice(BEHIND[name])
    link.symlink_to(box.folder / behind)
    code = box.finish(box.start())
    if link.is_symlink():
        assert code == REFUSED or not was_there, f"a link in place of {name} was followed: exit code {code}: {box.said}"
        assert code != REFUSED or name in box.said, f"what was refused is not named: {box.said}"
        link.unlink()
    elif code != REFUSED:
        _removed(aside)
        return f"{name} → {behind}, replaced"
    if was_there:
        _removed(link)
        aside.rename(link)
    box.code = None
    return f"{name} → {behind}, exit code {code}"


def _removed(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@fault("a link for a store", draws=1)
def _store_is_a_link(box: Sandbox, draw: Random) -> str:
    """A folder of a person, with names that a store has, stands where the sweep is told to put its record."""
    behind = draw.choice(["figures", str(box.folder / "figures")])
    box.store.symlink_to(behind, target_is_directory=True)
    code = box.finish(box.start())
    assert code == REFUSED, f"exit code {code}: {box.said}"
    box.store.unlink()
    return behind


@fault("store moved", draws=2)
def _moved(box: Sandbox, draw: Random) -> str:
    where = _begun(box, draw)
    box.store.rename(box.folder / "moved")
    box.place = "moved"
    return where


@fault("store copied", draws=2)
def _copied(box: Sandbox, draw: Random) -> str:
    """The copy goes on; the first one is as it was left."""
    where = _begun(box, draw)
    shutil.copytree(box.store, box.folder / "copy")
    box.expected.add("store")
    first = {path: path.read_bytes() for path in box.store.rglob("*") if path.is_file()}
    box.place = "copy"
    box.finish(box.start())
    for path, content in first.items():
        assert path.read_bytes() == content, f"{path} of the store that was copied is another"
    return where


def _begun(box: Sandbox, draw: Random) -> str:
    """Has a tracked sweep run to its end, or to a row that is drawn."""
    box.write(tracking={"enabled": True})
    empty_database.put_into(box.store)
    command = box.start()
    if draw.random() < 0.5:
        box.until_rows(draw.randint(5, 75), command)
        command.signal(signal.SIGKILL)
    box.finish(command)
    box.code, box.said = None, ""  # the line that it printed names the place where the store was
    return rows_in_words(box)
