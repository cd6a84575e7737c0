"""The order of classes that nobody declared: numbers by their value, in whatever form they are written, then words."""

import math
import re
from collections.abc import Iterable, Sequence

from crowdsweep.data.on_disk.tables import Names

_NUMBER = re.compile(r"[+\-−]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NUMBERED = re.compile(r".*[0-9]|.")
_FEWEST_STEPS, _MOST_STEPS = 3, 11


def in_order(labels: Iterable[str]) -> list[str]:
    """Returns distinct labels in ascending order: -2, -1, 0, 0.5, 1.0, 10, then `level 2` before `level 10`, then words
    by the alphabet."""
    found = set(labels)
    numbers = {label: value for label in found if (value := _value(label)) is not None}
    words = Names.of(sorted(found - numbers.keys()))
    return [*sorted(numbers, key=lambda label: (numbers[label], label)), *words.take(words.natural_order())]


def by_the_alphabet(labels: Sequence[str]) -> bool:
    """Whether labels stand in an order that only their spelling gives: words, three or more, by the alphabet."""
    words = [label for label in labels if not _NUMBERED.fullmatch(label)]
    return len(words) > 2 and words == sorted(words)


def look_like_ratings(labels: Sequence[str]) -> bool:
    """Whether ordered labels look like the steps of a scale: three to eleven whole numbers, one after the other,
    that do not begin at 0, as the codes of categories do."""
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
