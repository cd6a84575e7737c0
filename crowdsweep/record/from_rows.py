"""Validation of the journal's rows, which somebody may have edited, and their conversion to event records.

Each field must have the type that its record declares (`files.typed`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from crowdsweep.files.typed import Many, Number, Truth, read_as, read_json_as
from crowdsweep.record.events import Event, SweepStarted, TrialFinished, TrialPlanned
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
class _Sampler:
    kind: str = ""
    seed: Number = 0


@dataclass(frozen=True, kw_only=True)
class _EarlyStop:
    kind: str = ""
    quantile: Number = 0.5


@dataclass(frozen=True, kw_only=True)
class _Config:
    """The validated part of the sweep file in a journal; other keys may have any value."""

    metric: _Metric | None = None
    study: _Study | None = None
    published: _Published | None = None
    models: Many[_Model] = ()
    budget: Mapping[str, Number | None] | None = None
    tracking: Mapping[str, str | Truth | None] | None = None
    seeds: Mapping[str, Number] = field(default_factory=dict[str, Number])
    heldout: Mapping[str, Number] = field(default_factory=dict[str, Number])
    sampler: _Sampler = _Sampler()
    early_stop: _EarlyStop = _EarlyStop()
    protocol: str | None = None


def record_of(kind: type[Any], fields: Any) -> Event:
    """Returns the event of a row.

    Args:
        kind: the record class of the event.
        fields: of the record, as parsed from JSON, or as JSON text.

    Raises:
        WrongValue: a value does not have the type of its field; of text, any `ValueError`.
        ValueError: the key of a trial cannot be computed, or the sweep file has a value that no sweep file can have.
    """
    event = read_json_as(kind, fields) if isinstance(fields, bytes) else read_as(kind, fields)
    if kind is TrialFinished:
        if "below_vote" in event.result.flags:  # earlier versions set it without evidence
            kept = tuple(flag for flag in event.result.flags if flag != "below_vote")
            return TrialFinished(result=replace(event.result, flags=kept))
    elif kind is TrialPlanned:
        _ = event.with_seed  # makes the key as well, which is needed next
    elif kind is SweepStarted:
        digest(dict(event.config))
        read_as(_Config, event.config, "config")
    return event
