"""Positions and tick labels of hyper-parameters on an axis. Values searched on a log scale are on a log scale, listed
choices are evenly spaced, and others are placed by size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crowdsweep.record.naming import show_value

_MOST_TICKS = 4
_MOST_NAMES = 8
_LONGEST_NAME = 14
_STEPS = (1, 2, 5)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Values on an axis.

    Attributes:
        places: positions of the values, in their order.
        ends: texts at the least and the greatest position.
        ticks: (position, text), ascending; empty where any round numbers will do.
    """

    places: Sequence[float]
    ends: tuple[str, str]
    ticks: Sequence[tuple[float, str]] = ()


def placed(values: Sequence[Any], *, log: bool = False, choices: Sequence[Any] = ()) -> Placed:
    """Returns the positions of values on an axis.

    Args:
        values: at least one.
        log: whether they were searched on a log scale; they are above zero then.
        choices: the list that they were chosen from, if any; its entries are evenly spaced, numbers by size.
    """
    if choices or not all(map(_is_number, values)):
        return _one_by_one(values, choices)
    if log:
        places = [math.log10(value) for value in values]
        return Placed(places=places, ends=_ends(values), ticks=log_ticks(min(values), max(values)))
    return Placed(places=[float(value) for value in values], ends=_ends(values))


def log_ticks(low: int | float, high: int | float) -> list[tuple[float, str]]:
    """Returns at most four powers of ten between two numbers above zero. If fewer than two are between them, returns
    the round numbers between them, or the two numbers themselves."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 1:
        every = -(-(last - first + 1) // _MOST_TICKS)
        return [(float(power), number_text(10.0**power)) for power in range(first, last + 1, every)]
    grid = [step * 10.0**power for power in range(first - 1, last + 1) for step in _STEPS]
    inside = [value for value in grid if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
    return [(math.log10(value), number_text(value)) for value in (inside if len(inside) > 1 else (low, high))]


def number_text(value: int | float) -> str:
    """Returns a number with at most two digits for an axis: `0.03`, `120`, `3·10⁻⁷`."""
    if value == 0 or 1e-4 <= abs(value) < 1e5:
        rounded = float(f"{value:.2g}")
        return f"{rounded:.0f}" if abs(rounded) >= 10 else f"{rounded:g}"
    digits, _, power = f"{value:.1e}".partition("e")
    raised = f"10{str(int(power)).translate(_RAISED)}"
    digits = digits.removesuffix(".0")
    return raised if digits == "1" else f"{digits}·{raised}"


def _one_by_one(values: Sequence[Any], choices: Sequence[Any]) -> Placed:
    known = {show_value(value): value for value in [*choices, *values]}
    order = list(known) if choices and not all(map(_is_number, choices)) else sorted(known, key=_order_of(known))
    names = [name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in order]
    places = [float(order.index(show_value(value))) for value in values]
    every = -(-len(names) // _MOST_NAMES)
    ticks = [(float(place), names[place]) for place in range(0, len(names), every)]
    return Placed(places=places, ends=(names[int(min(places))], names[int(max(places))]), ticks=ticks)


def _order_of(known: Any) -> Any:
    def order(name: str) -> tuple[bool, float, str]:
        value = known[name]
        return not _is_number(value), float(value) if _is_number(value) else 0.0, name

    return order


def _ends(values: Sequence[Any]) -> tuple[str, str]:
    return number_text(min(values)), number_text(max(values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
