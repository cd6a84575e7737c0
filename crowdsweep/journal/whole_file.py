"""Writes a file whole or not at all: beside its place under another name, which is then changed."""

import contextlib
import os
from pathlib import Path
from uuid import uuid4


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
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
