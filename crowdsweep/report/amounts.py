"""Numbers as people read them: with the digits that mean something, and the unit that fits."""

import json
import math
from collections.abc import Mapping
from typing import Any

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.known import HELDOUT
from crowdsweep.metrics.wording import is_share
from crowdsweep.trial.spec import canonical_json

_MOST_DECIMALS = 6
_LOPSIDED = 1.5  # times as long as the other side, and an interval is no longer told by its half


def show_number(value: float | None, metric: str, beside: Estimate | None = None) -> str:
    """Returns a metric's value: percent with one decimal, else three decimals; more where these would all be zero.

    Args:
        value: nothing where it is None.
        metric: whose value.
        beside: of an interval that it stands beside, which says how many decimals mean something.
    """
    if value is None:
        return ""
    shown = 100 * value if is_share(metric) else value
    text = f"{shown:.{_decimals(metric, value, beside)}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def show_printed(value: float | None, metric: str) -> str:
    """Returns a metric's value with the digits that papers print: percent with two decimals, else four."""
    if value is None:
        return ""
    return f"{100 * value:.2f}" if is_share(metric) else f"{value:.4f}"


def show_interval(estimate: Estimate, metric: str) -> str:
    """Returns `[81.2, 83.1]`, or nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{show_number(estimate.low, metric, estimate)}, {show_number(estimate.high, metric, estimate)}]"


def show_spread(estimate: Estimate, metric: str) -> str:
    """Returns `82.2 ± 0.9`, the mean and half its interval; `95.0 (86.1 – 98.3)` where one side is much the longer."""
    return _spread(estimate, metric, unit="")


def show_score(estimate: Estimate, metric: str) -> str:
    """Returns `82.2 % ± 0.9` of a share; of other metrics as `show_spread`."""
    return _spread(estimate, metric, unit=" %" if is_share(metric) else "")


def show_foretold(estimate: Estimate, metric: str) -> str:
    """Returns `61 %`: the probability (geometric mean) that a held-out answer was given, of a mean log-likelihood;
    nothing of another metric."""
    return f"{100 * math.exp(estimate.mean):.0f} %" if metric == HELDOUT else ""


def show_p(p: float | None) -> str:
    """Returns `= 0.034` or `< 0.001`."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def show_seconds(seconds: float | None) -> str:
    """Returns a time in the unit that people would say it in: `< 1 ms`, `12 ms`, `3.4 s`, `12 min`, `2.5 h`."""
    if seconds is None:
        return ""
    if seconds < 0.001:
        return "< 1 ms"
    for limit, size, unit in ((0.9995, 0.001, "ms"), (99.5, 1.0, "s"), (5970.0, 60.0, "min")):
        if seconds < limit:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds / 3600)} h"


def show_bytes(size: int | None) -> str:
    """Returns bytes as MiB, or GiB."""
    if size is None:
        return ""
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def show_times(factor: float) -> str:
    """Returns `2.4 times`, `18 times`, `1,800 times`."""
    if factor >= 100:
        factor = float(f"{factor:.2g}")
    return f"{_two_digits(factor)} times"


def show_point(point: str | Mapping[str, Any]) -> str:
    """Returns a point as `groups 3, smoothing 0.1`; a dash for the defaults."""
    values: Mapping[str, Any] = json.loads(point) if isinstance(point, str) else point
    return ", ".join(f"{name} {show_value(value)}" for name, value in values.items()) or "–"


def show_value(value: Any) -> str:
    """Returns a hyper-parameter's value: fractions with three significant digits, the rest as JSON without quotes."""
    if isinstance(value, float):
        return f"{value:.3g}"
    return value if isinstance(value, str) else canonical_json(value).replace(",", ", ").replace('"', "")


def listed(names: list[str], most: int = 4) -> str:
    """Returns `a, b and c`; of more than `most` names the first ones and how many others there are."""
    if len(names) > most:
        shown = names[: most - 1]
        return f"{', '.join(shown)} and {len(names) - len(shown)} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _spread(estimate: Estimate, metric: str, *, unit: str) -> str:
    mean = show_number(estimate.mean, metric, estimate) + unit
    if estimate.low is None or estimate.high is None:
        return mean
    shorter, longer = sorted((estimate.mean - estimate.low, estimate.high - estimate.mean))
    if longer > _LOPSIDED * shorter:
        return (
            f"{mean} ({show_number(estimate.low, metric, estimate)} – {show_number(estimate.high, metric, estimate)})"
        )
    half = (estimate.high - estimate.low) / 2
    return f"{mean} ± {show_number(half, metric, estimate)}"


def _decimals(metric: str, value: float, beside: Estimate | None) -> int:
    """Returns how many decimals mean something: those that show the first digit of half an interval, at least one of a
    percentage and three of another number, of which a small one shows two digits."""
    scale, least = (100.0, 1) if is_share(metric) else (1.0, 3)
    if beside is not None and beside.low is not None and beside.high is not None and beside.high > beside.low:
        return _showing(scale * (beside.high - beside.low) / 2, 1, least)
    return least if is_share(metric) else _showing(scale * abs(value), 2, least)


def _showing(size: float, digits: int, least: int) -> int:
    if size <= 0.0:
        return least
    return min(max(least, digits - 1 - math.floor(math.log10(size))), _MOST_DECIMALS)


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"
