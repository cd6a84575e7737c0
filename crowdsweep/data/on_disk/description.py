"""`dataset.yaml`: name, title and scale of a dataset folder, what stands for a missing value in it, and of which form
of file it was made, which `label --export same` goes back to.

    name: photos
    title: Is there a cat?
    scale: nominal
    missing: [NA, "-99"]    optional; `missing: []` where nothing but an empty field does
    images: ../photos       optional: the folder that the names of images begin in; this one where it is left out
    form: label-studio      optional, written by imports: of the file; what its question is called, and what the tool
    question: stars         calls the thing that it is about; and whether the file has labels as numbers
    about: text
    numbers: true

All values are texts, whatever YAML makes of them elsewhere: `name: 012` is `012`, and `name: no` is `no`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from crowdsweep.data.dataset import Scale
from crowdsweep.data.missing import USUAL, Missing
from crowdsweep.data.on_disk.doors import reading
from crowdsweep.errors import DataError

DESCRIPTION_FILE = "dataset.yaml"
_KEYS = ("name", "title", "scale", "missing", "images")  # that people write
_MOST_BYTES, _DEEPEST = 1 << 16, 4  # a few keys with a text each need far less


@dataclass(frozen=True, kw_only=True)
class Description:
    """What a folder says of itself.

    Attributes:
        name, title: how it is called.
        scale: of the labels.
        missing: what stands for a missing value.
        images: the folder of its images, from its own on.
        form: of the file that it was imported from (`importing.registry`); empty where nobody noted it.
        question: what the file calls its question; empty where it has no name.
        about: what the file calls the thing that the question is about, likewise.
        numbers: whether the file has its labels as numbers, and not as texts.
    """

    name: str
    title: str = ""
    scale: Scale = "nominal"
    missing: Missing = USUAL
    images: str = ""
    form: str = ""
    question: str = ""
    about: str = ""
    numbers: bool = False


def read_description(folder: Path) -> Description:
    """Returns what dataset.yaml says; the folder's name and `nominal` where it says nothing.

    Raises:
        DataError: the folder is not there, or the file is not YAML, or says something else.
    """
    path = folder / DESCRIPTION_FILE
    if not folder.is_dir():
        raise DataError(f"{folder}: expected a dataset folder, found none")
    given = _plain(path) if path.is_file() else {}
    if not isinstance(given, dict):
        raise DataError(f"{path}: expected keys such as {', '.join(_KEYS)}, got {type(given).__name__}")
    for key in ("name", "title", "images", "form", "question", "about", "numbers"):
        if isinstance(given.get(key), dict | list):
            raise DataError(f"{path}, {key}: expected a text, got {type(given[key]).__name__}")
    scale = given.get("scale", "nominal")
    if scale not in get_args(Scale):
        raise DataError(f"{path}, scale: expected one of {', '.join(get_args(Scale))}, got {str(scale)[:60]!r}")
    return Description(
        name=given.get("name") or folder.resolve().name,
        title=given.get("title", ""),
        scale=cast(Scale, scale),
        missing=_missing(path, given["missing"]) if "missing" in given else USUAL,
        images=given.get("images", ""),
        form=given.get("form", ""),
        question=given.get("question", ""),
        about=given.get("about", ""),
        numbers=given.get("numbers") == "true",
    )


def _missing(path: Path, given: Any) -> Missing:
    words = given if isinstance(given, list) else [given]
    if not all(isinstance(word, str) for word in words):
        raise DataError(f'{path}, missing: expected texts that stand for no value, such as [NA, "-99"], or []')
    return Missing.of(words)


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
            tag = getattr(event, "tag", None)
            if isinstance(event, yaml.AliasEvent) or depth > _DEEPEST or tag is not None:
                deep = "values nested in values" if tag is None else f"the tag {str(tag)[:40]}"
                got = "an alias (*)" if isinstance(event, yaml.AliasEvent) else deep
                raise DataError(f"{path}: expected plain keys and values, got {got}; write the value out")
        loader = yaml.BaseLoader(text)  # makes texts alone
        try:
            return loader.get_single_data() or {}
        finally:
            loader.dispose()
