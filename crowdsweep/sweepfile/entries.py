"""Which entry of a list in a sweep file a `--set` means: by its position, or by its name.

`models.cmm.params.groups=4` changes the entry of `models:` that is labelled, or called, cmm, wherever it stands. A name
may hold dots (`datasets./data/rte.v2.redundancy=3`).
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from crowdsweep.errors import KeyPath, SweepFileError, Where, shortened


def found_path(value: Any, parts: Sequence[str], where: Where) -> KeyPath:
    """Returns the keys and list positions that lead to what a `--set` changes.

    Args:
        value: of the sweep file, as read.
        parts: what stands between the dots.
        where: the `--set`, for messages.

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
    """Returns the position of the entry that the first parts tell, and how many of them did.

    Raises:
        SweepFileError: as `found_path`.
    """
    if parts[0].isdecimal() and int(parts[0]) < len(entries):
        return int(parts[0]), 1
    names = [_names(entry) for entry in entries]
    for used in range(1, len(parts) + 1):
        wanted = ".".join(parts[:used])
        for kind in (0, 1):  # a label is one entry's alone, a name may be several's
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
    """Returns what an entry goes by, its label before its name; nothing where it has none."""
    if isinstance(entry, str):
        return [entry, entry]
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        return []
    label = entry.get("label")
    return [label if isinstance(label, str) else entry["name"], entry["name"]]
