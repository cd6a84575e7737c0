"""The events of a sweep, as records: executors and the driver make them, the journal and its mirrors take them.

The journal keeps most of them (`record.kinds`); a row of it is one event. `trial_finished` is written
once for each key, before anybody else is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from pydantic import with_config

from crowdsweep.files.typed import WHOLE_RECORD, Finite, Many, Number, Truth, Whole
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.result import WHERE_ANY, TrialResult
from crowdsweep.record.spec import Params, TrialSpec


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class SweepStarted:
    """A driver begins or goes on.

    Attributes:
        name: of the sweep.
        config: the sweep file as JSON, defaults filled in.
        plan: what it asks for.
        environment: versions, git commit, host, python; never a secret.
        resumed: whether the journal already held something.
    """

    name: str
    config: Mapping[str, Any]
    plan: PlanRecord
    environment: Mapping[str, str]
    resumed: Truth
    time: Number


@dataclass(frozen=True, kw_only=True)
class ToldPoint:
    """A point that an earlier sweep tried.

    Attributes:
        point: the searched parameters.
        value: what it was worth there, of the same metric.
        source: what the record of that sweep is called.
        further: its values there of the further objectives.
    """

    point: Params
    value: Finite
    source: str
    further: Many[Finite] = field(default=(), metadata=WHERE_ANY)


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class PointsTold:
    """A search is told of points before its first: none of them is its own, and none is counted.

    Attributes:
        search: its key.
        points: in the order in which they are told; none where the earlier sweeps have nothing for it.
    """

    search: str
    points: Many[ToldPoint] = ()


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True, slots=True)
class PointProposed:
    """A search asks for a point to be tried.

    Attributes:
        search: its key, a hash of all that decides what it proposes.
        number: 0, 1, … within the search.
        point: the searched parameters, as drawn.
        model, dataset, dataset_params: for display.
    """

    search: str
    number: Whole
    point: Params
    model: str
    dataset: str
    dataset_params: Params = field(default_factory=dict)


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class PointScored:
    """A search is told what a point is worth: the mean over its search seeds, or None where it failed.

    Attributes:
        further: means of the further objectives, in the order of the sweep file.
    """

    search: str
    number: Whole
    value: Number | None
    further: Many[Number] = field(default=(), metadata=WHERE_ANY)


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class PointsSelected:
    """A search ends: these points, best first, are re-scored on fresh seeds."""

    search: str
    numbers: Many[Whole]


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class TrialPlanned:
    """A trial is asked for; written before it is submitted, so that whoever reads the journal knows what it is.

    Attributes:
        label: what the sweep file calls the model of its cell.
        search: key of the search that it belongs to; empty where the point is fixed.
    """

    spec: TrialSpec
    label: str = ""
    search: str = ""


@dataclass(frozen=True, kw_only=True)
class TrialStarted:
    """A slot began on a trial."""

    key: str
    slot: str


@dataclass(frozen=True, kw_only=True)
class TrialProgressed:
    """A fit reports while it goes on.

    Attributes:
        step: epochs or EM steps made so far, from 1.
        objective: what the fit pushes up.
        score: the metric of the learning curve, on dev data; None where it was not looked at in this step.
    """

    key: str
    step: int
    objective: float
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrialSaved:
    """A fit that goes on has written down how far it is.

    Attributes:
        step: that it last reported.
        content: the checkpoint (`trial.checkpoints`), from which another slot goes on.
    """

    key: str
    step: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class TrialsNoted:
    """Something of trials that run which a person should know: that they go on from a checkpoint, and from which step.

    Attributes:
        words: behind the name of a trial.
    """

    keys: Many[str]
    words: str


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class TrialFinished:
    """A trial is done, well or not."""

    result: TrialResult


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class BatchLost:
    """An actor or its node died; the trials that had not finished will be run again."""

    keys: Many[str]
    reason: str
    slot: str


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class RunsCreated:
    """MLflow run ids, so that a later driver finds them again.

    Attributes:
        tracking_uri, experiment_id: where the runs live.
        runs: key of a cell or trial → run id.
    """

    tracking_uri: str
    experiment_id: str
    runs: Mapping[str, str]


class SweepStatus(StrEnum):
    """How far a sweep is."""

    NEW = "new"  # no driver has worked on it yet
    RUNNING = "running"  # a driver works on it, or died without a word
    DONE = "done"  # everything that it asks for has been run
    INTERRUPTED = "interrupted"  # a person stopped its driver
    OUT_OF_TIME = "out_of_time"  # `budget.hours` are used up, counting all its drivers
    OVER_BUDGET = "over_budget"  # more trials failed than `budget.failed_trials` allows
    INCOMPLETE = "incomplete"  # trials were lost with their slots, or a search failed: the next run tries them again


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class SweepFinished:
    """A driver ends.

    Attributes:
        status: neither `new` nor `running`.
    """

    status: SweepStatus
    time: Number

    def __post_init__(self) -> None:
        if self.status in (SweepStatus.NEW, SweepStatus.RUNNING):
            raise ValueError(f"expected how a driver ended, got {self.status}")


Event = (
    SweepStarted
    | PointsTold
    | PointProposed
    | PointScored
    | PointsSelected
    | TrialPlanned
    | TrialStarted
    | TrialProgressed
    | TrialSaved
    | TrialsNoted
    | TrialFinished
    | BatchLost
    | RunsCreated
    | SweepFinished
)


@runtime_checkable
class Mirror(Protocol):
    """Hears of everything that happens, in order, from one thread.

    The journal is the record: its failure stops the sweep. A mirror's failure is reported once, retried, and never
    loses or delays a trial.
    """

    def handle(self, event: Event) -> None:
        """Takes one event; returns soon."""
        ...

    def close(self) -> None:
        """Writes what is still buffered and lets go of files and connections; may be called twice."""
        ...
