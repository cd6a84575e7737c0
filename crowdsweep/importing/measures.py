"""Refuses labels that are measures: numbers with decimals, which are no classes."""

import re
from collections.abc import Mapping
from pathlib import Path

from crowdsweep.errors import DataError

_NUMBER = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?")
_FEW_ANSWERS = 10  # with fewer answers, nothing can be said
_SCALE = 20  # most numbers with decimals on a scale, such as 0.5, 1, 1.5, …


def check_no_measures(path: Path, times: Mapping[str, int]) -> None:
    """Refuses labels that are numbers with decimals, unless they form a scale of a few steps.

    Args:
        path: the file, for the message.
        times: how often each label is given.

    Raises:
        DataError: the labels are such numbers.
    """
    found = [label for label in times if _is_fraction(label)]
    given = sum(times[label] for label in found)
    if len(found) > _SCALE or (given >= _FEW_ANSWERS and 2 * len(found) > given):
        raise DataError(
            f"{path}: expected classes, got {len(found)} numbers with decimals, such as {found[0]}: measurements, or "
            f"features of items; a label is one of a few classes, so round measurements to steps"
        )


def _is_fraction(label: str) -> bool:
    try:
        return _NUMBER.fullmatch(label) is not None and not float(label).is_integer()
    except (ValueError, OverflowError):
        return False
