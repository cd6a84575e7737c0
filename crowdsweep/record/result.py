"""The result of one trial: numbers, cost, or the failure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import numpy as np
from pydantic import StringConstraints

from crowdsweep.files.typed import Expected, Finite, Many, Matrix, Number, Truth, Whole
from crowdsweep.record.artifacts import Artifact

Key = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$"), Expected("the key of a trial, 16 hex digits")]
MOST_CLASSES_INLINE = 64
CROWD_CONFUSION = "crowd_confusion"
"""What a confusion matrix of more classes is called among the artifacts."""
SLOT_LOST, MISSING_PLUGIN = "SlotLost", "MissingPlugin"
INFRASTRUCTURE = frozenset({SLOT_LOST, MISSING_PLUGIN})
"""Kinds of failures that are not the trial's: it is tried again by the next run."""
OUT_OF_TIME, PROCESS_DIED, OUT_OF_MEMORY = "RanTooLong", "ProcessDied", "OutOfMemory"
PASSING = {"journalled": False}
"""Metadata of a field that rows of the journal leave out."""
WHERE_ANY = {"journalled": "where any"}
"""Metadata of a field that rows of the journal leave out where it is empty."""


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"  # fitted to its end and scored
    FAILED = "failed"  # the model raised, diverged, or gave something that is no result; `failure` says what
    STOPPED = "stopped"  # somebody decided, while it trained, that it need not go on; scored as it was then


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a trial has no numbers.

    Attributes:
        kind: the exception's class name, or `NonFiniteObjective`, `MissingMetric`; `RanTooLong` where it was ended by
            `budget.trial_minutes`, `ProcessDied` where it killed its process whenever it ran alone, `OutOfMemory` where
            it got no memory though it ran alone; and those of
            `INFRASTRUCTURE`: `SlotLost` where its node was lost, `MissingPlugin` where the node lacks its model.
        message: its text.
        traceback: as Python prints it; empty where there is none.
    """

    kind: str
    message: str
    traceback: str = ""

    @property
    def of_infrastructure(self) -> bool:
        """Whether it says nothing of the trial, which is tried again by the next run."""
        return self.kind in INFRASTRUCTURE


@dataclass(frozen=True, kw_only=True)
class StoppedEarly:
    """Why the early stopping of a search ended a fit.

    Attributes:
        step: after which it ended.
        best: its best score so far, in the metric's own units.
        bar: what that had to reach: a quantile of the scores of earlier fits.
        n_rivals: how many earlier fits that was of.
    """

    step: Whole
    best: Number
    bar: Number
    n_rivals: Whole

    def __str__(self) -> str:
        return (
            f"after step {self.step}: its best score so far, {self.best:.6g}, is worse than {self.bar:.6g}, "
            f"made of {self.n_rivals} earlier fits"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialResult:
    """The outcome of one trial; JSON-able but for `artifacts`, which somebody has to keep first.

    Attributes:
        key: of the trial's spec.
        status: how it ended; `failure` is there if and only if it failed.
        metrics: finite numbers by name; a metric that does not apply is absent.
        objective: of each step of the fit, thinned to at most 500 values.
        curve: (step, score): the learning curve, of the metric `watched` on dev data; at most 100 pairs.
        watched: name of the curve's metric; empty where there is no curve.
        confusion: [true][observed] the crowd's estimated matrix, where the model has one; of more than
            `MOST_CLASSES_INLINE` classes it is the artifact `CROWD_CONFUSION` instead.
        artifacts: arrays by name, on their way from the fit to where they are kept; not part of the record.
        kept: what the record says of them, those included that were too large to keep.
        flags: what is wrong with where the fit ended (`trial.flags`), by name.
        stopped_early: where the early stopping of its search ended it; such a result stands.
        resumed: step of the checkpoint that the fit last went on from after its slot was lost; 0 where it was not.
        iterations, converged: of the fit.
        wall_s: the trial's share of its batch's seconds.
        batch_wall_s, batch_size: of the batch that it ran in.
        peak_bytes: the highest resident memory of the process while the batch ran.
        device, host: where.
    """

    key: Key
    status: Status
    metrics: Mapping[str, Finite] = field(default_factory=dict)
    objective: Many[Number] = ()
    curve: Many[tuple[Whole, Number]] = ()
    watched: str = ""
    confusion: Matrix | None = None
    artifacts: Mapping[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False, metadata=PASSING)
    kept: Mapping[str, Artifact] = field(default_factory=dict)
    flags: Many[str] = field(default=(), metadata=WHERE_ANY)
    stopped_early: StoppedEarly | None = field(default=None, metadata=WHERE_ANY)
    resumed: Whole = field(default=0, metadata=WHERE_ANY)
    iterations: Whole = 0
    converged: Truth = True
    wall_s: Number = 0.0
    batch_wall_s: Number = 0.0
    batch_size: Whole = 1
    peak_bytes: Whole = 0
    device: str = "cpu"
    host: str = ""
    failure: Failure | None = None

    def __post_init__(self) -> None:
        if (self.status is Status.FAILED) != (self.failure is not None):
            raise ValueError(
                f"expected a failure if and only if trial {self.key} failed, got {self.status} and {self.failure}"
            )
        if self.stopped_early is not None and self.status is not Status.STOPPED:
            raise ValueError(f"expected trial {self.key} to be stopped where it was stopped early, got {self.status}")
