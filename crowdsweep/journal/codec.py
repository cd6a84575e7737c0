"""Events as JSON text and back: one typed, versioned object for each row of the journal.

A row is `{"kind": "trial_finished", "v": 1, "data": {…the record's fields…}}`. JSON has no NaN or infinity, so a
non-finite float is written as `{"$float": "nan"}` (or `"inf"`, `"-inf"`) and comes back as it was.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from crowdsweep.errors import JournalError
from crowdsweep.trial.events import (
    BatchLost,
    Event,
    PointProposed,
    PointScored,
    PointsSelected,
    RunsCreated,
    SweepFinished,
    SweepStarted,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
)
from crowdsweep.trial.result import Failure, Status, TrialResult
from crowdsweep.trial.spec import TrialSpec

ROW_VERSION = 1
"""Raised when a reader of today would misread the rows of tomorrow."""

_NON_FINITE = ("nan", "inf", "-inf")


def encode(event: Event) -> str:
    """Returns an event as one line of JSON.

    Raises:
        TypeError: the event is not of a kind that is journalled, or holds what JSON cannot.
    """
    kind = JOURNALLED.get(type(event))
    if kind is None:
        raise TypeError(f"{type(event).__name__} is not journalled")
    row = {"kind": kind, "v": ROW_VERSION, "data": _shallow(event)}
    try:
        return _dumps(row)
    except ValueError:  # a float that is not finite: rare, so that only then every value is looked at
        return _dumps(_spelled_out(row))


def decode(text: str | bytes) -> Event:
    """Returns the event of a row that `encode` wrote.

    Raises:
        JournalError: the row is of a kind or version that this crowdsweep does not know, or is not a row.
    """
    row = json.loads(text, object_hook=_non_finite)
    kind, version, data = row.get("kind"), row.get("v"), row.get("data")
    decoder = _DECODERS.get(kind)
    if decoder is None or version != ROW_VERSION:
        raise JournalError(
            f"a row of kind {kind!r}, version {version!r}; this crowdsweep reads version {ROW_VERSION} of "
            f"{', '.join(sorted(_DECODERS))}. A newer crowdsweep wrote it: upgrade, then try again"
        )
    try:
        return decoder(data)
    except (TypeError, KeyError, ValueError) as error:
        raise JournalError(f"a row of kind {kind!r} without the fields of version {version}: {error}") from error


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """What `json` asks about values that it does not know."""
    if is_dataclass(value):
        return _shallow(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in the journal: {value!r}")


def _shallow(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


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


def _result(data: Mapping[str, Any]) -> TrialResult:
    values = dict(data)
    values["status"] = Status(values["status"])
    values["objective"] = tuple(values["objective"])
    values["curve"] = tuple((step, score) for step, score in values.get("curve", ()))
    if values["confusion"] is not None:
        values["confusion"] = tuple(tuple(row) for row in values["confusion"])
    if values["failure"] is not None:
        values["failure"] = Failure(**values["failure"])
    return TrialResult(**values)


def _with_tuple(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {**data, name: tuple(data[name])}


_DECODERS: Mapping[str, Callable[[Any], Event]] = {
    "sweep_started": lambda data: SweepStarted(**data),
    "point_proposed": lambda data: PointProposed(**data),
    "point_scored": lambda data: PointScored(**data),
    "points_selected": lambda data: PointsSelected(**_with_tuple(data, "numbers")),
    "trial_planned": lambda data: TrialPlanned(spec=TrialSpec(**data["spec"])),
    "trial_finished": lambda data: TrialFinished(result=_result(data["result"])),
    "batch_lost": lambda data: BatchLost(**_with_tuple(data, "keys")),
    "runs_created": lambda data: RunsCreated(**data),
    "sweep_finished": lambda data: SweepFinished(status=SweepStatus(data["status"]), time=data["time"]),
}

JOURNALLED: Mapping[type, str] = {
    SweepStarted: "sweep_started",
    PointProposed: "point_proposed",
    PointScored: "point_scored",
    PointsSelected: "points_selected",
    TrialPlanned: "trial_planned",
    TrialFinished: "trial_finished",
    BatchLost: "batch_lost",
    RunsCreated: "runs_created",
    SweepFinished: "sweep_finished",
}
"""Kinds of events that the journal keeps; progress is not among them."""
