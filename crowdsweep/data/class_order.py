"""Order of classes that nobody declared: numbers by value, however they are written, then words."""

import math
import re
from collections.abc import Iterable, Sequence

from crowdsweep.data.on_disk.tables import Names

_NUMBER = re.compile(r"[+\-−]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NUMBERED = re.compile(r".*[0-9]|.")
_FEWEST_STEPS, _MOST_STEPS = 3, 11


def in_order(labels: Iterable[str]) -> list[str]:
    """Returns the distinct labels in ascending order: numbers by value, then words in natural order.

    For example: -2, -1, 0, 0.5, 1.0, 10; `level 2` before `level 10`; other words in alphabetical order.
    """
    found = set(labels)
    numbers = {label: value for label in found if (value := _value(label)) is not None}
    words = Names.of(sorted(found - numbers.keys()))
    return [*sorted(numbers, key=lambda label: (numbers[label], label)), *words.take(words.natural_order())]


def by_the_alphabet(labels: Sequence[str]) -> bool:
    """Returns whether three or more words among the labels stand in alphabetical order, as only spelling orders them.

    Single characters and labels that end in a digit do not count as words.
    """
    words = [label for label in labels if not _NUMBERED.fullmatch(label)]
    return len(words) > 2 and words == sorted(words)


def look_like_ratings(labels: Sequence[str]) -> bool:
    """Returns whether ordered labels look like the steps of a rating scale.

    They do if they are three to eleven consecutive whole numbers that do not begin at 0, as codes of categories do.
    """
    values = [_value(label) for label in labels]
    if not _FEWEST_STEPS <= len(values) <= _MOST_STEPS or values[0] is None or values[0] == 0:
        return False
    return values[0].is_integer() and values == [values[0] + step for step in range(len(values))]


def _value(label: str) -> float | None:
    plain = label.strip()
    if not _NUMBER.fullmatch(plain):
        return None
    value = float(plain.replace("−", "-"))
    return value if math.isfinite(value) else None
