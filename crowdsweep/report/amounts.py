"""Numbers as people read them: with the digits that mean something, and the unit that fits."""

import json
import math
from collections.abc import Mapping
from typing import Any

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.known import HELDOUT
from crowdsweep.metrics.shown import show_interval, show_number, show_score, show_spread
from crowdsweep.metrics.wording import is_share
from crowdsweep.trial.spec import canonical_json

__all__ = [
    "listed",
    "show_bytes",
    "show_foretold",
    "show_interval",
    "show_number",
    "show_p",
    "show_point",
    "show_printed",
    "show_score",
    "show_seconds",
    "show_spread",
    "show_times",
    "show_value",
]


def show_printed(value: float | None, metric: str) -> str:
    """Returns a metric's value with the digits that papers print: percent with two decimals, else four."""
    if value is None:
        return ""
    return f"{100 * value:.2f}" if is_share(metric) else f"{value:.4f}"


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


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"
