"""The journal on a local disk, as its driver writes it, whose process keeps it locked until it ends."""

import errno
import fcntl
import json
import logging
import os
import shlex
import socket
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from crowdsweep.errors import JournalError, JournalLocked
from crowdsweep.files.drafts import Draft, alone_in, remove_abandoned
from crowdsweep.files.inside import UnexpectedLink, mode_of, opened_folder
from crowdsweep.record.local import LocalRows, check_regular, reading
from crowdsweep.record.rows import START, Row, chain, lines_of, valid_rows
from crowdsweep.record.store_files import LOCK_FILE, check_journal_goes_here, read_note

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_log = logging.getLogger(__name__)


class LocalWriter(LocalRows):
    """Rows in the file `journal.jsonl` of a folder, to be written.

    It holds `flock` on that file; the kernel releases it when the process ends, however it ends. It also locks
    `journal.lock`, which says who writes the journal, and which stays in place while `repair` replaces the journal. If
    somebody deletes `journal.lock`, the first lock still holds.

    Args:
        folder: of the store; created if it is missing.

    Raises:
        JournalLocked: another process, or another journal of this process, is writing.
        BadInput: the path is invalid; or the folder has no record, and has files that reports would overwrite.
        JournalError: the folder cannot be created or written.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._lock: int | None = None
        self._file: int | None = None
        self._draft: Draft | None = None
        self._link = START
        self._named: tuple[int, int] | None = None  # the locked file, by device and inode
        self._end: int | None = None  # size of the valid part of the file; None before it was read
        try:
            folder.mkdir(parents=True, exist_ok=True)
            check_journal_goes_here(folder)
            self._file = _open_locked(self._path)
            self._named = _identity(os.fstat(self._file))
            self._lock = _take_lock(folder / LOCK_FILE)
            with opened_folder(folder) as opened, alone_in(opened):
                remove_abandoned(opened)
        except OSError as error:
            self.close()
            if isinstance(error, JournalError):
                raise
            raise JournalError(f"{folder}: cannot keep a journal here: {_words(error)}") from error

    def read_rows(self) -> Iterator[Row]:
        """See `Rows.read_rows`; cuts off a torn tail."""
        with suppress(FileNotFoundError), reading(self._path) as file:
            link, good = yield from valid_rows(lines_of(file), str(self._path))
            if self._file is not None:
                self._end, self._link = self._trimmed(self._file, good), link

    def append_rows(self, texts: Sequence[str]) -> None:
        """See `WritableRows.append_rows`: one write and one fsync for all rows (about 0.2 ms)."""
        if self._file is None:
            raise JournalError(f"{self._path}: not open for writing")
        if self._end is None:
            for _ in self.read_rows():  # to learn the end of the chain
                pass
        lines, link = chain(texts, self._link)
        try:
            self._check_undisturbed()
            _write_all(self._file, lines)
            os.fsync(self._file)
        except JournalError:
            raise
        except OSError as error:
            with suppress(OSError):  # if this fails, the next reader drops the partial row
                os.ftruncate(self._file, self._end or 0)
            raise _not_written(self._path, error) from error
        # After the fsync only: a row that is not durable is no part of the chain that the next one names.
        self._link, self._end = link, (self._end or 0) + len(lines)

    def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """See `WritableRows.put`: writes each file into a draft and renames it when it is complete."""
        place = self._folder / folder
        if self._file is None:
            raise JournalError(f"{place}: not open for writing")
        try:
            self._check_in_place()  # if the store was moved away, this would create a new one
            with opened_folder(self._folder, folder, make=True) as into:
                for name, content in files.items():
                    if not _is_complete(into, name, len(content)):
                        self._drafts().put(name, content, into)
        except JournalError:
            raise
        except OSError as error:
            raise _not_written(place, error) from error

    def remove(self, names: Sequence[str]) -> None:
        """See `WritableRows.remove`; folders that become empty are removed too."""
        if self._file is None:
            raise JournalError(f"{self._folder}: not open for writing")
        try:
            for folder, name in (name.rsplit("/", 1) for name in names):
                with suppress(FileNotFoundError), opened_folder(self._folder, folder) as inside:
                    os.unlink(name, dir_fd=inside)
            with opened_folder(self._folder) as store:
                for folder in {name.rpartition("/")[0] for name in names}:
                    with suppress(OSError):  # not empty
                        os.rmdir(folder, dir_fd=store)
        except OSError as error:
            raise JournalError(f"{self._folder}: a file of the store cannot be removed: {_words(error)}") from error

    def heed(self, press: Callable[[], object]) -> None:
        """See `WritableRows.heed`; does nothing, because a local driver is stopped by a signal."""

    def close(self) -> None:
        if self._draft is not None:
            self._draft.close()
            self._draft = None
        for descriptor in (self._lock, self._file):
            if descriptor is not None:
                os.close(descriptor)
        self._file = self._lock = None

    def _drafts(self) -> Draft:
        """Returns the draft for incomplete files, created on first use."""
        if self._draft is None:
            with opened_folder(self._folder) as folder, alone_in(folder):
                self._draft = Draft(self._folder, folder)
        return self._draft

    def _trimmed(self, file: int, good: int) -> int:
        """Cuts off a torn tail, or adds a missing last newline; returns the size of the file."""
        size = os.fstat(file).st_size
        if size > good:
            _log.warning("%s: dropped a torn tail: %d bytes from byte %d on", self._path, size - good, good)
            os.ftruncate(file, good)
            os.fsync(file)
        # A write that was cut off just before its newline left a whole row, which is valid and only has to be ended.
        if not good or os.pread(file, 1, good - 1) == b"\n":
            return good
        _write_all(file, b"\n")
        return good + 1

    def _check_in_place(self) -> os.stat_result:
        """Raises `JournalError` if the path no longer leads to the locked file; returns the file's current status."""
        found = _lstat(self._path)
        if found is None or _identity(found) != self._named:
            raise JournalError(
                f"{self._path}: was removed or replaced while this driver wrote it; the driver stops, and has not "
                f"written to the new file. Put the right file back, then run the same sweep again"
            )
        return found

    def _check_undisturbed(self) -> None:
        """Raises `JournalError` if somebody else moved, replaced or changed the file."""
        found = self._check_in_place()
        if found.st_size != self._end:
            raise JournalError(
                f"{self._path}: was changed by another program while this driver wrote it (it has {found.st_size} "
                f"bytes, not {self._end}); the driver stops. Find out by whom, then run the same sweep again"
            )


def _is_complete(folder: int, name: str, size: int) -> bool:
    """Whether a file of this size exists in an opened folder; another size shows that a crash left it incomplete."""
    mode = mode_of(folder, name)
    is_file = mode is not None and stat.S_ISREG(mode)
    return is_file and os.stat(name, dir_fd=folder, follow_symlinks=False).st_size == size


def _words(error: OSError) -> str:
    """Returns the message of an error; for a link in the place of a file, one that names the link."""
    if error.errno == errno.ELOOP and error.filename is not None:
        return f"{error.filename} is a link, and a store's record may not be a link; put the file itself in its place"
    if error.errno in _NO_LOCKS:
        return (
            f"its file system has no file locks ({error.strerror}), which keep a second driver out; have it mounted "
            f"with them (NFS: its lock daemon runs; Lustre: -o flock), or give another --store, on a local disk or s3://…"
        )
    return str(error)


def _lstat(path: Path) -> os.stat_result | None:
    """Returns the status of a path without following links; None if it does not exist."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _identity(file: os.stat_result) -> tuple[int, int]:
    return file.st_dev, file.st_ino


def _open_locked(path: Path) -> int:
    """Opens or creates the journal, locks it, and makes sure that the path still leads to the locked file."""
    while True:
        # flock locks the file that was opened, not its name: if another one was renamed to that name in between, the
        # lock guards nothing, and the name is opened again.
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            check_regular(descriptor)
            named = _lstat(path)
            if named is not None and _identity(named) == _identity(os.fstat(descriptor)):
                _sync_folder(path.parent)  # a new file's name must be as durable as its rows
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise _locked(path.parent) from None
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was replaced in between, as `repair` does


def _open(path: Path) -> int:
    # O_APPEND: a write goes to the end, wherever something was read. O_NOFOLLOW: a link in the file's place is an
    # error.
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _not_written(path: Path, error: OSError) -> JournalError:
    advice = "check the disk"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        advice = "make room"
    elif error.errno == errno.ESTALE:
        advice = "the server that has this folder was restarted or lost it, so see that it is mounted and whole"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "allow more open files (ulimit -n)"
    elif isinstance(error, UnexpectedLink):
        advice = "put a folder there"
    return JournalError(
        f"{path}: could not be written ({error.strerror}). What is in the store is safe: {advice}, then run the "
        f"same sweep again to continue"
    )


def _take_lock(path: Path) -> int:
    """Locks the file that older versions lock, and writes into it who holds the journal."""
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        check_regular(descriptor)
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        os.ftruncate(descriptor, 0)
        _write_all(descriptor, json.dumps(holder).encode())
    except BlockingIOError:
        os.close(descriptor)
        raise _locked(path.parent) from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _locked(folder: Path) -> JournalLocked:
    return JournalLocked(
        f"{folder}: another driver is writing this sweep: {_who(folder)}. Wait for it, stop it "
        f"(`crowdsweep stop {shlex.quote(str(folder))}`), or give another folder with --store"
    )


def _who(folder: Path) -> str:
    try:
        lock_holder = read_note(folder, LOCK_FILE)
        return f"pid {lock_holder['pid']} on {lock_holder['host']} since {lock_holder['since']}"
    except (KeyError, TypeError):  # the driver has not written it yet, or the file was deleted
        return "an unknown driver"


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
