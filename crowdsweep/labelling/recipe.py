"""`label.yaml`, which says what stands in a folder of labels and what makes it again, as it is read: within bounds.

Anybody may have changed it, or have a file of that name which `crowdsweep label` never wrote.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crowdsweep.data.doors import bytes_of, reading
from crowdsweep.errors import BadInput, shortened

RECIPE = "label.yaml"
_WHAT = "what `crowdsweep label` wrote"
LARGEST = 1 << 23  # bytes: ten thousand names of classes and as many notes
_DEEPEST = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where libyaml is there


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What the rest of the program asks a recipe.

    Attributes:
        dataset: whose labels these are: a folder or a name.
        files: names of what was written beside it, in this folder; those of folders end in `/`.
        calibration: how probabilities came about, in words; empty where it does not say.
        notes: what whoever takes the labels should know.
        says: the names of all that it says.
    """

    dataset: str
    files: tuple[str, ...]
    calibration: str
    notes: tuple[str, ...]
    says: frozenset[str]


def read_recipe(folder: Path) -> Recipe:
    """Reads the recipe in a folder of labels.

    Raises:
        BadInput: there is none, or it says something else.
    """
    path = folder / RECIPE
    return recipe_of(path, bytes_of(path, LARGEST, _WHAT))


def recipe_of(path: Path, content: bytes) -> Recipe:
    """Reads the content of a recipe.

    Raises:
        BadInput: it says something else.
    """
    with reading(path, _WHAT):
        text = content.decode("utf-8")
        _check_nesting(path, text)
        loader = _LOADER(text)
        try:
            told: Any = loader.get_single_data()
        finally:
            loader.dispose()
    told = _mapping(path, "its content", told)
    files = _texts(path, "files", told.get("files", []))
    for name in files:
        plain = name.removesuffix("/")
        if plain in ("", ".", "..") or "/" in plain or "\\" in plain or "\0" in plain:
            raise _wrong(path, "files", "names of files in this folder", name)
    calibration = _mapping(path, "calibration", told.get("calibration", {}))
    return Recipe(
        dataset=_text(path, "dataset", told.get("dataset")),
        files=files,
        calibration=_text(path, "calibration.in_words", calibration.get("in_words", "")),
        notes=_texts(path, "notes", told.get("notes", [])),
        says=frozenset(map(str, told)),
    )


def _check_nesting(path: Path, text: str) -> None:
    """Refuses what nests deeper than a recipe, or multiplies itself by `<<`, before anything is built of it."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _wrong(path, "its content", f"keys and values nested {_DEEPEST} deep at most", "a deeper one")
        if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
            raise _wrong(path, "its content", "plain keys and values", "<<")


def _wrong(path: Path, key: str, expected: str, got: object) -> BadInput:
    return BadInput(
        f"{path}, {key}: expected {expected}, got {shortened(repr(got), 80)}; this is not {_WHAT}: label again, into "
        f"another folder"
    )


def _mapping(path: Path, key: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise _wrong(path, key, "keys with a value each", given)
    return given


def _text(path: Path, key: str, given: Any) -> str:
    if not isinstance(given, str):
        raise _wrong(path, key, "a text", given)
    return given


def _texts(path: Path, key: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise _wrong(path, key, "a list of texts", given)
    return tuple(_text(path, key, one) for one in given)
