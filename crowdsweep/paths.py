"""Questions to the file system that have an answer for every path: too long, with NUL, in another encoding, forbidden.

`pathlib` raises for some of these, of different kinds and differently in every version of Python.
"""

import errno
import stat
from pathlib import Path, PurePath

from crowdsweep.errors import BadInput, plain, shortened

_NO_PATH = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


def is_file(path: str | Path) -> bool:
    """Whether a path leads to a file, links followed; False where it cannot lead anywhere."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def is_folder(path: str | Path) -> bool:
    """Whether a path leads to a folder, links followed; False where it cannot lead anywhere."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def exists(path: str | Path) -> bool:
    """Whether a path leads to anything, links followed; False where it cannot lead anywhere."""
    return _mode(path) is not None


def stands(path: str | Path) -> bool:
    """Whether anything has this name, a link that leads nowhere too; False where it can be no name."""
    return _mode(path, follow=False) is not None


def names_in(folder: str | Path) -> list[str]:
    """Returns the names in a folder, in order; none where it is no folder or cannot be read."""
    try:
        return sorted(path.name for path in Path(folder).iterdir())
    except (OSError, ValueError):
        return []


def expand_home(path: str | Path) -> Path:
    """Returns a path whose `~` is the person's home; as it is where nobody of that name has one."""
    try:
        return Path(path).expanduser()
    except (RuntimeError, ValueError):
        return Path(path)


def leads_out(name: str) -> bool:
    """Whether a name, as it is written, leads out of the folder that it begins in."""
    path = PurePath(name)
    return path.is_absolute() or ".." in path.parts


def check_path(path: str | Path, what: str) -> None:
    """Checks that a path which somebody gave can be one on this system, whether or not anything stands there.

    Args:
        path: as given.
        what: it is of, for the message.

    Raises:
        BadInput: it can be none.
    """
    try:
        Path(path).stat()
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno not in _NO_PATH:
            return
        why = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"{plain(shortened(str(path)))}: expected a path of {what} that this system can have, got one that is "
            f"none ({why.lower()}); names have at most 255 bytes, paths 4,095, and no NUL"
        ) from error


def _mode(path: str | Path, *, follow: bool = True) -> int | None:
    try:
        return Path(path).stat(follow_symlinks=follow).st_mode
    except (OSError, ValueError):
        return None
