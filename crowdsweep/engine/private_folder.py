"""A folder of this process alone, for what Ray keeps on this machine; gone when the process lets go of it.

Ray makes its folders writable for everybody and leaves them behind. This one lies around them, is its owner's alone,
and is locked while its process lives, so that the next process removes what one that was killed could not. The same
holds for processes of the cluster: they inherit the folder's name, and those that are still there when it goes are
ended. Ray's agents would stay for minutes, to tell a head that is gone that they end.
"""

import fcntl
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

PREFIX = "crowdsweep-"
VARIABLE = "CROWDSWEEP_RAY_FOLDER"
"""Names the folder to all processes that are started while it is there."""
_LEGIBLE = "SPT_NOENV"  # tells Ray's agents not to write their title over the environment that they were started with
_LOCK = "lock"
_LONGEST_BASE = 16  # characters: sockets lie deep inside, and their paths must stay under 108
_BEING_MADE_S = 60.0


class PrivateFolder:
    """A new folder below RAY_TMPDIR, or where temporary files go."""

    def __init__(self) -> None:
        clear_abandoned()
        self._path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_base()))
        draft = self._path / f"{_LOCK}.new"
        self._lock: IO[str] = draft.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(self._path / _LOCK)  # whoever finds it finds it locked
        os.environ[VARIABLE] = str(self._path)
        os.environ[_LEGIBLE] = "1"

    def made(self, name: str) -> Path:
        """Returns a folder inside, empty when it is new."""
        inside = self._path / name
        inside.mkdir(exist_ok=True)
        return inside

    def close(self) -> None:
        """Ends the processes that belong to it and removes it; may be called twice."""
        if os.environ.get(VARIABLE) == str(self._path):
            del os.environ[VARIABLE]
        _kill_inheritors(self._path)
        shutil.rmtree(self._path, ignore_errors=True)
        if self._path.exists():  # a process that was ending wrote a last line meanwhile
            shutil.rmtree(self._path, ignore_errors=True)
        self._lock.close()


def clear_abandoned() -> None:
    """Removes the folders of this user's processes that are gone, and ends the processes that belong to them."""
    for abandoned in _abandoned(_base()):
        _kill_inheritors(abandoned)
        shutil.rmtree(abandoned, ignore_errors=True)
        if abandoned.exists():  # a process that was ending wrote a last line meanwhile
            shutil.rmtree(abandoned, ignore_errors=True)


def _base() -> Path:
    chosen = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    return Path(chosen if len(chosen) <= _LONGEST_BASE else "/tmp").absolute()  # noqa: S108 - mkdtemp makes the rest


def _kill_inheritors(folder: Path) -> None:
    """Kills the processes that inherited a folder's name, where the system tells (Linux)."""
    inherited = f"{VARIABLE}={folder}".encode()
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if inherited in place.read_bytes().split(b"\0") and int(place.parent.name) != os.getpid():
                os.kill(int(place.parent.name), signal.SIGKILL)


def _abandoned(base: Path) -> Iterator[Path]:
    """Yields the folders of this user's processes that are gone."""
    for folder in base.glob(f"{PREFIX}????????"):
        try:
            if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
                continue
            if not (folder / _LOCK).exists():  # it is being made, or its process died of that
                if time.time() - folder.stat().st_mtime > _BEING_MADE_S:
                    yield folder
                continue
            with (folder / _LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield folder
        except OSError:  # held, or removed by another process
            continue
