"""`extends:` in a sweep file: another sweep file, whose values hold where this file gives none.

Mappings are merged key by key. Where both files give a value, the extending file wins; its `null` removes the value of
the extended file. Some values replace the other's as a whole: lists, a range of a search, and mappings that state their
kind (`study` with a template, `metric` with a name, `sampler` and `early_stop` with a kind). Where the extended file
lists datasets or models, a mapping changes its entries by their names, as `--set` does, and `null` removes an entry.
The name is never inherited, because a sweep's record goes by it.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crowdsweep.errors import KeyPath, SweepFileError, Where, shortened
from crowdsweep.files.located import read_yaml
from crowdsweep.sweepfile.checked import field_types, text
from crowdsweep.sweepfile.named import asked_file
from crowdsweep.sweepfile.overrides import KIND_OF, as_mapping, position_of
from crowdsweep.sweepfile.records import SweepConfig

EXTENDS = "extends"
ABOUT = "another sweep file, or the name of a built-in sweep, whose values apply where this file has none"
MOST_FILES = 10
_LISTS: tuple[KeyPath, ...] = (("datasets",), ("models",))

_log = logging.getLogger(__name__)


def extended(value: Any, where: Where) -> tuple[Any, Where]:
    """Returns the content of a sweep file merged with what it extends, and the place of each value.

    Raises:
        SweepFileError: an extended file does not exist, cannot be read or is not a sweep file, or the files extend each
            other in a circle, or there are more than `MOST_FILES`. The message does not quote a file that is not a
            sweep file, because a sweep file from elsewhere may name any file.
    """
    files = [where.file] if where.file else []
    above: list[tuple[Mapping[str, Any], Where]] = []
    while isinstance(value, Mapping) and EXTENDS in value:
        above.append(({key: part for key, part in value.items() if key != EXTENDS}, where))
        value, where = _base(value[EXTENDS], where.at(EXTENDS), files)
        value = {key: part for key, part in value.items() if key != "name"}
    while above:
        new, place = above.pop()
        merging = _Merging(value, where, place)
        value = merging.merged(value, new, (), ())
        where = merging.where()
    return value, where


def _base(given: Any, where: Where, files: list[str]) -> tuple[Mapping[str, Any], Where]:
    """Reads the extended file, and adds its path to `files`, the files read so far."""
    extending = Path(files[-1]) if files else None
    try:
        asked = asked_file(text(given, where), where.folder, extending)
        if asked.note:
            _log.warning("%s", where.says(asked.note))
        for number, known in enumerate(files):
            if _is_same(Path(known), asked.path):
                circle = " → ".join([*files[number:], str(asked.path)])
                raise SweepFileError(f"these files extend each other in a cycle: {circle}; remove one `extends`")
        if len(files) >= MOST_FILES:
            raise SweepFileError(f"expected at most {MOST_FILES} sweep files that extend each other")
        value, inside = read_yaml(asked.path, cite=False)
    except SweepFileError as error:
        said = str(error)
        raise error if said.startswith(str(where)) else SweepFileError(where.says(said)) from None
    if not isinstance(value, Mapping) or not {*value} <= {EXTENDS, *field_types(SweepConfig)} - {"source"}:
        raise SweepFileError(
            where.says(
                f"expected a sweep file, got one with other keys, or none: {shortened(str(asked.path))}; `crowdsweep "
                f"plan` on it shows what is wrong"
            )
        )
    files.append(str(asked.path))
    return value, inside


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


class _Merging:
    """A merge of one sweep file over another, with the place of each resulting value."""

    def __init__(self, base: Mapping[str, Any], base_where: Where, new_where: Where) -> None:
        self._new = new_where
        self._origins = dict(base_where.origins)
        self._files = {(key,): base_where.at(key).file for key in base} | dict(base_where.files)
        self._origins[()], self._files[()] = str(Where(new_where.origins)), new_where.file

    def where(self) -> Where:
        """Returns the places of the merged values."""
        return Where(self._origins, files=self._files)

    def merged(self, base: Any, new: Any, path: KeyPath, named_path: KeyPath) -> Any:
        """Returns a value of the extending file merged over that of the extended file.

        Args:
            base, new: the values of the extended and of the extending file.
            path: path of the value in the result.
            named_path: path of the value in the extending file, where an entry of a list may be given by its name.
        """
        if path in KIND_OF:
            base = as_mapping(base, path)
        if isinstance(new, Mapping) and isinstance(base, list) and path in _LISTS:
            return self._entries(base, new, path, named_path)
        if not (isinstance(new, Mapping) and isinstance(base, Mapping)) or _is_whole(new, path):
            self._take(path, named_path)
            return new
        out = dict(base)
        for key, part in new.items():
            inner = (*path, key)
            if part is None and (key in out or not path):
                out.pop(key, None)
                self._forget(inner)
            elif key in out:
                out[key] = self.merged(out[key], part, inner, (*named_path, key))
            else:
                out[key] = part
                self._take(inner, (*named_path, key))
        return out

    def _entries(self, base: list[Any], new: Mapping[str, Any], path: KeyPath, named_path: KeyPath) -> list[Any]:
        """Returns the entries of a list, with some of them changed or removed."""
        out, left_out = list(base), set[int]()
        for name, change in new.items():
            place = self._new.at(*named_path, name)
            number, _ = position_of(base, [str(name)], place)
            if change is None:
                left_out.add(number)
                continue
            if not isinstance(change, Mapping):
                raise SweepFileError(
                    place.says(f"expected a mapping of what changes, or null to leave {name!r} out; got {change!r}")
                )
            entry = {"name": out[number]} if isinstance(out[number], str) else out[number]
            out[number] = self.merged(entry, change, (*path, number), (*named_path, name))
        kept = [number for number in range(len(out)) if number not in left_out]
        if left_out:  # the list counts as this file's, its kept entries as the other's
            theirs = self._files.get(path, "")
            self._files = (
                {(*path, number): theirs for number in kept} | self._files | {path: self._new.at(*named_path).file}
            )
        self._renumber(path, {old: new_ for new_, old in enumerate(kept)})
        return [out[number] for number in kept]

    def _take(self, path: KeyPath, named_path: KeyPath) -> None:
        """Records that a value comes from the extending file."""
        self._forget(path)
        for places, theirs in ((self._origins, self._new.origins), (self._files, self._new.files)):
            places.update(
                {
                    (*path, *key[len(named_path) :]): known
                    for key, known in theirs.items()
                    if key[: len(named_path)] == named_path
                }
            )
        self._files[path] = self._new.at(*named_path).file

    def _forget(self, path: KeyPath) -> None:
        for places in (self._origins, self._files):
            for known in [known for known in places if known[: len(path)] == path]:
                del places[known]

    def _renumber(self, path: KeyPath, numbers: Mapping[int, int]) -> None:
        """Moves the places of a list's entries to their new positions, and drops those of removed entries."""
        depth = len(path)
        for places in (self._origins, self._files):
            inside = {key: places.pop(key) for key in [*places] if key[:depth] == path and len(key) > depth}
            for key, known in inside.items():
                old = key[depth]
                if isinstance(old, int) and old in numbers:
                    places[(*path, numbers[old], *key[depth + 1 :])] = known


def _is_whole(new: Mapping[str, Any], path: KeyPath) -> bool:
    """Whether a mapping replaces the other file's as a whole: a range of a search, or one that states its kind."""
    is_range = len(path) == 4 and path[0] == "models" and path[2] == "search"
    return is_range or KIND_OF.get(path) in new
