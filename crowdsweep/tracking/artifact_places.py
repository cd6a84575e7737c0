"""The places where a database's artifacts may lie: below the folder beside it, and nowhere else.

What stands in a database is text that somebody wrote. It becomes a path here alone.
"""

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

FOLDER = "mlartifacts"
"""Name of the folder of artifacts beside a database."""

_PLAIN = re.compile(r"(?!\.)[\w.\-]{1,255}", re.ASCII)


def path_of(location: str) -> Path | None:
    """Returns the path that MLflow takes a location for; None where it is none of this machine, or not a whole one."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return None
    written = parts.path if location.startswith("file:") else location if not parts.scheme else ""
    path = unquote(written)
    if parts.netloc not in ("", "localhost") or not path.startswith("/") or "\0" in path:
        return None
    return Path(path)


def is_within(folder: Path, path: Path) -> bool:
    """Whether a path is that of a folder, or lies below it, by its name and by every link on the way to it.

    Args:
        folder: absolute; links above it are nobody's business here.
        path: absolute; it need not exist.
    """
    if ".." in path.parts or not path.is_relative_to(folder):
        return False
    try:
        return path.resolve().is_relative_to(folder.parent.resolve() / folder.name)
    except (OSError, RuntimeError):  # links in a circle, names that are too long
        return False


def is_inside(folder: Path, location: str) -> bool:
    """As `is_within`, of a location as a database names it."""
    path = path_of(location)
    return path is not None and is_within(folder, path)


def is_indirect(location: str) -> bool:
    """Whether a location names what a database names in turn, a run or a model, or the server's own folder."""
    return location.startswith(("runs:/", "models:/", "mlflow-artifacts:/"))


def place_in(folder: str, *names: str) -> str | None:
    """Returns the URI of a place below a folder.

    Args:
        folder: its URI.
        names: of the folders on the way; None is returned where one of them is more than a name.
    """
    if not all(_PLAIN.fullmatch(name) for name in names):
        return None
    return "/".join((folder, *map(quote, names)))


def relocated(folder: str, location: str) -> str | None:
    """Returns where what lay below a folder of artifacts elsewhere lies now that its database lies beside `folder`.

    Args:
        folder: URI of the folder of artifacts.
        location: as the database names it; None is returned where it names no such folder.
    """
    path = path_of(location)
    if path is None or FOLDER not in path.parts:
        return None
    depth = max(place for place, name in enumerate(path.parts) if name == FOLDER)
    return place_in(folder, *path.parts[depth + 1 :])
