"""Finds models, datasets and study templates in folders and entry points; imports one only when it is asked for.

A model, a dataset and a template are each one Python file that defines a constant: `MODEL`, `SOURCE` or `TEMPLATE`.
Its name is the file's, with dashes. They are looked for in three places:

1. this package's own folders (`models/aggregate`, `models/two_stage`, `models/joint`; `data/sources`; `studies`);
2. the folders on the search path `CROWDSWEEP_PLUGINS` (like PATH), where one folder may hold all three kinds;
3. entry points of installed packages, in the groups `crowdsweep.models`, `crowdsweep.datasets`, `crowdsweep.studies`.

Listing reads files and imports none of them: the command line stays fast, and a file that is not valid Python is listed
like the others, with the error as its title.
"""

import ast
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from crowdsweep.errors import BadInput, UnknownName
from crowdsweep.paths import check_path, is_file

Kind = Literal["model", "dataset", "template"]
SEARCH_PATH = "CROWDSWEEP_PLUGINS"

_ROOT = Path(__file__).parent.parent
_FOLDERS: dict[Kind, tuple[str, ...]] = {
    "model": ("models/aggregate", "models/two_stage", "models/joint"),
    "dataset": ("data/sources",),
    "template": ("studies",),
}
_CONSTANTS: dict[Kind, str] = {"model": "MODEL", "dataset": "SOURCE", "template": "TEMPLATE"}
_GROUPS: dict[Kind, str] = {
    "model": "crowdsweep.models",
    "dataset": "crowdsweep.datasets",
    "template": "crowdsweep.studies",
}


@dataclass(frozen=True)
class Place:
    """Location of the definition of one model, dataset or template.

    Attributes:
        kind: whether it is a model, a dataset or a template.
        name: its registered name.
        origin: its file, or the entry point of an installed package.
        module: its dotted module name; empty outside crowdsweep.
    """

    kind: Kind
    name: str
    origin: Path | EntryPoint
    module: str = ""

    def __str__(self) -> str:
        return str(self.origin) if isinstance(self.origin, Path) else f"entry point {self.origin.value}"


def search_path() -> list[Path]:
    """Returns the folders in `CROWDSWEEP_PLUGINS` as absolute paths, in order.

    Relative ones are resolved against the current directory.

    Raises:
        BadInput: a path cannot be one of a folder.
    """
    named = [folder for folder in os.environ.get(SEARCH_PATH, "").split(os.pathsep) if folder]
    for folder in named:
        check_path(folder, f"a folder in {SEARCH_PATH}")
    return [Path(os.path.expanduser(folder)).resolve() for folder in named]  # noqa: PTH111 - it leaves `~nobody` alone


def keep_search_path() -> None:
    """Makes the paths in `CROWDSWEEP_PLUGINS` absolute, since a plug-in may change the current directory.

    Raises:
        BadInput: a path cannot be one of a folder.
    """
    if SEARCH_PATH in os.environ:
        os.environ[SEARCH_PATH] = os.pathsep.join(map(str, search_path()))


def find(kind: Kind) -> dict[str, Place]:
    """Returns everything of one kind by name, sorted, without importing any of it.

    Raises:
        BadInput: two places define the same name.
    """
    found: dict[str, Place] = {}
    for place in _places(kind):
        if place.name in found:
            raise _defined_twice(found[place.name], place)
        found[place.name] = place
    return dict(sorted(found.items()))


def names(kind: Kind) -> list[str]:
    """Returns the names of everything of one kind, sorted, without importing any of it."""
    return list(find(kind))


def get(kind: Kind, name: str) -> Place | None:
    """Returns the place that defines a name, or None; of plug-in folders, it reads only files of that name.

    Raises:
        BadInput: two places define the name.
    """
    found = list(_places(kind, name))
    if len(found) > 1:
        raise _defined_twice(*found[:2])
    return found[0] if found else None


def locate(kind: Kind, name: str) -> Place:
    """Returns the place that defines a name.

    Raises:
        UnknownName: no place defines the name; the message offers the nearest one.
        BadInput: two places define the name.
    """
    found = get(kind, name)
    if found is None:
        raise UnknownName(kind, name, find(kind))
    return found


def load(place: Place) -> Any:
    """Imports a place and returns its constant (`MODEL`, `SOURCE` or `TEMPLATE`).

    Exceptions of the imported code pass through.

    Raises:
        BadInput: the file is not valid Python, or defines no such constant.
    """
    if isinstance(place.origin, EntryPoint):
        target = place.origin.load()
        return _constant_of(target, place) if isinstance(target, ModuleType) else target
    module = importlib.import_module(place.module) if place.module else _import_file(place.origin)
    return _constant_of(module, place)


def title(place: Place) -> str:
    """Returns the first line of a file's docstring, without importing the file.

    For an entry point, returns its value; for a file that is not valid Python, the error.
    """
    if isinstance(place.origin, EntryPoint):
        return place.origin.value
    try:
        return docstring(place).partition("\n")[0].rstrip(".")
    except (SyntaxError, ValueError) as error:  # ValueError: null bytes, up to Python 3.11
        return f"cannot be used: {place.origin} is not Python: {error}"


def docstring(place: Place) -> str:
    """Returns a file's module docstring, without importing the file; "" for an entry point.

    Raises:
        SyntaxError, ValueError: the file is not valid Python.
    """
    if isinstance(place.origin, EntryPoint):
        return ""
    return ast.get_docstring(ast.parse(place.origin.read_bytes(), place.origin.name)) or ""


def titles(kind: Kind) -> dict[str, str]:
    """Returns the title of everything of one kind, by name, without importing any of it."""
    return {name: title(place) for name, place in find(kind).items()}


def _places(kind: Kind, name: str | None = None) -> Iterator[Place]:
    """Yields the places of one kind; with `name`, only those of this name."""
    yield from (place for place in _own_places(kind) if name in (None, place.name))
    for folder in search_path():
        for path in _defining_files(folder, kind, name):
            yield Place(kind, path.stem.replace("_", "-"), path)
    for point in _entry_points(_GROUPS[kind]):
        if name in (None, point.name):
            yield Place(kind, point.name, point)


@cache  # crowdsweep's own files do not change; those of plug-in folders may
def _own_places(kind: Kind) -> tuple[Place, ...]:
    return tuple(
        Place(kind, path.stem.replace("_", "-"), path, f"crowdsweep.{folder.replace('/', '.')}.{path.stem}")
        for folder in _FOLDERS[kind]
        for path in _defining_files(_ROOT / folder, kind, None)
    )


def _defining_files(folder: Path, kind: Kind, name: str | None) -> Iterator[Path]:
    """Yields a folder's Python files that assign the kind's constant at top level, except those named `_*`."""
    assignment = re.compile(rf"^{_CONSTANTS[kind]}\b[^=\n]*=".encode(), re.MULTILINE)
    if name is None:
        candidates = sorted(folder.glob("*.py"))
    elif "_" in name or not name.replace("-", "_").isidentifier():  # such as a path
        return
    else:
        candidates = [folder / f"{name.replace('-', '_')}.py"]
    for path in candidates:
        if is_file(path) and not path.name.startswith("_") and assignment.search(path.read_bytes()):
            yield path


def _defined_twice(first: Place, second: Place) -> BadInput:
    return BadInput(f"{first.kind} {first.name!r} is defined twice: {first} and {second}; rename one")


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _import_file(path: Path) -> ModuleType:
    name = f"crowdsweep_plugin_{blake2b(str(path).encode(), digest_size=4).hexdigest()}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise BadInput(f"{path} cannot be imported as a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look up their module while the class is made
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise BadInput(f"{path} is not Python: {error}") from error
        raise
    return module


def _constant_of(module: ModuleType, place: Place) -> Any:
    constant = _CONSTANTS[place.kind]
    if not hasattr(module, constant):
        raise BadInput(f"{place.kind} {place.name!r}: expected {place} to define {constant}")
    return getattr(module, constant)
