"""Default location of records, lookup of existing ones, and the drivers that work on them.

What looks into an object store raises `JournalError` where that cannot be read.
"""

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from crowdsweep.errors import BadInput
from crowdsweep.paths import exists, is_file, is_folder, names_in
from crowdsweep.record.numbered import JOURNAL
from crowdsweep.record.object_rows import is_gone, last_head
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_files import JOURNAL_FILE, LOCK_FILE, read_note
from crowdsweep.record.store_uri import Store, StoreUri

DEFAULT_STORES = Path("crowdsweep-runs")
"""Relative to the working directory; contains one folder per sweep, with the sweep's name."""
_NO_PROCESS = 1 << 31  # ids of processes are smaller


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The process that runs a sweep.

    Attributes:
        since: start time, ISO 8601.
        writer: the driver's identifier in an object store; empty if the store is a folder.
    """

    pid: int
    host: str
    since: str
    writer: str = ""

    @property
    def here(self) -> bool:
        """Whether the driver runs, or ran, on this machine."""
        return self.host == socket.gethostname()


def stores_below(folder: Store) -> list[Store]:
    """Returns the stores of sweeps in a folder or below a prefix, the most recently written first."""
    if isinstance(folder, Path):
        return [*stores_in(folder)]
    stores = [folder / name for name in Objects(folder).folders()]
    written = [(when, store) for store in stores if (when := written_at(store)) is not None]
    return [store for _, store in sorted(written, reverse=True)]


def written_at(store: Store) -> datetime | None:
    """Returns when a store's journal was last written; None if it has no journal."""
    if isinstance(store, Path):
        with suppress(OSError):
            return datetime.fromtimestamp((store / JOURNAL_FILE).stat().st_mtime, UTC)
        return None
    return max((one.written for one in Objects(store).names(JOURNAL)), default=None)


def stores_in(folder: Path = DEFAULT_STORES) -> list[Path]:
    """Returns the folders of sweeps in a folder, the most recently written first."""
    written: list[tuple[int, Path]] = []
    for store in (folder / name for name in names_in(folder)):
        with suppress(OSError):  # it is no store, or was just removed
            written.append(((store / JOURNAL_FILE).stat().st_mtime_ns, store))
    return [store for _, store in sorted(written, key=lambda pair: pair[0], reverse=True)]


def asked_store(given: Store | None) -> Store:
    """Returns the store that a user asked for.

    Args:
        given: a URI, which is returned unchanged; the path of a store; the name of a sweep in `DEFAULT_STORES`; or None
            for the latest sweep there. If a path and a sweep have the same name, such as a dataset's folder, the one
            with a journal is returned.

    Raises:
        BadInput: there is no such store.
    """
    if isinstance(given, StoreUri):
        return given
    if given is not None:
        places = [place for place in (given, DEFAULT_STORES / given) if is_folder(place)]
        if places:
            return next((place for place in places if exists(place / JOURNAL_FILE)), places[0])
    known = stores_in()
    if given is None and known:
        return known[0]
    hint = f"there are {', '.join(map(str, known))}" if known else "run a sweep first: `crowdsweep run SWEEP`"
    if given is None:
        raise BadInput(f"expected the folder of a sweep's record, as {DEFAULT_STORES} holds none here; {hint}")
    raise BadInput(f"{given}: expected the folder of a sweep's record, found nothing there; {hint}")


def has_journal(store: Store) -> bool:
    """Whether a store has a journal, even a damaged one."""
    return is_file(store / JOURNAL_FILE) if isinstance(store, Path) else last_head(Objects(store))[0] > 0


def driver_of(store: Store) -> Driver | None:
    """Returns the driver that runs a sweep; None if no driver does.

    It is unknown whether a process on another machine is still alive: it counts as running until another driver begins.
    """
    if isinstance(store, StoreUri):
        _, head = last_head(Objects(store))
        works = head is not None and not head.ended and not is_gone(head)
        return Driver(pid=head.pid, host=head.host, since=head.since, writer=head.writer) if head and works else None
    try:
        holder = read_note(store, LOCK_FILE)
        driver = Driver(pid=int(holder["pid"]), host=str(holder["host"]), since=str(holder["since"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return None
    if not 0 < driver.pid < _NO_PROCESS:
        return None
    return driver if not driver.here or _writes(driver.pid, store / JOURNAL_FILE) else None


def _writes(pid: int, journal: Path) -> bool:
    """Whether a process of this machine has the journal open; if that cannot be checked, whether it is alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's process
    try:
        named = journal.stat()
        opened = [file.stat() for file in Path(f"/proc/{pid}/fd").iterdir() if file.exists()]
    except FileNotFoundError:  # the process has just ended, or the system has no /proc
        return not Path("/proc/self").exists()
    except OSError:
        return True
    return any(os.path.samestat(named, file) for file in opened)
