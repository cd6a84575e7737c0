"""Where a sweep writes and listens: the folder of its record, temporary files, shared memory, ports."""

import fcntl
import os
import shutil
import socket
import tempfile
from pathlib import Path

from crowdsweep.errors import error_words
from crowdsweep.health.finding import Finding
from crowdsweep.paths import exists, is_folder
from crowdsweep.record.stores import DEFAULT_STORES
from crowdsweep.units import show_bytes

ENOUGH_BYTES = 1 << 29
_SHARED = Path("/dev/shm")  # noqa: S108 - where Ray keeps what processes share
_OBJECT_STORE_BYTES = 1 << 29
_UI_PORT = 5000


def places() -> list[Finding]:
    """Returns the findings on the places that a sweep writes to, and on ports."""
    return [_records(), _temporary(), *_shared(), _ports()]


def _records() -> Finding:
    """Checks the default folder of sweep records, which must be on a disk that supports file locks."""
    folder = DEFAULT_STORES if is_folder(DEFAULT_STORES) else Path()
    what, shown = "records", folder.absolute()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
            file.flush()
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        words = f"{shown} cannot be written or locked: {error_words(error)}"
        then = "work in another folder, or give `--store FOLDER`"
        return Finding(what=what, verdict="problem", words=words, then=then)
    free = shutil.disk_usage(folder).free
    words = f"{shown} can be written; {show_bytes(free)} are free"
    if free < ENOUGH_BYTES:
        return Finding(what=what, verdict="note", words=words, then="a large sweep may fill it: give `--store FOLDER`")
    return Finding(what=what, verdict="ok", words=words)


def _temporary() -> Finding:
    chosen = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    try:
        with tempfile.TemporaryDirectory(dir=chosen):
            pass
    except OSError as error:
        words = f"{chosen} cannot be written: {error_words(error)}"
        return Finding(
            what="temporary files", verdict="problem", words=words, then="set TMPDIR to a folder that can be"
        )
    return Finding(what="temporary files", verdict="ok", words=f"{chosen} can be written")


def _shared() -> list[Finding]:
    """Checks the memory that Ray's processes share, of which containers get little."""
    if not exists(_SHARED):
        return []
    free = shutil.disk_usage(_SHARED).free
    words = f"{_SHARED} has {show_bytes(free)}"
    if free >= _OBJECT_STORE_BYTES:
        return [Finding(what="shared memory", verdict="ok", words=words)]
    then = "Ray then uses the disk, which is slower: `docker run --shm-size 2g`, or `--engine inline`"
    return [Finding(what="shared memory", verdict="note", words=words, then=then)]


def _ports() -> Finding:
    try:
        with socket.socket() as any_port:
            any_port.bind(("127.0.0.1", 0))
    except OSError as error:
        words = f"no port can be opened on 127.0.0.1, which Ray's processes need: {error_words(error)}"
        return Finding(what="ports", verdict="problem", words=words, then="`--engine inline` needs no port")
    try:
        with socket.socket() as usual:
            usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            usual.bind(("127.0.0.1", _UI_PORT))
    except OSError:
        words = f"ports can be opened on 127.0.0.1; {_UI_PORT} is in use"
        return Finding(what="ports", verdict="note", words=words, then="`crowdsweep ui --port PORT` takes another")
    return Finding(
        what="ports", verdict="ok", words=f"ports can be opened on 127.0.0.1, {_UI_PORT} for `crowdsweep ui` too"
    )
