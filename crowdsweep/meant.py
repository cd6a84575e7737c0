"""What a person meant by a value of the wrong type, for messages: `'0.1'` is 0.1, `1e3` is 1000, `90m` is 1.5 hours.

Values are never converted: whoever wrote the value is told what to write instead.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from difflib import get_close_matches
from typing import Any

_LONGEST = 200
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DURATION = re.compile(rf"({_NUMBER})\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def instead(given: Any, fits: Callable[[Any], bool], *, key: str = "", names: Sequence[str] = ()) -> str:
    """Returns `; write 0.1`, the value that was probably meant; empty where nothing that fits comes to mind.

    Args:
        given: the value as it was read.
        fits: whether a value is accepted.
        key: the key of the value; `hours` and `minutes` at its end are the unit of durations.
        names: texts that are accepted.
    """
    return next((f"; write {json.dumps(meant)}" for meant in _meanings(given, key, names) if fits(meant)), "")


def _meanings(given: Any, key: str, names: Sequence[str]) -> Iterator[Any]:
    match given:
        case str() if len(given) <= _LONGEST:
            yield from _of_text(given.strip(), key, names)
            yield [given]
        case bool() | None:
            yield from ["true", "yes", "on"] if given else ["none", "no", "off"]
        case int() | float() if abs(given) < 1e300:  # Python makes no text of a longer one
            if isinstance(given, float) and given.is_integer():
                yield int(given)
            yield from (str(given), [given])
        case date():
            yield given.isoformat()
        case [one]:
            yield one
        case _:
            return


def _of_text(text: str, key: str, names: Sequence[str]) -> Iterator[Any]:
    lower = text.lower()
    yield lower
    yield from (name for name in names if len(lower) > 1 and (name.startswith(lower) or lower.startswith(name)))
    yield from get_close_matches(lower, names, n=1)
    yield from _numbers(text)
    if duration := _DURATION.fullmatch(text):
        unit = key.rpartition("_")[2]
        in_units = float(duration[1]) * _SECONDS[duration[2][0].lower()] / {"hours": 3600, "minutes": 60}.get(unit, 1)
        yield from (_plainest(in_units), in_units) if unit in ("hours", "minutes", "s") else ()
    yield from ([True] if lower in ("true", "yes", "on") else [False] if lower in ("false", "no", "off") else [])
    parts = [part.strip() for part in text.strip("[]()").split(",")]
    yield [next(_numbers(part), part) for part in parts]


def _numbers(text: str) -> Iterator[int | float]:
    """Yields the number that a text says, in one of the ways in which people write numbers."""
    if re.fullmatch(_NUMBER, text):
        yield _plainest(float(text))
    elif re.fullmatch(r"[-+]?\d{1,3}(?:[, ]\d{3})+", text):
        yield int(re.sub("[, ]", "", text))
    elif re.fullmatch(r"[-+]?0,\d+", text):
        yield float(text.replace(",", "."))
    elif re.fullmatch(r"0o[0-7]{1,20}", text):
        yield int(text, 8)
    elif re.fullmatch(rf"{_NUMBER}\s*%", text):
        yield float(f"{float(text.rstrip('% ')) / 100:.12g}")
    elif (power := re.fullmatch(r"(\d{1,3})\s*(?:\*\*|\^)\s*(-?\d{1,3})", text)) and int(power[1]):
        try:
            yield _plainest(float(int(power[1])) ** int(power[2]))
        except OverflowError:
            return
    elif (ratio := re.fullmatch(r"(\d{1,9})\s*/\s*(\d{1,9})", text)) and int(ratio[2]):
        yield float(f"{int(ratio[1]) / int(ratio[2]):.6g}")


def _plainest(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
