"""Sweep files that come with crowdsweep, and the resolution of a path or name to a sweep file."""

import re
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.data.public import PUBLIC_DATASETS
from crowdsweep.errors import SweepFileError, UnknownName, plain, shortened, suggestion
from crowdsweep.files.located import parse_yaml
from crowdsweep.paths import exists, is_file, is_folder, names_in
from crowdsweep.registry import discovery

_FOLDER = "search_spaces"
_SENTENCE = re.compile(r".*?[.?!](?= [A-Z]|$)")


@dataclass(frozen=True, kw_only=True)
class NamedSweep:
    """A sweep that comes with crowdsweep.

    Attributes:
        name: name of the sweep, and of its file without `.yaml`.
        title: one sentence.
        needs: datasets of the sweep whose files must be found on CROWDSWEEP_DATA.
    """

    name: str
    title: str
    needs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AskedFile:
    """The file that a path or a name refers to.

    Attributes:
        path: path of a file or a folder.
        comes_along: whether it is a sweep that comes with crowdsweep.
        note: warning for the user where a sweep that comes with crowdsweep has the same name; else empty.
    """

    path: Path
    comes_along: bool = False
    note: str = ""


def sweep_folder() -> Path:
    """Returns the folder of the sweep files that come with crowdsweep: inside the package, or beside it in a clone."""
    package = Path(__file__).parents[1]
    inside = package / _FOLDER
    return inside if is_folder(inside) else package.parent / _FOLDER


def sweep_names() -> list[str]:
    """Returns the sorted names of the sweeps that come with crowdsweep."""
    return [Path(name).stem for name in names_in(sweep_folder()) if name.endswith(".yaml")]


def sweep_text(name: str) -> str:
    """Returns the text of the file of a sweep that comes with crowdsweep.

    Raises:
        UnknownName: there is no sweep of that name.
    """
    if name not in sweep_names():
        raise UnknownName("sweep", name, sweep_names())
    return _file_of(name).read_text(encoding="utf-8")


def named_sweeps() -> list[NamedSweep]:
    """Returns the sweeps that come with crowdsweep, sorted by name; loads no data."""
    built_in = set(discovery.names("dataset")) - set(PUBLIC_DATASETS)  # public ones are read from files
    found: list[NamedSweep] = []
    for name in sweep_names():
        text = sweep_text(name)
        needs = [dataset for dataset in _datasets(text, name) if dataset not in built_in]
        found.append(NamedSweep(name=name, title=_title(text), needs=tuple(dict.fromkeys(needs))))
    return found


def asked_file(given: str | Path, folder: Path = Path(), extending: Path | None = None) -> AskedFile:
    """Resolves a path or the name of a sweep: to the file or folder at that path, else to the file of that name with
    `.yaml` appended, else to the sweep of that name that comes with crowdsweep.

    Args:
        given: the path or name. A path with a folder or a suffix is returned even if nothing is there.
        folder: folder that a relative path starts from.
        extending: the sweep file that contains the path or name; its own name without `.yaml` does not refer to it.

    Raises:
        SweepFileError: nothing has that name; the message suggests the nearest names.
    """
    name = str(given)
    comes_along = name in sweep_names()
    with_suffix = folder / f"{name}.yaml"
    own = extending is not None and is_file(with_suffix) and is_file(extending) and with_suffix.samefile(extending)
    for path in (folder / name, *(() if own else (with_suffix,))):
        if exists(path):
            if comes_along and is_file(path) and path.samefile(_file_of(name)):
                return AskedFile(path=path, comes_along=True)
            note = (
                f"{path}: this file or folder is used, not the sweep of that name that comes with crowdsweep, which "
                f"`crowdsweep sweeps {name}` prints"
            )
            return AskedFile(path=path, note=note if comes_along else "")
    if comes_along:
        return AskedFile(path=_file_of(name), comes_along=True)
    if (stem := Path(name).stem) in sweep_names():
        raise SweepFileError(
            f"there is no file {plain(shortened(name))!r}; the sweep that comes with crowdsweep is named without an "
            f"ending, {stem}, and `crowdsweep sweeps {stem}` prints its file"
        )
    if Path(name).name == name and not Path(name).suffix:
        beside = [Path(known).stem for known in names_in(folder) if known.endswith((".yaml", ".yml"))]
        raise SweepFileError(
            f"there is no sweep file {plain(shortened(name))!r} here, and no sweep of that name comes with crowdsweep; "
            f"{suggestion(name, {*beside, *sweep_names()})}; `crowdsweep sweeps` lists those that come with crowdsweep"
        )
    return AskedFile(path=folder / name)


def _file_of(name: str) -> Path:
    return sweep_folder() / f"{name}.yaml"


def _title(text: str) -> str:
    """Returns the first sentence of the comment that a sweep file begins with."""
    words: list[str] = []
    for line in text.splitlines():
        said = line.removeprefix("#").strip()
        if not line.startswith("#") or not said:
            break
        words.append(said)
    match = _SENTENCE.match(" ".join(words))
    return match[0] if match else " ".join(words)


def _datasets(text: str, name: str) -> list[str]:
    """Returns the dataset names of a sweep file that comes with crowdsweep, and that may extend another such file."""
    said = parse_yaml(text, name)[0]
    if "datasets" not in said:
        return _datasets(sweep_text(said["extends"]), said["extends"])
    entries = said["datasets"]
    named = [entry if isinstance(entry, str) else entry["name"] for entry in entries]
    return [name for one in named for name in (one if isinstance(one, list) else [one])]
