"""Writes a file whole or not at all: beside its place under another name, which is then changed."""

import contextlib
import fcntl
import os
from pathlib import Path
from uuid import uuid4

_DRAFTS = ".?*.????????.new"


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Writes a file; until it is whole, what stood there before stands. A link in its place is replaced, not followed.

    Args:
        path: its place.
        content: what it holds.
        durable: wait for the disk, so that it survives the death of the machine too, and not only of this process.

    Raises:
        OSError: it could not be written; nothing is left behind.
    """
    draft = path.with_name(f".{path.name}.{uuid4().hex[:8]}.new")
    try:
        with draft.open("xb") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)  # says that somebody is at work on it
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
            draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def remove_drafts(folder: Path) -> None:
    """Removes what writers left in a folder that were killed before their file was whole."""
    for draft in folder.glob(_DRAFTS):
        with contextlib.suppress(OSError):  # it is gone, is no file, or somebody is at work on it
            descriptor = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                draft.unlink()
