"""Drafts: a locked folder beside the final place, removed by the next writer if its own was killed.

A draft is known by what lies in it, and held by a lock that dies with its process; no name alone is ever removed.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from crowdsweep.files.inside import content_of, folder_below, names_below, opened_folder

_NAME = re.compile(r"\.crowdsweep-[0-9a-f]{8}")
_SIGN, _SAYS = "draft", b'{"format": "crowdsweep-draft", "version": 1}\n'
_CONTENT = "new"
PATIENCE_S = 10.0
"""How long a writer waits for another one in the same folder."""
_LOOK_S = 0.05


class FolderBusy(OSError):
    """Another process is writing into a folder."""


@contextmanager
def alone_in(folder: int) -> Generator[None]:
    """Keeps other writers of crowdsweep out of an opened folder; on a file system without locks, nobody.

    Raises:
        FolderBusy: one is in there, and has not ended within `PATIENCE_S`.
    """
    deadline = time.monotonic() + PATIENCE_S
    is_held = False
    while not is_held:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = True
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise FolderBusy(error.errno, "another crowdsweep is writing there; wait until it has ended") from error
            time.sleep(_LOOK_S)
        except OSError:
            break
    try:
        yield
    finally:
        if is_held:
            fcntl.flock(folder, fcntl.LOCK_UN)


class Draft:
    """A folder for what is being written, in the folder that it goes into.

    Args:
        folder: that one's path.
        descriptor: of it, which this writer has alone (`alone_in`); drafts of writers that were killed are removed.

    Raises:
        OSError: the draft cannot be made.
    """

    def __init__(self, folder: Path, descriptor: int) -> None:
        remove_abandoned(descriptor)
        self._name = f".crowdsweep-{uuid4().hex[:8]}"
        self.path = folder / self._name / _CONTENT
        """Of the folder to write into."""
        self._above = os.dup(descriptor)
        self._folder = -1
        try:
            os.mkdir(self._name, 0o700, dir_fd=self._above)
            self._folder = folder_below(self._above, self._name)
            with suppress(OSError):  # a file system without locks: nobody removes it then
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_file(self._folder, _SIGN, _SAYS)
            os.mkdir(_CONTENT, dir_fd=self._folder)
            self.content = folder_below(self._folder, _CONTENT)
            """Its descriptor."""
        except BaseException:
            self._remove()
            os.close(self._above)
            raise

    def put(self, name: str, content: bytes, into: int, *, durable: bool = False) -> None:
        """Writes a file whole or not at all: until it is, what stood in its place stands. A link there is replaced.

        Args:
            name: of the file.
            content: all of it.
            into: descriptor of the folder that it goes into, on the same file system.
            durable: wait for the disk, so that it survives the death of the machine too.

        Raises:
            OSError: it could not be written; nothing is left behind.
        """
        try:
            write_file(self.content, name, content, durable=durable)
            os.rename(name, name, src_dir_fd=self.content, dst_dir_fd=into)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=self.content)
            raise

    def close(self) -> None:
        """Removes it; may be called twice."""
        if self._folder < 0:
            return
        os.close(self.content)
        self._remove()
        os.close(self._above)

    def _remove(self) -> None:
        if self._folder >= 0:
            with suppress(OSError):
                _remove(self._above, self._name, self._folder)
            os.close(self._folder)
            self._folder = -1


@contextmanager
def draft_in(folder: Path, *parts: str, make: bool = False) -> Generator[tuple[Draft, int]]:
    """Yields a draft in a folder, and that folder's descriptor.

    Args:
        folder: may be a link.
        parts: names of folders below it, none of which may be a link.
        make: whether missing ones are made.

    Raises:
        OSError: the draft cannot be made.
    """
    with opened_folder(folder, *parts, make=make) as descriptor:
        with alone_in(descriptor):
            draft = Draft(folder.joinpath(*parts), descriptor)
        try:
            yield draft, descriptor
        finally:
            draft.close()


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Writes one file whole or not at all, as `Draft.put` does."""
    with draft_in(path.parent) as (draft, folder):
        draft.put(path.name, content, folder, durable=durable)
        if durable:
            os.fsync(folder)


def write_below(root: Path, parts: tuple[str, ...], content: bytes) -> None:
    """Writes one file as `writing_below` does."""
    with writing_below(root) as write:
        write(parts, content)


@contextmanager
def writing_below(root: Path) -> Generator[Callable[[tuple[str, ...], bytes], None]]:
    """Yields what writes files, each whole or not at all, in folders that are made where they are missing and followed
    where they are no links.

    It is given names from the root, the last one the file's, and all of its content. It raises `UnexpectedLink` where a
    folder on the way is a link, `OSError` where the file could not be written.

    Args:
        root: may be a link.

    Raises:
        OSError: nothing can be written there.
    """
    with draft_in(root, make=True) as (draft, _):

        def write(parts: tuple[str, ...], content: bytes) -> None:
            with opened_folder(root, *parts[:-1], make=True) as folder:
                draft.put(parts[-1], content, folder)

        yield write


def write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes files that do not stand there yet, all of them or none.

    Raises:
        FileExistsError: one of them stands there; it is kept, and none is written.
        OSError: they could not be written.
    """
    placed: list[str] = []
    with draft_in(folder) as (draft, into):
        try:
            for name, content in files.items():
                write_file(draft.content, name, content, durable=True)
            for name in files:
                place_new(draft.content, name, into)
                placed.append(name)
        except BaseException:
            for name in placed:
                with suppress(OSError):
                    os.unlink(name, dir_fd=into)
            raise


def place_new(source: int, name: str, into: int) -> None:
    """Moves a file of a draft to its place, where nothing may stand.

    Raises:
        FileExistsError: something does.
    """
    try:
        os.link(name, name, src_dir_fd=source, dst_dir_fd=into, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # the file system has no second names
        if name in names_below(into):
            raise FileExistsError(name) from None
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=into)


def write_file(folder: int, name: str, content: bytes, *, durable: bool = False) -> None:
    """Writes a file that is not there yet, as it goes: for a draft.

    Raises:
        OSError: it cannot be written; `filename` is its name.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(name, flags, 0o666, dir_fd=folder), "wb") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        error.filename = name
        raise


def is_draft(name: str) -> bool:
    """Whether a name is one that drafts have."""
    return _NAME.fullmatch(name) is not None


def remove_abandoned(folder: int) -> None:
    """Removes the drafts in an opened folder whose writers are gone; the caller has it alone (`alone_in`)."""
    for name in filter(is_draft, names_below(folder)):
        with suppress(OSError):  # it is held, is none, or is gone
            draft = folder_below(folder, name)
            try:
                fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_ours(draft):
                    _remove(folder, name, draft)
            finally:
                os.close(draft)


def _is_ours(draft: int) -> bool:
    """Whether a folder is a draft of this user: signed, or one whose writer was killed before it was."""
    if os.fstat(draft).st_uid != os.getuid():
        return False
    sign = content_of(draft, _SIGN, len(_SAYS))
    return sign == _SAYS or (set(names_below(draft)) <= {_SIGN} and _SAYS.startswith(sign or b""))


def _remove(above: int, name: str, draft: int) -> None:
    """Removes a draft: what says that it is one goes last, so that what a kill leaves is still known."""
    if _CONTENT in names_below(draft):
        shutil.rmtree(_CONTENT, dir_fd=draft)
    with suppress(FileNotFoundError):
        os.unlink(_SIGN, dir_fd=draft)
    os.rmdir(name, dir_fd=above)
