"""Conversion of events to JSON and back: one typed, versioned object per row of the journal.

A row is `{"kind": "trial_finished", "v": 2, "data": {…the record's fields…}}`; `kinds` has the table of kinds. JSON has
no NaN or infinity, so a non-finite float is written as `{"$float": "nan"}` (or `"inf"`, `"-inf"`), and restored later.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pydantic_core import from_json

from crowdsweep.errors import JournalDamaged, JournalError, shortened
from crowdsweep.record.events import Event, TrialPlanned
from crowdsweep.record.from_rows import record_of
from crowdsweep.record.kinds import BY_EVENT, BY_NAME, KINDS

_NON_FINITE, _NON_FINITE_VALUE = ("nan", "inf", "-inf"), b'"$float"'
_BEFORE_DATA = b',"data":'
_EVENTS = {f'{{"kind":"{kind.name}","v":{kind.version}'.encode(): kind.event for kind in KINDS}
"""The text before the data of a row, as `encode` writes it → the event's record."""
_WRONG = (TypeError, KeyError, ValueError, AttributeError, IndexError, ArithmeticError)


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
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    head, _, data = text.partition(_BEFORE_DATA)
    event = _EVENTS.get(head)
    if event is not None and data.endswith(b"}") and _NON_FINITE_VALUE not in data:
        try:
            return record_of(event, data[:-1])
        except _WRONG:  # it may be one that only the slower way reads, which says what is wrong otherwise
            pass
    return _decode_slowly(text)


def _decode_slowly(text: bytes) -> Event:
    """Decodes a row that has another form than `encode` gives, or values that are written otherwise; see `decode`."""
    try:
        row = _loaded(text)
        name, version, data = row.get("kind"), row.get("v"), row.get("data")
    except (ValueError, RecursionError, AttributeError) as error:  # AttributeError: a list, number or text
        raise JournalDamaged(f"a row that is no JSON object, though its checksum agrees: {error}") from error
    kind = BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None:
        raise JournalError(f"a row of kind {shortened(repr(name))}, which this crowdsweep does not know{_NEWER}")
    if not isinstance(version, int) or version != kind.version:
        of_before = isinstance(version, int) and version < kind.version
        raise JournalError(
            f"a row of kind {name!r}, version {shortened(repr(version))}; this crowdsweep reads versions "
            f"{kind.version}{_OLDER if of_before else _NEWER}"
        )
    try:
        return record_of(kind.event, data)
    except _WRONG as error:
        raise JournalDamaged(
            f"a row of kind {name!r} without the fields of version {version}: {shortened(str(error), 500)}"
        ) from error


class Decoder:
    """Decodes the rows of a journal in order, each as `decode` does.

    The trials of a cell are planned one after the other, in rows that differ in the seed alone: the first of them is
    read, and the others are made of it.
    """

    def __init__(self) -> None:
        self._same = b"", b""  # the text before and after the seed, in the row that was read
        self._planned: Callable[[int], TrialPlanned] | None = None

    def event(self, text: bytes) -> Event:
        """Returns the event of a row; raises as `decode` does."""
        if not text.startswith(_OF_A_PLAN):
            return decode(text)
        before, _, rest = text.partition(_SEED + b":")
        seed, _, after = rest.partition(b",")
        if self._planned is not None and (before, after) == self._same and _WHOLE.fullmatch(seed):
            return self._planned(int(seed))
        event = decode(text)
        if isinstance(event, TrialPlanned) and text.count(_SEED) == 1 and b"\\" not in text:  # it is the trial's seed
            self._same, self._planned = (before, after), event.with_seed
        return event


_OF_A_PLAN, _SEED = b'{"kind":"trial_planned",', b'"seed"'
_WHOLE = re.compile(rb"0|[1-9][0-9]{0,17}")


def _loaded(text: bytes) -> Any:
    """Returns the value of JSON text.

    Pydantic's parser takes less than half the time of Python's and shares one object among repeated strings. Python's
    parser then decides on text that pydantic's rejects, such as lone surrogates.
    """
    has_non_finite = _NON_FINITE_VALUE in text
    if not has_non_finite:
        try:
            return from_json(text)
        except ValueError:
            pass
    return json.loads(text.decode("utf-8", "surrogatepass"), object_hook=_non_finite if has_non_finite else None)


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
