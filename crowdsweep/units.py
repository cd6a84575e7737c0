"""Amounts as people say them: times, sizes, factors, p values, lists of names. All that knows no metric."""

from datetime import datetime


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


def rough_words(seconds: float) -> str:
    """Returns an estimate: `1 s` at least, `45 s`, `12 min`, `1.6 h`."""
    if seconds < 1:
        return "1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def when_words(when: str, now: datetime) -> str:
    """Returns how long ago a time was, or its date where that was long ago.

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
    """Returns bytes as MiB, or GiB."""
    if size is None:
        return ""
    return f"{size / 2**20:,.0f} MiB" if size < 2**30 else f"{size / 2**30:.1f} GiB"


def show_file_size(size: int) -> str:
    """Returns the size of a file as listings of files say it: `312 bytes`, `40 kB`, `2.6 MB`."""
    for limit, unit, name in ((999.5, 1, "bytes"), (999.5e3, 1000, "kB"), (999.5e6, 1000**2, "MB")):
        if size < limit:
            return f"{size} {name}" if unit == 1 else f"{_two_digits(size / unit)} {name}"
    return f"{_two_digits(size / 1000**3)} GB"


def show_times(factor: float) -> str:
    """Returns `2.4 times`, `18 times`, `1,800 times`."""
    if factor >= 100:
        factor = float(f"{factor:.2g}")
    return f"{_two_digits(factor)} times"


def counted(number: int, noun: str) -> str:
    """Returns `1 item`, `1,200 items`, `2 classes`."""
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def show_p(p: float | None) -> str:
    """Returns `= 0.034` or `< 0.001`."""
    if p is None:
        return ""
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def listed(names: list[str], most: int = 4) -> str:
    """Returns `a, b and c`; of more than `most` names the first ones and how many others there are."""
    if len(names) > most:
        shown = names[: most - 1]
        return f"{', '.join(shown)} and {len(names) - len(shown)} others"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"
