"""The journal on a local disk: one append-only file, and a lock that dies with its process."""

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from crowdsweep.errors import JournalError, JournalLocked
from crowdsweep.journal.rows import Row, seal, whole_rows

JOURNAL_FILE = "journal.jsonl"
LOCK_FILE = "journal.lock"

_log = logging.getLogger(__name__)


class LocalRows:
    """Rows in `journal.jsonl` of a folder.

    A writer holds `flock` on `journal.lock`: the kernel lets go of it when the process ends, however it ends. The lock
    file itself stays, and says who had it last.

    Args:
        folder: of the store; made when it is missing and `write` is set.
        write: take the lock, and cut off a torn tail when the rows are read.

    Raises:
        JournalLocked: another process (or another journal of this one) is writing.
        JournalError: the folder cannot be made or written.
    """

    def __init__(self, folder: Path, *, write: bool) -> None:
        self._folder = folder
        self._path = folder / JOURNAL_FILE
        self._write = write
        self._lock: int | None = None
        self._file: int | None = None
        if write:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._lock = _take_lock(folder / LOCK_FILE)
                self._open()
            except JournalError:
                raise
            except OSError as error:
                self.close()
                raise JournalError(f"{folder}: cannot keep a journal here: {error}") from error

    def read_rows(self) -> Iterator[Row]:
        """See `Rows.read_rows`; a file that does not exist has no rows."""
        good = 0
        try:
            with self._path.open("rb") as file:
                for text, number, end in whole_rows(file, str(self._path)):
                    good = end
                    yield Row(text=text, place=f"{self._path}, row {number}")
        except FileNotFoundError:
            return
        if self._file is not None and (size := os.fstat(self._file).st_size) > good:
            _log.warning("%s: dropped a torn tail: %d bytes from byte %d on", self._path, size - good, good)
            os.ftruncate(self._file, good)
            os.fsync(self._file)

    def append_rows(self, texts: Sequence[str]) -> None:
        """See `Rows.append_rows`: one write and one fsync for all of them (about 0.2 ms)."""
        if self._file is None:
            raise JournalError(f"{self._path}: not open for writing")
        size = os.fstat(self._file).st_size
        try:
            _write_all(self._file, b"".join(map(seal, texts)))
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # half a row is dropped by the next reader all the same
                os.ftruncate(self._file, size)
            raise _not_written(self._path, error) from error

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """See `Rows.put`: each is written under another name, and given its own when it is whole."""
        place = self._folder / folder
        if self._file is None:
            raise JournalError(f"{place}: not open for writing")
        try:
            place.mkdir(parents=True, exist_ok=True)
            for name, content in files.items():
                path, draft = place / name, place / f"{name}.{os.getpid()}.new"
                whole = path.exists() and path.stat().st_size == len(content)
                if not whole:  # new, or its machine died before it was whole
                    draft.write_bytes(content)
                    draft.replace(path)
        except OSError as error:
            raise _not_written(place, error) from error

    def get(self, name: str) -> bytes | None:
        """See `Rows.get`."""
        path = self._folder / name
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(f"{path}: cannot be read: {error}") from error

    def close(self) -> None:
        """See `Rows.close`."""
        for descriptor in (self._file, self._lock):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # a new file's name must be as durable as its rows
        finally:
            os.close(folder)


def _not_written(path: Path, error: OSError) -> JournalError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "make room" if full else "see to the disk"
    return JournalError(
        f"{path}: could not be written ({error.strerror}). What stands in the store is safe: {advice}, then run the "
        f"same sweep again and it goes on"
    )


def _take_lock(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        _write_all(descriptor, json.dumps(holder).encode())
    except BlockingIOError:
        holder = os.pread(descriptor, 1000, 0)
        os.close(descriptor)
        raise JournalLocked(
            f"{path.parent}: another driver is writing this sweep: {_who(holder)}. Wait for it, stop it (Ctrl-C or "
            f"`kill -INT` on its pid), or give another folder with --store"
        ) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _who(holder: bytes) -> str:
    try:
        told = json.loads(holder)
        return f"pid {told['pid']} on {told['host']} since {told['since']}"
    except (ValueError, KeyError, TypeError):  # it has the lock, and has not yet written who it is
        return "one that has just begun"


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
