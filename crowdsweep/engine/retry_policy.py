"""The retry policy for a batch whose process died: its trials run again, fewer at a time, until the guilty one runs
alone.

The numbers of a trial do not depend on its batch, so that nothing but time is lost.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from crowdsweep.engine.executor import Batch
from crowdsweep.record.result import OUT_OF_TIME, PROCESS_DIED, SLOT_LOST, Failure, Status, TrialResult

LOSS_LIMIT = 3
STARTING_S = 60.0
"""How long a process may take over the models and data of a batch before its trials' time begins."""


@runtime_checkable
class Decision(Protocol):
    """Says what of a lost batch is to be run again, first things first, and what is given up."""

    def __call__(self, batch: Batch, *, device: str) -> tuple[list[Batch], list[TrialResult]]: ...


@dataclass(kw_only=True)
class RetryPolicy:
    """Decides what comes of lost batches, and remembers which trials were lost alone.

    Attributes:
        trial_minutes: `budget.trial_minutes`.
    """

    trial_minutes: float | None = None
    _alone: Counter[str] = field(default_factory=Counter[str])
    _blameless: set[str] = field(default_factory=set[str])  # keys of those of whose losses one was infrastructure's

    def limit_s(self, n_trials: int) -> float | None:
        """Returns how long a batch of so many trials may run: no trial that keeps its limit is ever ended by it."""
        return None if self.trial_minutes is None else 60 * self.trial_minutes * n_trials

    def saved(self, key: str) -> None:
        """Takes that a trial has come further than its last slot: what it lost before counts no more."""
        self._alone.pop(key, None)
        self._blameless.discard(key)

    def after_death(
        self, batch: Batch, reason: str, *, blameless: bool, device: str
    ) -> tuple[list[Batch], list[TrialResult]]:
        """Returns what is to be run again, first things first, and what is given up.

        Args:
            batch: the trials that had not finished.
            reason: what is known of the death.
            device: that they ran on, for the results of trials that are given up.
            blameless: whether the process went with its node, or for want of memory on it: no trial did that.
        """
        specs = batch.specs
        if len(specs) > 1:
            middle = len(specs) // 2
            return [replace(batch, specs=half) for half in (specs[:middle], specs[middle:])], []
        key = specs[0].key
        self._alone[key] += 1
        if blameless:
            self._blameless.add(key)
        if self._alone[key] < LOSS_LIMIT:
            return [batch], []
        if key in self._blameless:
            message = f"its slot was lost {LOSS_LIMIT} times while it ran alone; the last time: {reason}"
            return [], [_given_up(key, SLOT_LOST, message, device)]
        message = f"its process died {LOSS_LIMIT} times while it ran alone; the last time: {reason}"
        return [], [_given_up(key, PROCESS_DIED, message, device)]

    def after_notice(self, batch: Batch, *, device: str) -> tuple[list[Batch], list[TrialResult]]:  # noqa: ARG002 - a `Decision`
        """Returns a batch whose node was taken back after a notice, as it is: however often that happens, no trial is
        to blame, and none is given up."""
        return [batch], []

    def after_overrun(self, batch: Batch, *, device: str) -> tuple[list[Batch], list[TrialResult]]:
        """Returns the trials of a batch that ran too long, each alone; one that ran alone is given up."""
        specs = batch.specs
        if len(specs) > 1:
            return [replace(batch, specs=[spec]) for spec in specs], []
        message = f"it ran longer than budget.trial_minutes ({self.trial_minutes:g})"
        return [], [_given_up(specs[0].key, OUT_OF_TIME, message, device)]


def _given_up(key: str, kind: str, message: str, device: str) -> TrialResult:
    failure = Failure(kind=kind, message=message)
    return TrialResult(key=key, status=Status.FAILED, device=device, failure=failure)


def unfinished(batch: Batch, stopped: Sequence[str] | set[str]) -> Batch | None:
    """Returns a batch without the trials that need not run any more; None where none is left."""
    specs = [spec for spec in batch.specs if spec.key not in stopped]
    return replace(batch, specs=specs) if specs else None
