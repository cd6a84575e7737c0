"""What comes out of one trial: numbers, cost, or the failure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "failed"]


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a trial has no numbers.

    Attributes:
        kind: the exception's class name, or `NonFiniteObjective`, `MissingMetric`, `SlotLost`.
        message: its text.
        traceback: as Python prints it; empty where there is none.
    """

    kind: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """The outcome of one trial; JSON-able as it stands.

    Attributes:
        key: of the trial's spec.
        status: `ok` or `failed`; `failure` is there if and only if it failed.
        metrics: finite numbers by name; a metric that does not apply is absent.
        objective: of each step of the fit, thinned to at most 500 values.
        confusion: [true][observed] the crowd's estimated matrix, where the model has one.
        iterations, converged: of the fit.
        wall_s: the trial's share of its batch's seconds.
        batch_wall_s, batch_size: of the batch that it ran in.
        peak_bytes: the highest resident memory of the process while the batch ran.
        device, host: where.
    """

    key: str
    status: Status
    metrics: Mapping[str, float] = field(default_factory=dict)
    objective: Sequence[float] = ()
    confusion: Sequence[Sequence[float]] | None = None
    iterations: int = 0
    converged: bool = True
    wall_s: float = 0.0
    batch_wall_s: float = 0.0
    batch_size: int = 1
    peak_bytes: int = 0
    device: str = "cpu"
    host: str = ""
    failure: Failure | None = None

    def __post_init__(self) -> None:
        if (self.status == "failed") != (self.failure is not None):
            raise ValueError(f"trial {self.key}: status {self.status!r} and failure {self.failure!r} disagree")
