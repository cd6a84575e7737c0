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

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

SHARED = ("9p", "afs", "beegfs", "ceph", "cifs", "fuse", "gfs", "gluster", "gpfs", "lustre", "nfs", "smb", "virtiofs")
"""Beginnings of the names of file systems that several machines may mount."""

_MOUNTS = Path("/proc/self/mounts")
_PATIENCE_S = 0.5
_SET = "crowdsweep: synchronous=NORMAL"  # among what SQLAlchemy keeps of a connection
_HASTENED: set["SqliteFile"] = set()
"""Files with a write-ahead log now; sweeps on several threads may write to one. Here, as SQLAlchemy's listeners are."""


class SqliteFile:
    """A database file that the SQLAlchemy engines of this process write to; it exists when `hasten` is called."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engines: set[Engine] = set()

    def hasten(self) -> None:
        """Turns on the write-ahead log for what is written from now on; may be repeated."""
        if not is_shared(self._path) and self._switched("WAL") == "wal":
            _HASTENED.add(self)

    def rest(self) -> None:
        """Merges the log into the file, unless another program, or another sweep of this process, has it open; `hasten`
        may follow. Never raises."""
        if self not in _HASTENED:
            return
        _HASTENED.remove(self)
        if any(other._path == self._path for other in tuple(_HASTENED)):
            return
        for engine in self._engines:
            # Closes the connections that nobody has. To close the pool's entries one by one crashes the process if
            # another thread takes one meanwhile: sqlite then closes what a query runs on.
            engine.dispose()
        self._engines.clear()
        if self._switched("DELETE") != "delete":
            self._ask("PRAGMA wal_checkpoint(TRUNCATE)")

    def take(self, connection: Connection) -> None:
        """Sets a connection that is about to be used to wait for checkpoints alone, if it is one to this file."""
        with contextlib.suppress(OSError):  # a file is gone, or the database is in memory
            if self._path.samefile(connection.engine.url.database or ""):
                self._engines.add(connection.engine)
                if _SET not in connection.info:
                    connection.connection.cursor().execute("PRAGMA synchronous=NORMAL")  # opens no transaction
                    connection.info[_SET] = True

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


@event.listens_for(Engine, "engine_connect")
def _connected(connection: Connection) -> None:
    """Once per process: a listener that is removed while another thread connects would change what SQLAlchemy loops
    over."""
    if connection.engine.dialect.name == "sqlite":
        for file in tuple(_HASTENED):
            file.take(connection)


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
