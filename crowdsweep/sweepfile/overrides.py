"""Changes of single keys of a sweep by `--set KEY=VALUE`, with messages that name the `--set`.

`models.cmm.params.groups=4` changes the entry of `models:` whose label, or name, is cmm, at any position. A name may
contain dots (`datasets./data/rte.v2.redundancy=3`).
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from crowdsweep.errors import KeyPath, SweepFileError, Where, shortened
from crowdsweep.files.located import parse_yaml

KIND_OF: Mapping[KeyPath, str] = {
    ("study",): "template",
    ("metric",): "name",
    ("sampler",): "kind",
    ("early_stop",): "kind",
}
"""The key that says which kind a section is."""


def with_overrides(value: Any, where: Where, overrides: Sequence[str]) -> tuple[Any, Where]:
    """Returns the value with each override `a.b.c=YAML` applied, and the places of its values. Missing mappings on the
    way are created. List entries are found by name or position (`position_of`).

    A plain name in a list (`models: [cmm]`) becomes `{name: cmm}` where something is set inside it.

    Raises:
        SweepFileError: an override does not have that form, or leads to no place where a value can be set.
    """
    origins, files = dict(where.origins), dict(where.files)
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise SweepFileError(f"--set {shortened(override)}: expected key=value, for example --set seeds.report=10")
        origin = f"--set {override}"
        path = found_path(value, key.strip().split("."), Where({(): origin}))
        value = _replaced(value, path, parse_yaml(text, origin)[0], Where({(): origin}))
        for places in (origins, files):
            for known in [known for known in places if known[: len(path)] == path]:
                del places[known]
        origins[path], files[path] = origin, ""
    return value, Where(origins, files=files)


def _replaced(value: Any, path: KeyPath, new: Any, where: Where) -> Any:
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        if not isinstance(head, int):
            raise SweepFileError(where.says(f"this list is empty: there is nothing to set {head!r} in"))
        return [_replaced(part, rest, new, where.at(head)) if i == head else part for i, part in enumerate(value)]
    if where.path:
        value = as_mapping(value, where.path)
    if value is None:
        value = {}
    if not isinstance(value, Mapping):
        raise SweepFileError(where.says(f"expected a mapping or a list to set {head!r} in, got {value!r}"))
    return {**value, str(head): _replaced(value.get(str(head)), rest, new, where.at(str(head)))}


def as_mapping(value: Any, path: KeyPath) -> Any:
    """Returns a section or entry that is given by its kind or name alone as a mapping: `sampler: tpe` is `{kind: tpe}`.

    Only texts are changed; a text that is no such section becomes `{name: text}` inside of a list alone.
    """
    key = KIND_OF.get(path, "name" if len(path) > 1 else "")
    return {key: value} if isinstance(value, str) and key else value


def found_path(value: Any, parts: Sequence[str], where: Where) -> KeyPath:
    """Returns the keys and list positions that lead to the value that a `--set` changes.

    Args:
        parts: parts of the key between its dots.

    Raises:
        SweepFileError: no entry of a list has that name or position, or several have that name.
    """
    path: list[str | int] = []
    rest = list(parts)
    while rest:
        if isinstance(value, list) and value:
            place, used = position_of(value, rest, where.at(*path))
            path.append(place)
            value, rest = value[place], rest[used:]
        else:
            key = rest.pop(0)
            path.append(key)
            value = value.get(key) if isinstance(value, Mapping) else None
    return tuple(path)


def position_of(entries: Sequence[Any], parts: Sequence[str], where: Where) -> tuple[int, int]:
    """Returns the position of the list entry that the first parts name, and how many parts name it.

    Raises:
        SweepFileError: as in `found_path`.
    """
    if parts[0].isdecimal() and int(parts[0]) < len(entries):
        return int(parts[0]), 1
    names = [_names(entry) for entry in entries]
    for used in range(1, len(parts) + 1):
        wanted = ".".join(parts[:used])
        for kind in (0, 1):  # a label belongs to one entry, a name may belong to several
            fitting = [place for place, known in enumerate(names) if known[kind : kind + 1] == [wanted]]
            if len(fitting) == 1:
                return fitting[0], used
            if fitting:
                told = ", ".join(f"{place} ({names[place][0]})" for place in fitting)
                raise SweepFileError(where.says(f"several are called {wanted!r}; give a label or a position: {told}"))
    known = list(dict.fromkeys(name for told in names for name in told))
    if parts[0].isdecimal() or not known:
        got = int(parts[0]) if parts[0].isdecimal() else shortened(parts[0])
        raise SweepFileError(where.says(f"expected a position 0 … {len(entries) - 1} of this list, got {got!r}"))
    near = get_close_matches(parts[0], known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise SweepFileError(
        where.says(f"nothing here is called {shortened(parts[0])!r}; there are {', '.join(known)}{hint}")
    )


def _names(entry: Any) -> list[str]:
    """Returns the label of an entry, by default its name, and then the name; nothing where it has no name."""
    if isinstance(entry, str):
        return [entry, entry]
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        return []
    label = entry.get("label")
    return [label if isinstance(label, str) else entry["name"], entry["name"]]
