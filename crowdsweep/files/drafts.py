"""Drafts: locked staging folders for files that are moved into place once they are complete.

A draft lies in its target folder. If its writer was killed, the next writer removes it. A draft is recognised by a sign
file in it, not by its name alone, and its lock ends with the writer's process.
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
"""Seconds for which a writer waits for another writer in the same folder."""
_LOOK_S = 0.05


class FolderBusy(OSError):
    """Another process is writing into the same folder."""


@contextmanager
def alone_in(folder: int) -> Generator[None]:
    """Locks an opened folder against other writers of crowdsweep; has no effect on a file system without locks.

    Raises:
        FolderBusy: another writer still holds the lock after `PATIENCE_S`.
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
    """A staging folder in the folder that its files will be moved into.

    Creating it also removes the drafts of killed writers from the target folder.

    Args:
        folder: path of the target folder.
        descriptor: of the target folder, which the caller has locked (`alone_in`).

    Raises:
        OSError: the draft cannot be created.
    """

    def __init__(self, folder: Path, descriptor: int) -> None:
        remove_abandoned(descriptor)
        self._name = f".crowdsweep-{uuid4().hex[:8]}"
        self.path = folder / self._name / _CONTENT
        """Path of the folder for new files."""
        self._above = os.dup(descriptor)
        self._folder = -1
        try:
            os.mkdir(self._name, 0o700, dir_fd=self._above)
            self._folder = folder_below(self._above, self._name)
            with suppress(OSError):  # the file system has no locks; no other writer removes the draft then
                fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            write_file(self._folder, _SIGN, _SAYS)
            os.mkdir(_CONTENT, dir_fd=self._folder)
            self.content = folder_below(self._folder, _CONTENT)
            """Descriptor of the folder for new files."""
        except BaseException:
            self._remove()
            os.close(self._above)
            raise

    def put(self, name: str, content: bytes, into: int, *, durable: bool = False) -> None:
        """Writes a file atomically: an existing file of that name remains until the new one is complete.

        A link of that name is replaced, not followed.

        Args:
            name: of the file.
            content: of the file.
            into: descriptor of the target folder, on the same file system as the draft.
            durable: whether to fsync the file, so that its content survives a crash of the machine.

        Raises:
            OSError: the file could not be written; no partial file remains.
        """
        try:
            write_file(self.content, name, content, durable=durable)
            os.rename(name, name, src_dir_fd=self.content, dst_dir_fd=into)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=self.content)
            raise

    def close(self) -> None:
        """Removes the draft; may be called twice."""
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
        folder: start of the path; may be a link.
        parts: names of nested folders below `folder`, none of which may be a link.
        make: whether missing folders are created.

    Raises:
        OSError: the draft cannot be created.
    """
    with opened_folder(folder, *parts, make=make) as descriptor:
        with alone_in(descriptor):
            draft = Draft(folder.joinpath(*parts), descriptor)
        try:
            yield draft, descriptor
        finally:
            draft.close()


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Writes one file atomically, as `Draft.put` does."""
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
    """Yields a function that writes files below a folder, each atomically; it creates missing folders.

    The function takes the parts of a path below `root`, of which the last is the file name, and the file's content. It
    raises `UnexpectedLink` if a folder below `root` is a link, and `OSError` if the file could not be written.

    Args:
        root: the folder, created if it is missing; may be a link.

    Raises:
        OSError: no file can be written there.
    """
    with draft_in(root, make=True) as (draft, _):

        def write(parts: tuple[str, ...], content: bytes) -> None:
            with opened_folder(root, *parts[:-1], make=True) as folder:
                draft.put(parts[-1], content, folder)

        yield write


def write_new(folder: Path, files: Mapping[str, bytes]) -> None:
    """Writes new files, all of them or none.

    Raises:
        FileExistsError: one of the names exists already; its file is kept, and no file is written.
        OSError: the files could not be written.
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
    """Moves a file of a draft into a folder where its name must be unused.

    Args:
        source: descriptor of the draft's folder for new files.
        name: of the file.
        into: descriptor of the target folder.

    Raises:
        FileExistsError: the name exists in the target folder.
    """
    try:
        # link fails where the name exists, in one step; rename would replace the file, and a look before it leaves a
        # gap.
        os.link(name, name, src_dir_fd=source, dst_dir_fd=into, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:  # the file system has no hard links
        if name in names_below(into):
            raise FileExistsError(name) from None
        os.rename(name, name, src_dir_fd=source, dst_dir_fd=into)


def write_file(folder: int, name: str, content: bytes, *, durable: bool = False) -> None:
    """Writes a new file directly, not atomically: for drafts.

    Raises:
        OSError: the file exists or cannot be written; the error's `filename` is the file's name.
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
    """Whether a name has the form of a draft's name."""
    return _NAME.fullmatch(name) is not None


def remove_abandoned(folder: int) -> None:
    """Removes the drafts of killed writers from an opened folder, which the caller has locked (`alone_in`)."""
    for name in filter(is_draft, names_below(folder)):
        with suppress(OSError):  # it is locked, is no draft, or is gone
            draft = folder_below(folder, name)
            try:
                fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_ours(draft):
                    _remove(folder, name, draft)
            finally:
                os.close(draft)


def _is_ours(draft: int) -> bool:
    """Whether a folder is a draft of this user: it has the sign file, or its writer was killed while writing that."""
    if os.fstat(draft).st_uid != os.getuid():
        return False
    sign = content_of(draft, _SIGN, len(_SAYS))
    return sign == _SAYS or (set(names_below(draft)) <= {_SIGN} and _SAYS.startswith(sign or b""))


def _remove(above: int, name: str, draft: int) -> None:
    """Removes a draft, its sign file last, so that a killed removal leaves a folder that is still recognised."""
    if _CONTENT in names_below(draft):
        shutil.rmtree(_CONTENT, dir_fd=draft)
    with suppress(FileNotFoundError):
        os.unlink(_SIGN, dir_fd=draft)
    os.rmdir(name, dir_fd=above)
