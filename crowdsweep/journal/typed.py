"""Rows become records, or are refused: they are text, and somebody may have changed one.

What a field may hold is the type that its record declares (`trial.values`); pydantic compares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from crowdsweep.errors import shortened
from crowdsweep.search.contract import Goal
from crowdsweep.trial.events import Event, SweepStarted, TrialPlanned
from crowdsweep.trial.spec import digest
from crowdsweep.trial.values import Many, Number, Truth


@dataclass(frozen=True, kw_only=True)
class _Model:
    name: str
    label: str | None = None
    params: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class _Metric:
    name: str
    goal: Goal


@dataclass(frozen=True, kw_only=True)
class _Study:
    template: str


@dataclass(frozen=True, kw_only=True)
class _Value:
    model: str
    dataset: str
    metric: str
    value: Number


@dataclass(frozen=True, kw_only=True)
class _Published:
    table: str = ""
    values: Many[_Value] = ()


@dataclass(frozen=True, kw_only=True)
class _Config:
    """What is read of a sweep file that a journal keeps; the rest of it may be anything."""

    metric: _Metric | None = None
    study: _Study | None = None
    published: _Published | None = None
    models: Many[_Model] = ()
    budget: Mapping[str, Number | None] | None = None
    tracking: Mapping[str, str | Truth | None] | None = None


def record_of(kind: type[Any], fields: Any) -> Event:
    """Returns the event that a row tells of.

    Args:
        kind: its record.
        fields: of that record, as JSON gives them back.

    Raises:
        TypeError: a value is not what its field may hold; the message names the field.
        ValueError: no key can be made of a trial, or the sweep file that is kept holds what none can.
    """
    event: Event = _validated(kind, fields)
    if isinstance(event, SweepStarted):
        digest(dict(event.config))
        _validated(_Config, event.config, "config")
    if isinstance(event, TrialPlanned):
        _ = event.spec.key  # kept with it, and asked for next
    return event


def _validated(record: Any, given: Any, *above: str) -> Any:
    try:
        return _adapter(record).validate_python(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False)
    first, place, got = wrong[0], wrong[0]["loc"], wrong[0]["input"]
    ways = [one for one in wrong if one["type"] in _EXPECTED and one["loc"][:-1] == place[:-1] and one["input"] is got]
    if len(ways) > 1:  # the field may be of several types, each of which has its say
        place = place[:-1]
    field = f"field {'.'.join(map(str, [*above, *place]))!r}"
    if first["type"] in _ALONE:
        raise TypeError(f"{field} {_ALONE[first['type']]}")
    if ways:
        expected = "expected " + " or ".join(_EXPECTED[one["type"]] for one in ways)
    else:
        expected = first["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    raise TypeError(f"{field}: {expected}; got {shortened(repr(got))}")


_ALONE = {"missing": "is missing", "unexpected_keyword_argument": "is not one of this record"}
_EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "less_than": "a whole number of 64 bits",
    "greater_than_equal": "a whole number of 64 bits",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping",
}
"""In the words of other messages, by pydantic's name of what is wrong."""


@cache
def _adapter(hint: Any) -> Any:  # beartype refuses the hint TypeAdapter[Any]
    return TypeAdapter(hint)
