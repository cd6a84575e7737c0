"""The allowed artifact locations of a database: below the folder beside it, and nowhere else.

Locations in a database are untrusted text. Only this module turns them into paths.
"""

import re
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

FOLDER = "mlartifacts"
"""Name of the artifact folder beside a database."""

_PLAIN = re.compile(r"(?!\.)[\w.\-]{1,255}", re.ASCII)


def path_of(location: str) -> Path | None:
    """Returns the path that MLflow derives from a location; None where the location is not local or not absolute."""
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
    """Whether `path` is `folder` or lies below it, both by its name and after all links are resolved.

    Args:
        folder: absolute; there may be links above it.
        path: absolute; it need not exist.
    """
    if ".." in path.parts or not path.is_relative_to(folder):
        return False
    try:
        return path.resolve().is_relative_to(folder.parent.resolve() / folder.name)
    except (OSError, RuntimeError):  # circular links, names that are too long
        return False


def is_inside(folder: Path, location: str) -> bool:
    """As `is_within`, for a location as a database stores it."""
    path = path_of(location)
    return path is not None and is_within(folder, path)


def is_indirect(location: str) -> bool:
    """Whether a location refers to a run or model, which the database locates, or to the server's own folder."""
    return location.startswith(("runs:/", "models:/", "mlflow-artifacts:/"))


def place_in(folder: str, *names: str) -> str | None:
    """Returns the URI of a place below a folder; None where a name is not a plain file name."""
    if not all(_PLAIN.fullmatch(name) for name in names):
        return None
    return "/".join((folder, *map(quote, names)))


def relocated(folder: str, location: str) -> str | None:
    """Maps a location below an artifact folder elsewhere to the same place below `folder`.

    Args:
        folder: URI of the artifact folder that is now beside the database.

    Returns:
        The new URI; None where the location lies below no artifact folder, or has odd names on the way.
    """
    path = path_of(location)
    if path is None or FOLDER not in path.parts:
        return None
    depth = max(place for place, name in enumerate(path.parts) if name == FOLDER)
    return place_in(folder, *path.parts[depth + 1 :])
