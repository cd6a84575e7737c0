"""The events of a sweep: created by executors and the driver, received by the journal and other mirrors.

The journal keeps most kinds of events (`record.kinds`), one event per row. It writes `trial_finished` once per key,
before other mirrors receive the event.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from pydantic import with_config

from crowdsweep.files.typed import WHOLE_RECORD, Finite, Many, Number, Truth, Whole
from crowdsweep.record.plan_record import PlanRecord
from crowdsweep.record.result import WHERE_ANY, TrialResult
from crowdsweep.record.spec import Params, TrialSpec


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class SweepStarted:
    """A driver starts or resumes a sweep.

    Attributes:
        config: the sweep file as JSON, with defaults filled in.
        environment: versions, git commit, host, python; never a secret.
        resumed: whether the journal already contained rows.
        time: of the start, in seconds since the epoch.
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
        value: the point's value in that sweep, for the same metric.
        source: name of that sweep's record.
        further: the point's values in that sweep, for the further objectives.
    """

    point: Params
    value: Finite
    source: str
    further: Many[Finite] = field(default=(), metadata=WHERE_ANY)


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class PointsTold:
    """A search is told points of earlier sweeps before its own first point; they do not count as its points.

    Attributes:
        points: in the order in which they are told; empty if the earlier sweeps have none for it.
    """

    search: str
    points: Many[ToldPoint] = ()


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True, slots=True)
class PointProposed:
    """A search proposes a point.

    Attributes:
        search: key of the search, a hash of everything that determines its proposals.
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
    """A search is told the value of a point.

    Attributes:
        value: the mean over the search seeds; None if the point failed.
        further: means of the further objectives, in the order of the sweep file.
    """

    search: str
    number: Whole
    value: Number | None
    further: Many[Number] = field(default=(), metadata=WHERE_ANY)


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class PointsSelected:
    """A search ends and selects points, best first, which are then re-scored on new seeds."""

    search: str
    numbers: Many[Whole]


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class TrialPlanned:
    """A trial is planned; written before the trial is submitted, so that the journal has its specification.

    Attributes:
        label: the sweep file's name for the model of the trial's cell.
        search: key of the search that the trial belongs to; empty for a fixed point.
    """

    spec: TrialSpec
    label: str = ""
    search: str = ""

    @cached_property
    def with_seed(self) -> "Callable[[int], TrialPlanned]":
        """Returns the same for another seed; faster than to make it anew."""
        label, search, with_seed = self.label, self.search, self.spec.with_seeds()
        return lambda seed: TrialPlanned(spec=with_seed(seed), label=label, search=search)


@dataclass(frozen=True, kw_only=True)
class TrialStarted:
    """A slot has started a trial."""

    key: str
    slot: str


@dataclass(frozen=True, kw_only=True)
class TrialProgressed:
    """A running fit reports its progress.

    Attributes:
        step: number of epochs or EM steps so far, from 1.
        objective: value of the objective that the fit maximises.
        score: the metric of the learning curve, on dev data; None if it was not computed in this step.
    """

    key: str
    step: int
    objective: float
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrialSaved:
    """A running fit has made a checkpoint.

    Attributes:
        step: the step that the fit last reported.
        content: the checkpoint (`trial.checkpoints`), from which another slot can resume.
    """

    key: str
    step: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class TrialsNoted:
    """A message to the user about running trials: that they resumed from a checkpoint, and from which step.

    Attributes:
        words: the message, to be shown after the name of a trial.
    """

    keys: Many[str]
    words: str


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class TrialFinished:
    """A trial has finished, successfully or not."""

    result: TrialResult


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class BatchLost:
    """An actor or its node died; the unfinished trials of its batch will be run again."""

    keys: Many[str]
    reason: str
    slot: str


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class RunsCreated:
    """MLflow runs were created; their ids are kept so that a later driver finds the runs again.

    Attributes:
        tracking_uri, experiment_id: of the runs.
        runs: key of a cell or trial → run id.
    """

    tracking_uri: str
    experiment_id: str
    runs: Mapping[str, str]


class SweepStatus(StrEnum):
    """The status of a sweep."""

    NEW = "new"  # no driver has run it yet
    RUNNING = "running"  # a driver runs it, or died without writing its end
    DONE = "done"  # all its trials have been run
    INTERRUPTED = "interrupted"  # a person stopped its driver
    OUT_OF_TIME = "out_of_time"  # `budget.hours` are used up, counting all its drivers
    OVER_BUDGET = "over_budget"  # more trials failed than `budget.failed_trials` allows
    INCOMPLETE = "incomplete"  # trials were lost with their slots, or a search failed: the next run tries them again


@with_config(WHOLE_RECORD)
@dataclass(frozen=True, kw_only=True)
class SweepFinished:
    """A driver has ended.

    Attributes:
        status: of the sweep; neither `new` nor `running`.
        time: of the end, in seconds since the epoch.

    Raises:
        ValueError: the status is `new` or `running`.
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
    """A receiver of all events of a sweep, in order and from one thread.

    The journal is the record: its failure stops the sweep. A failure of any other mirror is reported once and retried,
    and never loses or delays a trial.
    """

    def handle(self, event: Event) -> None:
        """Receives one event; must return quickly."""
        ...

    def close(self) -> None:
        """Writes buffered events and closes files and connections; may be called twice."""
        ...
