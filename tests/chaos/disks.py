"""Disks that take no more, or are gone for a while.

A limit to the size of any file is what an ordinary user can set where a full disk needs a disk; folders that may not be
written; a disk of its own for a store, where one may be mounted.
"""

import subprocess
import time
from random import Random

from chaos.faults import fault, rows_in_words
from chaos.records import cut_record
from chaos.sandbox import Command, Sandbox

LARGEST = 90_000  # bytes; the record comes to about as many, the page of the report to some more
BAD_INPUT = 2
LAST_ROW = 75
GONE_S = 4.0
SAID = ("was removed or replaced", "could not be written", "cannot be read", "no journal here")


@fault("disk full", draws=6)
def _full(box: Sandbox, draw: Random) -> str:
    size = draw.randint(200, LARGEST)
    command = box.start(largest_file=size)
    code = box.finish(command)
    assert code != BAD_INPUT or "could not be written" in box.said or "cannot keep a journal" in box.said, box.said
    return f"file over {size} bytes, {rows_in_words(box)}"


@fault("disk full to the last byte", draws=3)
def _really_full(box: Sandbox, draw: Random) -> str:
    """A disk of its own for the store, of a few hundred kilobytes, and larger when a person has made room."""
    box.store.mkdir()
    size = draw.randint(12, 500)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", str(box.store)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        box.store.rmdir()
        return "nothing may be mounted here: " + _full(box, draw)
    box.servers.append(lambda: subprocess.run(["umount", "-l", str(box.store)], check=False, capture_output=True))
    if draw.random() < 0.5:
        box.write(tracking={"enabled": True})
    code = box.finish(box.start())
    where = f"{size} KiB, {rows_in_words(box)}"
    assert code != BAD_INPUT or "could not be written" in box.said or "cannot keep a journal" in box.said, box.said
    subprocess.run(["mount", "-o", "remount,size=200m", str(box.store)], check=True, capture_output=True)
    return where


@fault("store read-only", draws=3)
def _read_only(box: Sandbox, draw: Random) -> str:
    cut_record(box, draw)
    box.store.chmod(0o555)
    box.journal.chmod(0o444)
    code = box.finish(box.start(largest_file=0))
    box.store.chmod(0o755)
    box.journal.chmod(0o644)
    assert code == BAD_INPUT, f"exit code {code}: {box.said}"
    return rows_in_words(box)


@fault("store read-only in mid-run", draws=3)
def _read_only_in_mid_run(box: Sandbox, draw: Random) -> str:
    command = box.start(largest_file=0)
    box.until_rows(draw.randint(1, 60), command)
    where = rows_in_words(box)
    folders = [box.store, *box.store.glob("*/")]
    for folder in folders:
        folder.chmod(0o555)
    box.finish(command)
    for folder in folders:
        folder.chmod(0o755)
    return where


@fault("store moved away and back", draws=3)
def _moved_away(box: Sandbox, draw: Random) -> str:
    """A person moves the folder while the driver writes it, and then moves it back: nothing was made in its place."""
    command, away = _until_it_is_lost(box, draw), box.folder / "away"
    where = rows_in_words(box)
    box.store.rename(away)
    seconds = _for_a_while(box, draw, command)
    assert not box.store.exists(), f"made where the store was: {sorted(box.store.rglob('*'))}: {command.said}"
    away.rename(box.store)
    _said_by_name(box, command)
    return f"{where}, {seconds:.1f} s"


@fault("store unmounted and mounted", draws=3)
def _unmounted(box: Sandbox, draw: Random) -> str:
    """Its disk goes, and comes back; an empty folder is there meanwhile."""
    disk = box.folder / "disk"
    disk.mkdir()
    box.store.mkdir()
    box.expected.add(disk.name)
    mount, unmount = ["mount", "--bind", str(disk), str(box.store)], ["umount", "-l", str(box.store)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        disk.rmdir()
        box.store.rmdir()
        return "nothing may be mounted here: " + _moved_away(box, draw)
    box.servers.append(lambda: subprocess.run(unmount, check=False, capture_output=True))
    command = _until_it_is_lost(box, draw)
    where = rows_in_words(box)
    subprocess.run(unmount, check=True, capture_output=True)
    seconds = _for_a_while(box, draw, command)
    below = sorted(path.name for path in box.store.iterdir())
    assert not {"journal.jsonl", "artifacts"} & set(below), f"written below the disk: {below}: {command.said}"
    subprocess.run(mount, check=True, capture_output=True)
    _said_by_name(box, command)
    return f"{where}, {seconds:.1f} s"


def _until_it_is_lost(box: Sandbox, draw: Random) -> Command:
    """Begins the sweep, and returns it at a drawn row."""
    command = box.start()
    box.until_rows(draw.randint(1, LAST_ROW), command)
    return command


def _for_a_while(box: Sandbox, draw: Random, command: Command) -> float:
    """Waits for a drawn time, or until the command has ended; returns the seconds."""
    began, seconds = time.monotonic(), draw.uniform(0.0, GONE_S)
    box.until(lambda: time.monotonic() - began > seconds, command)
    return time.monotonic() - began


def _said_by_name(box: Sandbox, command: Command) -> None:
    """The driver went on, or ended in an error that says what is wrong."""
    code = box.finish(command)
    assert code != BAD_INPUT or any(words in box.said for words in SAID), box.said
