"""Conversion of events to JSON and back: one typed, versioned object per row of the journal.

A row is `{"kind": "trial_finished", "v": 2, "data": {…the record's fields…}}`; `kinds` has the table of kinds. JSON has
no NaN or infinity, so a non-finite float is written as `{"$float": "nan"}` (or `"inf"`, `"-inf"`), and restored later.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pydantic_core import from_json

from crowdsweep.errors import JournalDamaged, JournalError, shortened
from crowdsweep.record.events import Event
from crowdsweep.record.from_rows import record_of
from crowdsweep.record.kinds import BY_EVENT, BY_NAME

_NON_FINITE = ("nan", "inf", "-inf")


def encode(event: Event) -> str:
    """Returns an event as one line of JSON.

    Raises:
        TypeError: the event's kind is not journalled, or the event contains a value that JSON cannot represent.
    """
    kind = BY_EVENT.get(type(event))
    if kind is None:
        raise TypeError(f"{type(event).__name__} is not journalled")
    row = {"kind": kind.name, "v": kind.version, "data": _shallow(event)}
    try:
        return _dumps(row)
    except ValueError:  # a float that is not finite; rare, so that values are only examined in that case
        return _dumps(_spelled_out(row))


def decode(text: bytes | str) -> Event:
    """Returns the event of a row that `encode` wrote, in this version or any earlier one that `kinds` knows.

    Raises:
        JournalDamaged: the row is not one that crowdsweep writes, although its checksum matches.
        JournalError: the row has a kind or version that this crowdsweep does not know.
    """
    try:
        row = _loaded(text)
        name, version, data = row.get("kind"), row.get("v"), row.get("data")
    except (ValueError, RecursionError, AttributeError) as error:  # AttributeError: a list, number or text
        raise JournalDamaged(f"a row that is no JSON object, though its checksum agrees: {error}") from error
    kind = BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        raise JournalError(f"a row of kind {shortened(repr(name))}, which this crowdsweep does not know{_NEWER}")
    read = kind.read.get(version) if isinstance(version, int) else None
    if read is None:
        of_before = isinstance(version, int) and version < kind.version
        raise JournalError(
            f"a row of kind {name!r}, version {shortened(repr(version))}; this crowdsweep reads versions "
            f"{', '.join(map(str, kind.read))}{_OLDER if of_before else _NEWER}"
        )
    try:
        return record_of(kind.event, read(data))
    except (TypeError, KeyError, ValueError, AttributeError, IndexError, ArithmeticError) as error:
        raise JournalDamaged(
            f"a row of kind {name!r} without the fields of version {version}: {shortened(str(error), 500)}"
        ) from error


def _loaded(text: bytes | str) -> Any:
    """Returns the value of JSON text.

    Pydantic's parser takes less than half the time of Python's and shares one object among repeated strings. Python's
    parser then decides on text that pydantic's rejects, such as lone surrogates.
    """
    if isinstance(text, bytes):
        if b'"$float"' not in text:
            try:
                return from_json(text)
            except ValueError:
                pass
        text = text.decode("utf-8", "surrogatepass")
    return json.loads(text, object_hook=_non_finite if '"$float"' in text else None)


_NEWER = ". A newer crowdsweep wrote it: upgrade, then try again"
_OLDER = ". It is from before the first release: run the sweep again, into another folder"


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """Converts values that `json` does not know: its `default` function."""
    if is_dataclass(value):
        return _shallow(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in the journal: {value!r}")


def _shallow(record: Any) -> dict[str, Any]:
    named = {name: getattr(record, name) for name in _names(type(record))}
    for name in _names_where_any(type(record)):
        if not named[name]:
            del named[name]
    return named


@cache
def _names(record: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record) if field.metadata.get("journalled", True))


@cache
def _names_where_any(record: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record) if field.metadata.get("journalled") == "where any")


def _spelled_out(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": str(float(value))}
    if is_dataclass(value):
        value = _shallow(value)
    if isinstance(value, Mapping):
        return {name: _spelled_out(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled_out(item) for item in value]
    return value


def _non_finite(value: dict[str, Any]) -> Any:
    if len(value) == 1 and value.get("$float") in _NON_FINITE:
        return float(value["$float"])
    return value
