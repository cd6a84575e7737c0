"""From a folder to what lies in it, through no link: whoever made the folder may have put one anywhere.

The folder that a person named may itself be a link; below it every step is taken from the folder before, by
descriptor, so that nothing that changes meanwhile leads elsewhere.
"""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE = 1 << 20


class UnexpectedLink(OSError):
    """A link where a folder or a file of ours is expected."""

    def __init__(self, name: str) -> None:
        words = f"{name} is a link, and what is written here goes through none; put a folder in its place"
        super().__init__(errno.ELOOP, words)


@contextmanager
def opened_folder(root: Path, *parts: str, make: bool = False) -> Generator[int]:
    """Yields the descriptor of a folder.

    Args:
        root: of everything; may be a link to a folder.
        parts: names of folders from there; none may be a link.
        make: those that are missing.

    Raises:
        UnexpectedLink: a part is one.
        OSError: there is no such folder, or it cannot be opened or made.
    """
    if make:
        root.mkdir(parents=True, exist_ok=True)
    here = os.open(root, _FOLDER)
    try:
        for part in parts:
            below = folder_below(here, part, make=make)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def folder_below(above: int, name: str, *, make: bool = False) -> int:
    """Opens a folder in an opened one and returns its descriptor.

    Raises:
        UnexpectedLink: it is a link.
        OSError: it is not there, is no folder, or cannot be opened or made.
    """
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=above)
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and is_link(above, name):
            raise UnexpectedLink(name) from error
        raise


def names_below(folder: int) -> list[str]:
    """Returns the names in an opened folder."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def is_link(folder: int, name: str) -> bool:
    """Whether a name in an opened folder is a link."""
    mode = mode_of(folder, name)
    return mode is not None and stat.S_ISLNK(mode)


def mode_of(folder: int, name: str) -> int | None:
    """Returns what stands under a name in an opened folder, as `st_mode`; None for nothing. Links are not followed."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def content_of(folder: int, name: str, most: int) -> bytes | None:
    """Returns the content of a file in an opened folder; None where there is no file of that name, or a larger one.

    Raises:
        OSError: the file cannot be read.
    """
    content = beginning_of(folder, name, most + 1)
    return content if content is not None and len(content) <= most else None


def beginning_of(folder: int, name: str, most: int) -> bytes | None:
    """Returns at most so many bytes of a file in an opened folder; None where there is no file of that name.

    Raises:
        OSError: the file cannot be read.
    """
    descriptor = _opened_file(folder, name)
    if descriptor is None:
        return None
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        return file.read(most)


@contextmanager
def above(folder: int, name: str, *, make: bool = False) -> Generator[tuple[int, str]]:
    """Yields the folder of a file that lies in an opened folder, or in one below it, and the file's own name.

    Args:
        folder: the opened folder's descriptor.
        name: of the file, as `classifier/fit-0.safetensors`.
        make: the folder below, where it is missing.

    Raises:
        OSError: as `folder_below`.
    """
    first, _, own = name.rpartition("/")
    inner = folder_below(folder, first, make=make) if first else os.dup(folder)
    try:
        yield inner, own
    finally:
        os.close(inner)


def digest_in(folder: int, name: str, *, durable: bool = False) -> str:
    """Returns the digest of a file in an opened folder, or in one below it, 32 hex digits; empty where no file is.

    Args:
        folder: the opened folder's descriptor.
        name: of the file, as for `above`.
        durable: have what was read survive the death of the machine.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        with above(folder, name) as (inner, own):
            descriptor = _opened_file(inner, own)
    except (FileNotFoundError, NotADirectoryError, UnexpectedLink):
        return ""
    if descriptor is None:
        return ""
    found = blake2b(digest_size=16)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
        if durable:
            os.fsync(file.fileno())
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def _opened_file(folder: int, name: str) -> int | None:
    """Returns the descriptor of a file; None for a link, a pipe, a folder, or nothing."""
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.ENOTDIR):
            return None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None
