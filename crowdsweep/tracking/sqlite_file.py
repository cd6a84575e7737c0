"""Settings of a sqlite database while a sweep runs: commits do not wait for the disk.

MLflow commits about eight times per run and leaves sqlite at its defaults, with which a commit waits for the disk
several times: 40 to 110 ms of idle time per trial. With a write-ahead log a commit only appends to a second file, and
readers (`crowdsweep ui`) and the writer do not block each other. With `synchronous=NORMAL` only checkpoints wait for
the disk. A driver that is killed loses nothing. A machine that loses power may lose the last commits, never the
database; the next driver or `crowdsweep mirror` writes the missing runs again.

A write-ahead log works on one machine only. A database on a file system that others may mount is therefore left as it
was.
"""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import ConnectionPoolEntry

SHARED = ("9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gfs", "gluster", "gpfs", "lustre", "nfs", "smb", "virtiofs")
"""Beginnings of the names of file systems that several machines may mount."""

_MOUNTS = Path("/proc/self/mounts")
_PATIENCE_S = 0.5


class SqliteFile:
    """A database file that the SQLAlchemy engines of this process write to; it exists when `hasten` is called."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: list[ConnectionPoolEntry] = []
        self._listening = False

    def hasten(self) -> None:
        """Turns on the write-ahead log for connections opened from now on; may be repeated."""
        if is_shared(self._path) or self._switched("WAL") != "wal":
            return
        if not self._listening:
            event.listen(Engine, "connect", self._connected)
            self._listening = True

    def rest(self) -> None:
        """Merges the log into the file, unless another program has it open; `hasten` may follow. Never raises."""
        if not self._listening:
            return
        event.remove(Engine, "connect", self._connected)
        self._listening = False
        for entry in self._entries:
            if not entry.in_use:
                entry.invalidate()  # its next user connects anew
        self._entries.clear()
        if self._switched("DELETE") != "delete":
            self._ask("PRAGMA wal_checkpoint(TRUNCATE)")

    def _connected(self, connection: Any, entry: ConnectionPoolEntry) -> None:
        if isinstance(connection, sqlite3.Connection) and self._is_ours(connection):
            connection.execute("PRAGMA synchronous=NORMAL")
            self._entries.append(entry)

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        with contextlib.suppress(OSError):  # a file is gone, or the database is in memory
            return self._path.samefile(file)
        return False

    def _switched(self, mode: str) -> str:
        return self._ask(f"PRAGMA journal_mode={mode}")

    def _ask(self, pragma: str) -> str:
        """Returns the answer to a pragma; empty where sqlite cannot run it now."""
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(self._path, timeout=_PATIENCE_S)) as database,
        ):
            return str(database.execute(pragma).fetchone()[0])
        return ""


def is_shared(path: Path, mounts: Path = _MOUNTS) -> bool:
    """Whether a file is on a file system that other machines may mount; False where the system does not tell."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return False
    place = path.resolve()
    kind, depth = "", -1
    for line in lines:
        _, point, name, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        if place.is_relative_to(point) and len(Path(point).parts) >= depth:  # a later mount hides an earlier one
            kind, depth = name, len(Path(point).parts)
    return kind.startswith(SHARED)
