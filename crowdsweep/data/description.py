"""`dataset.yaml`: name, title and scale of a dataset folder."""

from pathlib import Path
from typing import Any, cast, get_args

import yaml

from crowdsweep.data.dataset import Scale
from crowdsweep.data.doors import reading
from crowdsweep.errors import DataError

DESCRIPTION_FILE = "dataset.yaml"
_MOST_BYTES, _DEEPEST = 1 << 16, 4  # three keys with a text each need far less


def read_description(folder: Path) -> tuple[str, str, Scale]:
    """Returns name, title and scale; the folder's name and `nominal` where dataset.yaml says nothing.

    Raises:
        DataError: the folder is not there, or the file is not YAML, or says something else.
    """
    path = folder / DESCRIPTION_FILE
    if not folder.is_dir():
        raise DataError(f"{folder}: expected a dataset folder, found none")
    given = _plain(path) if path.is_file() else {}
    if not isinstance(given, dict):
        raise DataError(f"{path}: expected keys such as name, title, scale, got {type(given).__name__}")
    for key in ("name", "title"):
        if isinstance(given.get(key), dict | list):
            raise DataError(f"{path}, {key}: expected a text, got {type(given[key]).__name__}")
    scale = given.get("scale", "nominal")
    if scale not in get_args(Scale):
        raise DataError(f"{path}, scale: expected one of {', '.join(get_args(Scale))}, got {str(scale)[:60]!r}")
    return str(given.get("name", folder.resolve().name)), str(given.get("title", "")), cast(Scale, scale)


def _plain(path: Path) -> Any:
    """Returns what the file says; aliases, which can multiply without end, and deep nesting are refused unread."""
    with reading(path, "YAML in UTF-8"):
        size = path.stat().st_size
        if size > _MOST_BYTES:
            raise DataError(f"{path}: expected a description of at most {_MOST_BYTES} bytes, got {size}; shorten it")
        text = path.read_text(encoding="utf-8-sig")
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST:
                got = "an alias (*)" if isinstance(event, yaml.AliasEvent) else "values nested in values"
                raise DataError(f"{path}: expected plain keys and values, got {got}; write the value out")
        return yaml.safe_load(text) or {}
