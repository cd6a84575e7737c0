"""Rows become records, or are refused: they are text, and somebody may have changed one.

What a field may hold is the type that its record declares (`files.typed`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from crowdsweep.files.typed import Many, Number, Truth, read_as
from crowdsweep.record.events import Event, SweepStarted, TrialPlanned
from crowdsweep.record.spec import digest


@dataclass(frozen=True, kw_only=True)
class _Model:
    name: str
    label: str | None = None
    params: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class _Metric:
    name: str
    goal: Literal["maximize", "minimize"]


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
        WrongValue: a value is not what its field may hold.
        ValueError: no key can be made of a trial, or the sweep file that is kept holds what none can.
    """
    event = read_as(kind, fields)
    if kind is SweepStarted:
        digest(dict(event.config))
        read_as(_Config, event.config, "config")
    if kind is TrialPlanned:
        _ = event.spec.key  # kept with it, and asked for next
    return event
