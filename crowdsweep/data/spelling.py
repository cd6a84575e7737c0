"""Finds different spellings of one name: other case, other spaces or quotes, `1.0` for `1`, `True` for `1`.

Nothing here changes a dataset. Ids and labels stay as they are written. Names that differ only in spelling are reported
to the user, who can say whether the difference is intended.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pyarrow.compute as pc

from crowdsweep.data.on_disk.tables import Names

_NUMBER = re.compile(r"\+?(-?)0*([0-9]+?)(?:\.([0-9]*?)0*)?")
_TIMES = 50  # a rare name may be a slip of a name that is at least this many times as frequent
_SHORT = 5  # letters; in shorter names, such as `cat` and `car`, a different letter is no slip
_MANY = 1000
_UNSEEN = str.maketrans("’‘", "''", "\u200b\u200c\u200d\u2060\ufeff\u00ad")  # quotes of word processors, no characters
_BOOLEANS = {"true": "1", "false": "0"}


def spelling(text: str) -> str:
    """Returns the canonical spelling of a name, which is the same for all ways to write it."""
    folded = " ".join(unicodedata.normalize("NFKC", text.translate(_UNSEEN)).casefold().split())
    number = _NUMBER.fullmatch(folded)
    if number is not None:
        sign, whole, decimals = number.groups()
        folded = f"{sign}{whole}" + (f".{decimals}" if decimals else "")
    return _BOOLEANS.get(folded, folded)


def alike(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """Returns the groups of distinct texts with the same canonical spelling, in the order of their first texts."""
    groups: dict[str, list[str]] = {}
    for text in dict.fromkeys(texts):
        groups.setdefault(spelling(text), []).append(text)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def alike_names(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the groups that `alike` returns, faster for many names: only likely matches are compared one by one."""
    folded = _folded(names)
    if len(folded.unique()) == len(folded):
        return []
    counts: Any = folded.value_counts()
    again = counts.field("values").take(np.flatnonzero(counts.field("counts").to_numpy() > 1))
    places: Any = pc.is_in(folded, value_set=again)
    return alike(Names.of(names).take(np.flatnonzero(places.to_numpy(zero_copy_only=False))))


def shared(one: Names, other: Names) -> list[tuple[str, str]]:
    """Returns pairs of names, one of each list, that are spelled alike; the lists must have no name in common."""
    if not len(one) or not len(other):
        return []
    found: Any = pc.index_in(_folded(one), value_set=_folded(other))
    place = found.fill_null(-1).to_numpy(zero_copy_only=False)
    return [(one[int(i)], other[int(place[i])]) for i in np.flatnonzero(place >= 0)]


def misspelled(times: Mapping[str, int]) -> list[tuple[str, str]]:
    """Returns pairs of a rare name and a name at least fifty times as frequent that differs by one letter.

    A letter is added, missing or another one, or two letters are swapped. The first letters must be the same, unlike
    those of `typical` and `atypical`.

    Args:
        times: how often each name is used; for more than a thousand names, no pair is returned.
    """
    if len(times) > _MANY:
        return []
    often = sorted((name for name, n in times.items() if n >= _TIMES), key=lambda name: -times[name])
    return [
        (rare, near)
        for rare, n in times.items()
        if n
        and (near := next((name for name in often if n * _TIMES <= times[name] and _a_letter_away(rare, name)), ""))
    ]


def _a_letter_away(one: str, other: str) -> bool:
    if min(len(one), len(other)) < _SHORT or one[0] != other[0] or abs(len(one) - len(other)) > 1:
        return False
    changes = [step for step in SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if step[0] != "equal"]
    start, end = changes[0], changes[-1]
    left, right = one[start[1] : end[2]], other[start[3] : end[4]]
    changed = len(left) <= 1 and len(right) <= 1
    return (left + right).isalpha() and (changed or (len(left) == 2 and left == right[::-1]))


def _folded(names: Sequence[str]) -> Any:
    """Returns names in lower case, without surrounding spaces and without redundant zeros of numbers."""
    array: Any = pc.utf8_lower(pc.utf8_trim_whitespace(Names.of(names).array))  # pyright: ignore[reportAttributeAccessIssue]
    array = pc.replace_substring_regex(array, r"^(-?[0-9]+)\.0+$", r"\1")
    return pc.replace_substring_regex(array, r"^(-?)0+([0-9]+)$", r"\1\2")
