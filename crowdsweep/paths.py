"""File system queries that answer for every path: too long, with NUL, in another encoding, or forbidden.

`pathlib` raises for some of these paths, and the exceptions depend on the version of Python.
"""

import errno
import stat
from pathlib import Path, PurePath

from crowdsweep.errors import BadInput, plain, shortened

_NO_PATH = (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ)


def is_file(path: str | Path) -> bool:
    """Whether a path is a regular file, following links; False for an invalid or inaccessible path."""
    mode = _mode(path)
    return mode is not None and stat.S_ISREG(mode)


def is_folder(path: str | Path) -> bool:
    """Whether a path is a folder, following links; False for an invalid or inaccessible path."""
    mode = _mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def exists(path: str | Path) -> bool:
    """Whether a path exists, following links; False for an invalid or inaccessible path."""
    return _mode(path) is not None


def lexists(path: str | Path) -> bool:
    """Whether a path exists, even as a broken link; False for an invalid or inaccessible path."""
    return _mode(path, follow=False) is not None


def names_in(folder: str | Path) -> list[str]:
    """Returns the sorted names in a folder; empty if it is no folder or cannot be read."""
    try:
        return sorted(path.name for path in Path(folder).iterdir())
    except (OSError, ValueError):
        return []


def expand_home(path: str | Path) -> Path:
    """Returns a path with `~` or `~user` expanded; unchanged if there is no such user or home folder."""
    try:
        return Path(path).expanduser()
    except (RuntimeError, ValueError):
        return Path(path)


def leads_out(name: str) -> bool:
    """Whether a relative name could leave its folder: it is absolute or contains `..`; links are not looked at."""
    path = PurePath(name)
    return path.is_absolute() or ".." in path.parts


def check_path(path: str | Path, what: str) -> None:
    """Checks that a path is valid on this system, whether or not it exists.

    Args:
        path: as given.
        what: description of what the path leads to, for the message.

    Raises:
        BadInput: the path is invalid.
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
            f"{plain(shortened(str(path)))}: expected a path of {what} that is valid on this system, got an invalid "
            f"one ({why.lower()}); names have at most 255 bytes, paths 4,095, and no NUL"
        ) from error


def _mode(path: str | Path, *, follow: bool = True) -> int | None:
    try:
        return Path(path).stat(follow_symlinks=follow).st_mode
    except (OSError, ValueError):
        return None
