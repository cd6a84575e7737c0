"""Formats amounts for people: times, sizes, factors, p values, lists of names. Nothing here depends on a metric."""

from datetime import datetime


def show_seconds(seconds: float | None) -> str:
    """Returns a duration in a readable unit: `< 1 ms`, `12 ms`, `3.4 s`, `12 min`, `2.5 h`; empty for None."""
    if seconds is None:
        return ""
    if seconds < 0.001:
        return "< 1 ms"
    for limit, size, unit in ((0.9995, 0.001, "ms"), (99.5, 1.0, "s"), (5970.0, 60.0, "min")):
        if seconds < limit:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds / 3600)} h"


def clock_words(seconds: float) -> str:
    """Returns a duration as `1:05`, or as `2:01:05` from an hour on."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def about_words(seconds: float) -> str:
    """Returns a rough duration, rounded so coarsely that it rarely changes: `20 s`, `4 min`, `1.5 h`, `3 days`."""
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
    """Returns the remaining time: `about 4 min`, a range (`2 to 5 min`, `40 s to 2 min`), or `at least 2 min`.

    Args:
        least_s: shortest estimate in seconds.
        most_s: longest estimate in seconds; None if it is the same, infinity if it is unknown.
    """
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


def rough_words(seconds: float) -> str:
    """Returns an estimated duration, at least `1 s`: `45 s`, `12 min`, `1.6 h`."""
    if seconds < 1:
        return "1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def when_words(when: str, now: datetime) -> str:
    """Returns how long ago a time was, or its local date from ten days on.

    Args:
        when: ISO 8601, UTC.
        now: UTC.
    """
    then = datetime.fromisoformat(when)
    seconds = max(0.0, (now - then).total_seconds())
    for most, size, name in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h"), (864_000, 86_400, "days")):
        if seconds < most:
            return f"{round(seconds / size)} {name} ago"
    return then.astimezone().strftime("%Y-%m-%d")


def show_bytes(size: int | None) -> str:
    """Returns a number of bytes in MiB or GiB; empty for None."""
    if size is None:
        return ""
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def show_file_size(size: int) -> str:
    """Returns a file size in decimal units: `312 bytes`, `40 kB`, `2.6 MB`."""
    for limit, unit, name in ((999.5, 1, "bytes"), (999.5e3, 1000, "kB"), (999.5e6, 1000**2, "MB")):
        if size < limit:
            return f"{size} {name}" if unit == 1 else f"{_two_digits(size / unit)} {name}"
    return f"{_two_digits(size / 1000**3)} GB"


def show_times(factor: float) -> str:
    """Returns a factor as `2.4 times`, `18 times`, `1,800 times`."""
    if factor >= 100:
        factor = float(f"{factor:.2g}")
    return f"{_two_digits(factor)} times"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural unless the number is 1: `1 item`, `1,200 items`, `2 classes`."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def show_p(p: float | None) -> str:
    """Returns a p value as `= 0.034` or `< 0.001`; empty for None."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def listed(names: list[str], most: int = 4) -> str:
    """Returns `a, b and c`; for more than `most` names, the first `most` - 1 and the number of others."""
    if len(names) > most:
        shown = names[: most - 1]
        return f"{', '.join(shown)} and {len(names) - len(shown)} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"
