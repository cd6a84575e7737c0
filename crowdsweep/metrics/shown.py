"""A metric's numbers as text, the same everywhere: with their significant digits."""

import math

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.metric_table import COSTS, HELDOUT, SECONDS, info_of
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.units import show_seconds

_MOST_DECIMALS = 6
_LOPSIDED = 1.5  # times as long as the other side, and an interval is no longer told by its half


def show_number(value: float | None, metric: str, beside: Estimate | None = None) -> str:
    """Returns a metric's value: percent with one decimal, else three decimals; more where these would all be zero. A
    cost has three digits.

    Args:
        value: nothing where it is None.
        beside: of an interval that it stands beside, which says how many decimals mean something.
    """
    if value is None:
        return ""
    shown = 100 * value if is_share(metric) else value
    text = f"{shown:.{_decimals(metric, value, beside)}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def show_interval(estimate: Estimate, metric: str) -> str:
    """Returns `[81.2, 83.1]`, or nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{show_number(estimate.low, metric, estimate)}, {show_number(estimate.high, metric, estimate)}]"


def show_with_interval(estimate: Estimate, metric: str) -> str:
    """Returns `82.2 ± 0.9`, the mean and half its interval; `95.0 (86.1 – 98.3)` where one side is much the longer."""
    return _with_interval(estimate, metric, unit="")


def show_score(estimate: Estimate, metric: str) -> str:
    """Returns `82.2 % ± 0.9` of a share, `312 MiB ± 5` of memory, `60 ms (58 ms – 64 ms)` of a time; of other metrics
    as `show_with_interval`."""
    if metric == SECONDS:
        between = "" if estimate.low is None else f" ({show_seconds(estimate.low)} – {show_seconds(estimate.high)})"
        return show_seconds(estimate.mean) + between
    return _with_interval(estimate, metric, unit=_unit(metric) if is_share(metric) or metric in COSTS else "")


def show_printed(value: float | None, metric: str) -> str:
    """Returns a metric's value with the digits that papers print: percent with two decimals, else four."""
    if value is None:
        return ""
    return f"{100 * value:.2f}" if is_share(metric) else f"{value:.4f}"


def show_probability(estimate: Estimate, metric: str) -> str:
    """Returns `61 %`: the probability (geometric mean) that a held-out answer was given, of a mean log-likelihood;
    nothing of another metric."""
    return f"{100 * math.exp(estimate.mean):.0f} %" if metric == HELDOUT else ""


def number_words(value: float, metric: str) -> str:
    """Returns `83.7 %` for a share, `60 ms` for a time, `312 MiB` for memory, else three decimals with the unit."""
    if metric == SECONDS:
        return show_seconds(value)
    if metric in COSTS:
        return show_number(value, metric) + _unit(metric)
    return (f"{100 * value:.1f}" if is_share(metric) else f"{value:.3f}") + _unit(metric)


def _unit(metric: str) -> str:
    info = info_of(metric)
    return f" {info.unit}" if info is not None and info.unit else ""


def score_words(value: float, metric: str) -> str:
    """Returns `test accuracy 83.7 %`."""
    return f"{words(metric)} {number_words(value, metric)}"


def unsound_words(found: Estimate | None, flagged: int, fitted: int) -> str:
    """Returns why no mean stands for a model: seeds that collapsed, or fits that are flagged; empty where one does."""
    if found is not None and found.collapsed:
        return f"{found.collapsed} of {found.n} seeds collapsed"
    return f"{flagged} of {fitted} trials {'is' if flagged == 1 else 'are'} flagged" if flagged else ""


def _with_interval(estimate: Estimate, metric: str, *, unit: str) -> str:
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
    scale, least = (100.0, 1) if is_share(metric) else (1.0, 0 if metric in COSTS else 3)
    if beside is not None and beside.low is not None and beside.high is not None and beside.high > beside.low:
        return _showing(scale * (beside.high - beside.low) / 2, 1, least)
    return least if is_share(metric) else _showing(scale * abs(value), 3 if metric in COSTS else 2, least)


def _showing(size: float, digits: int, least: int) -> int:
    if size <= 0.0:
        return least
    return min(max(least, digits - 1 - math.floor(math.log10(size))), _MOST_DECIMALS)
