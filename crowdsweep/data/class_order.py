"""Order of classes that nobody declared: numbers by value, however they are written, then words."""

import math
import re
from collections.abc import Iterable, Sequence

_DIGITS = r"(?:\d+(?:[.,]\d*)?|[.,]\d+)"
_NUMBER = re.compile(rf"[+\-−]?{_DIGITS}([eE][+-]?\d+)?\s*%?")
_LEADING = re.compile(rf"([<>≤≥]?)=?\s*([+\-−]?{_DIGITS})")  # `1 - never`, `3 stars`, `20-29`, `<20`
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+")
_PIECES = re.compile(r"\d+|\D+")
_NUMBERED = re.compile(r".*\d|.")
_FEWEST_STEPS, _MOST_STEPS = 3, 11


def in_order(labels: Iterable[str]) -> list[str]:
    """Returns the distinct labels in ascending order: numbers by value, then words in natural order.

    For example: -2, -1, 0, 0.5, 1.0, 10; 0%, 50%, 100%; `1 - never` before `10 - always`; `<20`, `20-29`, `100+`;
    `level 2` before `level 10`; other words in alphabetical order.
    """
    return sorted(set(labels), key=_place)


def by_the_alphabet(labels: Sequence[str]) -> bool:
    """Returns whether three or more words among the labels stand in alphabetical order, as only spelling orders them.

    Single characters and labels that begin with a number or end in a digit do not count as words.
    """
    words = [label for label in labels if not (_NUMBERED.fullmatch(label) or _LEADING.match(label.strip()))]
    return len(words) > 2 and words == sorted(words)


def look_like_ratings(labels: Sequence[str]) -> bool:
    """Returns whether ordered labels look like the steps of a rating scale.

    They do if they are three to eleven consecutive whole numbers that do not begin at 0, as codes of categories do.
    """
    values = [_value(label) for label in labels]
    if not _FEWEST_STEPS <= len(values) <= _MOST_STEPS or values[0] is None or values[0] == 0:
        return False
    return values[0].is_integer() and values == [values[0] + step for step in range(len(values))]


def _place(label: str) -> tuple[bool, float, int, list[tuple[bool, int, str]], str]:
    """Returns what orders a label: whether it is a word, its number, less or more than that (-1, 1), its text."""
    plain = label.strip()
    value, leading = _value(plain), _LEADING.match(plain)
    if value is not None:
        return False, value, 0, [], label
    if leading is None or (number := _value(leading[2])) is None:
        return True, 0.0, 0, _natural(plain), label
    beside = {"": 0, "<": -1, "≤": -1}.get(leading[1], 1)
    return False, number, beside, _natural(plain[leading.end() :]), label


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """Returns the pieces of a text, of which runs of digits are compared as numbers."""
    pieces = (piece if len(piece) < 1000 else piece[:1000] for piece in _PIECES.findall(text))
    return [(not piece[0].isdecimal(), int(piece) if piece[0].isdecimal() else 0, piece) for piece in pieces]


def _value(label: str) -> float | None:
    plain = label.strip()
    if not _NUMBER.fullmatch(plain):
        return None
    plain = plain.replace("−", "-").rstrip("% ")
    value = float(plain.replace(",", "") if _THOUSANDS.fullmatch(plain) else plain.replace(",", "."))
    return value if math.isfinite(value) else None
