"""The journal on a local disk, as it is read: an append-only file, and files beside it (`local_writer` writes them)."""

import errno
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from crowdsweep.errors import JournalError
from crowdsweep.paths import check_path, names_in
from crowdsweep.record.rows import Row, lines_of, valid_rows
from crowdsweep.record.store_files import JOURNAL_FILE


class LocalRows:
    """Rows in the file `journal.jsonl` of a folder, to be read, even while a driver writes them.

    Args:
        folder: of the store.

    Raises:
        BadInput: the path is invalid.
    """

    def __init__(self, folder: Path) -> None:
        check_path(folder, "a store")
        self._folder = folder
        self._path = folder / JOURNAL_FILE

    def read_rows(self) -> Iterator[Row]:
        """See `Rows.read_rows`; a missing file has no rows."""
        with suppress(FileNotFoundError), reading(self._path) as file:
            yield from valid_rows(lines_of(file), str(self._path))

    def get(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError), reading(self._folder / name) as file:
            return file.read()
        return None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        return map(self.get, names)

    def names(self, folder: str) -> set[str]:
        return set(names_in(self._folder / folder))


@contextmanager
def reading(path: Path) -> Generator[BufferedReader]:
    """Opens a regular file of a store for reading.

    Raises:
        FileNotFoundError: there is none.
        JournalError: it cannot be read, or is a folder, a pipe or a device; the `with` block raised an `OSError`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # does not wait for a pipe
        try:
            check_regular(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            yield file
    except (FileNotFoundError, JournalError):
        raise
    except OSError as error:
        raise JournalError(f"{path}: cannot be read: {error.strerror}") from error


def check_regular(descriptor: int) -> None:
    """Raises `OSError` unless an opened file is a regular one."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "expected a file, found a pipe or a device")
