"""Reads `dataset.yaml`, which describes a dataset folder: its name, title and scale, and its missing values.

It also records the form of the imported file, so that `label --export same` can write the same form.

    name: photos
    title: Is there a cat?
    scale: nominal
    missing: [NA, "-99"]    optional: texts for a missing value; `missing: []` if only an empty field is one
    images: ../photos       optional: the folder that names of images are relative to; the dataset folder by default
    form: label-studio      optional, written by imports: form of the imported file,
    question: stars         what the file calls its question,
    about: text             what the file calls the thing that the question is about,
    numbers: true           and whether the labels in the file are numbers

All values are read as texts, whatever YAML makes of them elsewhere: `name: 012` is `012`, and `name: no` is `no`.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast, get_args

import yaml

from crowdsweep.data.dataset import Scale
from crowdsweep.data.missing import USUAL, MissingValues
from crowdsweep.data.on_disk.text_files import reading
from crowdsweep.errors import DataError
from crowdsweep.meant import instead

DESCRIPTION_FILE = "dataset.yaml"
_KEYS = ("name", "title", "scale", "missing", "images")  # keys that people write
_MOST_BYTES, _DEEPEST = 1 << 16, 4  # a few keys with a text each need far less


@dataclass(frozen=True, kw_only=True)
class Description:
    """Content of a folder's dataset.yaml.

    Attributes:
        images: the folder of its images, relative to the dataset folder.
        form: form of the file that it was imported from (`importing.registry`); empty if not recorded.
        question: what the imported file calls its question; empty if the question has no name.
        about: what the imported file calls the thing that the question is about; empty if it has no name.
        numbers: whether the labels in the imported file are numbers, not texts.
    """

    name: str
    title: str = ""
    scale: Scale = "nominal"
    missing: MissingValues = USUAL
    images: str = ""
    form: str = ""
    question: str = ""
    about: str = ""
    numbers: bool = False


def read_description(folder: Path) -> Description:
    """Returns the content of dataset.yaml; by default the folder's name and the scale `nominal`.

    Raises:
        DataError: the folder does not exist, the file is not YAML, or a value in it is invalid.
    """
    path = folder / DESCRIPTION_FILE
    if not folder.is_dir():
        raise DataError(f"{folder}: expected a dataset folder, found none")
    given = _plain(path) if path.is_file() else {}
    if not isinstance(given, dict):
        raise DataError(f"{path}: expected keys such as {', '.join(_KEYS)}, got {type(given).__name__}")
    known = (*_KEYS, "form", "question", "about", "numbers")
    for key in given.keys() - {*known}:  # others may be notes of their own; a misspelt one would count for nothing
        if near := get_close_matches(str(key).lower(), known, n=1, cutoff=0.75):
            raise DataError(f"{path}: unknown key {str(key)[:60]!r}; did you mean {near[0]!r}?")
    for key in ("name", "title", "images", "form", "question", "about", "numbers"):
        if isinstance(given.get(key), dict | list):
            raise DataError(f"{path}, {key}: expected a text, got {type(given[key]).__name__}")
    scale = given.get("scale", "nominal")
    if scale not in get_args(Scale):
        written = instead(scale, get_args(Scale).__contains__, names=get_args(Scale))
        expected = ", ".join(get_args(Scale))
        raise DataError(f"{path}, scale: expected one of {expected}, got {str(scale)[:60]!r}{written}")
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


def _missing(path: Path, given: Any) -> MissingValues:
    words = given if isinstance(given, list) else [given]
    if not all(isinstance(word, str) for word in words):
        raise DataError(f'{path}, missing: expected texts that mean a missing value, such as [NA, "-99"], or []')
    return MissingValues.of(words)


def _plain(path: Path) -> Any:
    """Returns the parsed file; refuses, before building values, deep nesting, tags, and aliases, which can multiply."""
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
        loader = yaml.BaseLoader(text)  # makes texts only
        try:
            return loader.get_single_data() or {}
        finally:
            loader.dispose()
