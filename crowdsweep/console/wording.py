"""Scores and times in as many digits as a person reads while a sweep runs."""

from crowdsweep.metrics.known import info_of
from crowdsweep.metrics.wording import is_share, words


def number_words(value: float, metric: str) -> str:
    """Returns `83.7 %` for a share, else three decimals with the metric's unit."""
    if is_share(metric):
        return f"{100 * value:.1f} %"
    info = info_of(metric)
    unit = f" {info.unit}" if info is not None and info.unit else ""
    return f"{value:.3f}{unit}"


def score_words(value: float, metric: str) -> str:
    """Returns `test accuracy 83.7 %`."""
    return f"{words(metric)} {number_words(value, metric)}"


def clock_words(seconds: float) -> str:
    """Returns `1:05`, or `2:01:05` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def about_words(seconds: float) -> str:
    """Returns a time that is only roughly known, in steps that do not flicker: `20 s`, `4 min`, `1.5 h`, `3 days`."""
    if seconds < 55:
        return f"{max(10, 10 * round(seconds / 10))} s"
    if seconds < 3570:
        minutes = seconds / 60
        return f"{round(minutes) if minutes < 10 else 5 * round(minutes / 5)} min"
    hours = seconds / 3600
    if hours < 36:
        return f"{round(hours, 1) if hours < 9.75 else round(hours):g} h"
    return f"{hours / 24:.0f} days"


def left_words(least_s: float, most_s: float | None = None) -> str:
    """Returns `about 4 min`; `2 to 5 min`, `40 s to 2 min`, where it may be more; `at least 2 min` where nobody knows
    how much more."""
    if most_s is None:
        return f"about {about_words(least_s)}"
    least = about_words(least_s)
    if most_s == float("inf"):
        return f"at least {least}"
    most = about_words(most_s)
    if least == most:
        return f"about {least}"
    (number, unit), (_, other) = least.split(" "), most.split(" ")
    return f"{number if unit == other else least} to {most}"
