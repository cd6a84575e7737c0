"""Reading of `label.yaml`, the recipe of a folder of labels: what the folder holds, and what recreates it.

The content is not trusted and is checked against limits. Anybody may have changed it, or may have a file of that name
that `crowdsweep label` never wrote.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator

from crowdsweep.data.on_disk.text_files import bytes_of, reading
from crowdsweep.errors import BadInput, shortened
from crowdsweep.files.typed import Many, Text, WrongValue, read_as

RECIPE = "label.yaml"
_WHAT = "what `crowdsweep label` wrote"
LARGEST = 1 << 23  # bytes: enough for ten thousand class names and as many notes
_DEEPEST = 20
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where libyaml is installed


def _in_this_folder(name: str) -> str:
    plain = name.removesuffix("/")
    if plain in ("", ".", "..") or "/" in plain or "\\" in plain or "\0" in plain:
        raise ValueError("expected names of files in this folder")
    return name


@dataclass(frozen=True, kw_only=True)
class CalibrationRecord:
    """The calibration of probabilities, as a recipe describes it.

    Attributes:
        in_words: the description; empty where there is none.
    """

    in_words: Text = ""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The content of a recipe that the rest of the program uses.

    Attributes:
        dataset: folder or name of the dataset that the labels are of.
        fingerprint: fingerprint of its data; empty where the recipe has none.
        files: names of the files that were written beside it, in this folder; names of folders end in `/`.
        calibration: calibration of the probabilities.
        notes: what users of the labels should know.
        says: all keys of the recipe.
    """

    dataset: Text
    fingerprint: Text = ""
    files: Many[Annotated[Text, AfterValidator(_in_this_folder)]] = ()
    calibration: CalibrationRecord = CalibrationRecord()
    notes: Many[Text] = ()
    says: Many[str] = ()


def read_recipe(folder: Path) -> Recipe:
    """Reads the recipe in a folder of labels.

    Raises:
        BadInput: there is no recipe, or it is not valid.
    """
    path = folder / RECIPE
    return recipe_of(path, bytes_of(path, LARGEST, _WHAT))


def recipe_of(path: Path, content: bytes) -> Recipe:
    """Reads the content of a recipe.

    Raises:
        BadInput: the content is not a valid recipe.
    """
    with reading(path, _WHAT):
        text = content.decode("utf-8")
        _check_nesting(path, text)
        loader = _LOADER(text)
        try:
            loaded: Any = loader.get_single_data()
        finally:
            loader.dispose()
    if not isinstance(loaded, dict):
        raise _wrong(path, "its content", "keys with a value each", loaded)
    try:
        return read_as(Recipe, {**{str(key): value for key, value in loaded.items()}, "says": list(map(str, loaded))})
    except WrongValue as error:
        raise _wrong(path, error.field, error.expected, error.got) from error


def _check_nesting(path: Path, text: str) -> None:
    """Refuses content that is nested deeper than a recipe, or that merges entries by `<<`, before anything is built
    from it."""
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
