"""A temporary folder of this process for Ray's files, private to the user and removed at the end.

Ray makes its folders writable for everybody and leaves them behind. The private folder contains them, is accessible to
its owner alone, and is locked while its process lives: a later process removes the unlocked folders of processes that
were killed. It knows them by what their lock file says, not by their name, which a person's folder may have. Processes
of the cluster are cleaned up likewise: they inherit the folder's name in their environment, and those that still run
when the folder is removed are killed. Ray's agents would otherwise stay for minutes, trying to sign off from a head
node that is gone.
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

from crowdsweep.files.inside import content_of, names_below, opened_folder

PREFIX = "crowdsweep-"
VARIABLE = "CROWDSWEEP_RAY_FOLDER"
"""The environment variable with the folder's path, which all processes inherit that are started while it exists."""
_LEGIBLE = "SPT_NOENV"  # keeps Ray's agents from overwriting the environment that `_kill_inheritors` reads
_LOCK, _SAYS = "lock", b'{"format": "crowdsweep-ray", "version": 1}\n'
_LONGEST_BASE = 16  # characters: Ray's socket paths, deep inside, must stay under 108
_BEING_MADE_S = 60.0


class PrivateFolder:
    """A new, locked folder below RAY_TMPDIR or the system's temporary folder (/tmp where their path is too long)."""

    def __init__(self) -> None:
        clear_abandoned()
        self._path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=_base()))
        draft = self._path / f"{_LOCK}.new"
        self._lock = draft.open("wb", buffering=0)
        self._lock.write(_SAYS)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft.rename(self._path / _LOCK)  # so the lock file is never seen unlocked
        os.environ[VARIABLE] = str(self._path)
        os.environ[_LEGIBLE] = "1"

    def made(self, name: str) -> Path:
        """Returns a subfolder, which is made if it does not exist."""
        inside = self._path / name
        inside.mkdir(exist_ok=True)
        return inside

    def close(self) -> None:
        """Kills the processes that belong to the folder and removes it; may be called twice."""
        if os.environ.get(VARIABLE) == str(self._path):
            del os.environ[VARIABLE]
        _kill_inheritors(self._path)
        shutil.rmtree(self._path, ignore_errors=True)
        if self._path.exists():  # a process that was ending wrote a file meanwhile
            shutil.rmtree(self._path, ignore_errors=True)
        self._lock.close()


def clear_abandoned() -> None:
    """Removes the folders whose process (of this user) has ended, and kills the processes that belong to them."""
    for abandoned in _abandoned(_base()):
        _kill_inheritors(abandoned)
        shutil.rmtree(abandoned, ignore_errors=True)
        if abandoned.exists():  # a process that was ending wrote a file meanwhile
            shutil.rmtree(abandoned, ignore_errors=True)


def _base() -> Path:
    chosen = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    return Path(chosen if len(chosen) <= _LONGEST_BASE else "/tmp").absolute()  # noqa: S108 - mkdtemp makes the rest


def _kill_inheritors(folder: Path) -> None:
    """Kills the processes whose environment has the folder's name (Linux only)."""
    inherited = f"{VARIABLE}={folder}".encode()
    for place in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # the process has ended, or is another user's
            if inherited in place.read_bytes().split(b"\0") and int(place.parent.name) != os.getpid():
                os.kill(int(place.parent.name), signal.SIGKILL)


def _abandoned(base: Path) -> Iterator[Path]:
    """Yields the folders whose process (of this user) has ended."""
    for folder in base.glob(f"{PREFIX}????????"):
        try:
            if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
                continue
            with opened_folder(folder) as opened:
                said, names = content_of(opened, _LOCK, len(_SAYS)), set(names_below(opened))
            if said is None and names <= {f"{_LOCK}.new"}:  # being made, or its process died while making it
                if time.time() - folder.stat().st_mtime > _BEING_MADE_S:
                    yield folder
            elif said == _SAYS:
                with (folder / _LOCK).open() as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield folder
        except OSError:  # locked by its process, or removed by another one
            continue
