"""The result of one trial: its metrics and costs, or its failure."""

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
"""Name of the artifact with a confusion matrix of more than `MOST_CLASSES_INLINE` classes."""
SLOT_LOST, MISSING_PLUGIN = "SlotLost", "MissingPlugin"
INFRASTRUCTURE = frozenset({SLOT_LOST, MISSING_PLUGIN})
"""Kinds of failures that the trial did not cause; the next run tries the trial again."""
OUT_OF_TIME, PROCESS_DIED, OUT_OF_MEMORY = "RanTooLong", "ProcessDied", "OutOfMemory"
PASSING = {"journalled": False}
"""Metadata of a field that is never written to the journal."""
WHERE_ANY = {"journalled": "where any"}
"""Metadata of a field that is written to the journal only if it is not empty."""


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"  # fitted to its end and scored
    FAILED = "failed"  # the model raised, diverged, or returned no valid result; `failure` says why
    STOPPED = "stopped"  # ended by a decision during training, for example early stopping; scored as it was then


@dataclass(frozen=True, kw_only=True)
class Failure:
    """The reason why a trial has no metrics.

    Attributes:
        kind: the exception's class name, or `NonFiniteObjective`, `MissingMetric`; `RanTooLong` if
            `budget.trial_minutes` ended the trial, `ProcessDied` if it killed its process whenever it ran alone,
            `OutOfMemory` if it got no memory although it ran alone; and those of `INFRASTRUCTURE`: `SlotLost` if its
            node was lost, `MissingPlugin` if the node lacks its model.
        traceback: as Python prints it; empty if there is none.
    """

    kind: str
    message: str
    traceback: str = ""

    @property
    def of_infrastructure(self) -> bool:
        """Whether the failure was not the trial's fault, so that the next run tries the trial again."""
        return self.kind in INFRASTRUCTURE


@dataclass(frozen=True, kw_only=True)
class StoppedEarly:
    """The reason why the early stopping of a search ended a fit.

    Attributes:
        step: the step after which the fit ended.
        best: the fit's best score so far, in the metric's own units.
        bar: the score that it had to reach: a quantile of the scores of earlier fits.
        n_rivals: number of these earlier fits.
    """

    step: Whole
    best: Number
    bar: Number
    n_rivals: Whole

    def __str__(self) -> str:
        return (
            f"after step {self.step}: its best score so far, {self.best:.6g}, is worse than {self.bar:.6g}, "
            f"taken from {self.n_rivals} earlier fits"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialResult:
    """The outcome of one trial; JSON-able except for `artifacts`, which must be written to files first.

    Attributes:
        key: of the trial's spec.
        status: how the trial ended; `failure` is set if and only if it failed.
        metrics: finite numbers by name; a metric that does not apply is absent.
        objective: value after each step of the fit, thinned to at most 500 values.
        curve: the learning curve as (step, score) pairs, of the metric `watched` on dev data; at most 100 pairs.
        watched: name of the curve's metric; empty if there is no curve.
        confusion: [true][observed] the crowd's estimated confusion matrix, if the model has one; with more than
            `MOST_CLASSES_INLINE` classes it is the artifact `CROWD_CONFUSION` instead.
        artifacts: arrays by name, from the fit until they are written to files; not part of the record.
        kept: records of the artifacts by name, including those that were too large to keep.
        flags: names of possible faults of the fit (`trial.flags`).
        stopped_early: set if the early stopping of the trial's search ended the fit; such a result is final.
        resumed: step of the checkpoint from which the fit last resumed after its slot was lost; 0 if it did not.
        wall_s: the trial's share of its batch's seconds.
        batch_wall_s, batch_size: of the batch that the trial ran in.
        peak_bytes: peak resident memory of the process during the batch.
        device, host: where the trial ran.

    Raises:
        ValueError: `status` contradicts `failure` or `stopped_early`.
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
