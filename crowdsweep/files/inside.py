"""Access to nested folders and files without following links, which somebody may have placed anywhere in a folder.

The root folder that the user named may itself be a link. Below it, each folder is opened relative to the descriptor of
its parent, so that concurrent changes cannot redirect the path.
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
_LARGE, _SHARE = 1 << 30, 200
_HOLES = "holes"


class UnexpectedLink(OSError):
    """A link is in the place of a folder or file of crowdsweep."""

    def __init__(self, name: str) -> None:
        words = f"{name} is a link, and crowdsweep does not write through links; put a folder in its place"
        super().__init__(errno.ELOOP, words)


@contextmanager
def opened_folder(root: Path, *parts: str, make: bool = False) -> Generator[int]:
    """Yields the descriptor of a folder.

    Args:
        root: start of the path; may be a link to a folder.
        parts: names of nested folders below `root`; none may be a link.
        make: whether missing folders are created.

    Raises:
        UnexpectedLink: a part is a link.
        OSError: the folder does not exist, or cannot be opened or created.
    """
    if make:
        root.mkdir(parents=True, exist_ok=True)
    here = os.open(root, _FOLDER)
    try:
        # One folder at a time, each from the descriptor of the one above: a link that is put into the path meanwhile is
        # refused, where a check of the whole path would be outdated by the time it is opened.
        for part in parts:
            below = folder_below(here, part, make=make)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def check_can_write(folder: Path) -> None:
    """Checks that files can be written into a folder, or into the one that it would be made in; leaves nothing behind.

    Raises:
        OSError: they cannot, with the folder that refuses as the error's `filename`.
    """
    place = next(above for above in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(above))
    try:
        # A file without a name: nobody sees it, and none is left if this process is killed.
        file = os.open(place, os.O_WRONLY | getattr(os, "O_TMPFILE", os.O_DIRECTORY) | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, bytes(1024))
        finally:
            os.close(file)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):  # a system without such files
            if os.access(place, os.W_OK | os.X_OK):
                return
            error = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        error.filename = str(place)
        raise error from None


def folder_below(above: int, name: str, *, make: bool = False) -> int:
    """Opens a subfolder of an opened folder and returns its descriptor.

    Args:
        above: descriptor of the opened folder.
        name: of the subfolder.
        make: whether the subfolder is created if it is missing.

    Raises:
        UnexpectedLink: the name is a link.
        OSError: the name does not exist or is not a folder, or the subfolder cannot be opened or created.
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
    """Returns the `st_mode` of a name in an opened folder, without following links; None if it does not exist."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def content_of(folder: int, name: str, most: int) -> bytes | None:
    """Returns the content of a file in an opened folder; None if there is no such file or it exceeds `most` bytes.

    Raises:
        OSError: the file cannot be read.
    """
    content = beginning_of(folder, name, most + 1)
    return content if content is not None and len(content) <= most else None


def beginning_of(folder: int, name: str, most: int) -> bytes | None:
    """Returns the first `most` bytes of a file in an opened folder; None if there is no such file.

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
    """Yields the descriptor of the folder that directly contains a file, and the file's own name.

    Args:
        folder: the opened folder's descriptor.
        name: of the file, relative to `folder`, such as `classifier/fit-0.safetensors`.
        make: whether a missing subfolder is created.

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
    """Returns the digest of a file in an opened folder or a subfolder: 32 hex digits; empty if there is no such file.

    A large file that is nearly all holes, which takes minutes to read and which crowdsweep never writes, gets no digest
    but a word that no list has.

    Args:
        folder: the opened folder's descriptor.
        name: of the file, as for `above`.
        durable: whether to fsync the file, so that its content survives a crash of the machine.

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
        status = os.fstat(descriptor)
        if status.st_size > max(_LARGE, status.st_blocks * 512 * _SHARE):
            return _HOLES
        if durable:
            os.fsync(file.fileno())
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def _opened_file(folder: int, name: str) -> int | None:
    """Returns the descriptor of a regular file; None for a link, a pipe, a folder, or a missing file."""
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
