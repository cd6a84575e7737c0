"""The retry policy for a batch whose process died: its trials run again in ever smaller batches, until the one that
kills its process runs alone. A batch that was lost with its node runs again as it is.

A trial's numbers do not depend on its batch, so a retry costs only time.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from crowdsweep.engine.executor import Batch
from crowdsweep.record.result import OUT_OF_TIME, PROCESS_DIED, SLOT_LOST, Failure, Status, TrialResult

LOSS_LIMIT = 3
STARTING_S = 60.0
"""Seconds that a process may take to load the models and data of a batch, before its trials' time begins."""


@runtime_checkable
class Decision(Protocol):
    """Function that decides about a lost batch: returns the batches to run again, in order, and the results of trials
    that are given up.
    """

    def __call__(self, batch: Batch, *, device: str) -> tuple[list[Batch], list[TrialResult]]: ...


@dataclass(kw_only=True)
class RetryPolicy:
    """Retry policy for lost batches, with the number of times that each trial was lost while it ran alone.

    Attributes:
        trial_minutes: `budget.trial_minutes`; None for no limit.
    """

    trial_minutes: float | None = None
    _alone: Counter[str] = field(default_factory=Counter[str])
    _with_nodes: Counter[str] = field(default_factory=Counter[str])  # losses of trials in a batch, with its node
    _blameless: set[str] = field(default_factory=set[str])  # keys of trials of which some loss was no trial's fault

    def limit_s(self, n_trials: int) -> float | None:
        """Returns how many seconds a batch may run (the sum of its trials' limits); None for no limit."""
        return None if self.trial_minutes is None else 60 * self.trial_minutes * n_trials

    def saved(self, key: str) -> None:
        """Notes that a trial has written a checkpoint: its earlier losses do not count any more."""
        self._alone.pop(key, None)
        self._with_nodes.pop(key, None)
        self._blameless.discard(key)

    def after_death(
        self, batch: Batch, reason: str, *, device: str, blameless: bool = False, with_node: bool = False
    ) -> tuple[list[Batch], list[TrialResult]]:
        """Decides about a batch whose process died (`Decision`).

        A batch of several trials is halved where its size or one of them may be to blame. One that was lost with its
        node runs again as it is, until that was so `LOSS_LIMIT` times: it may be what ends the nodes. A trial that ran
        alone runs again, until it was lost `LOSS_LIMIT` times.

        Args:
            batch: the trials that had not finished.
            reason: how the process died, for the message of a failed trial.
            device: the device that they ran on, for the results of trials that are given up.
            blameless: whether the process was lost with its node or for lack of memory there: no trial's fault.
            with_node: whether it was lost with its node, so that a smaller batch would have been lost as well.
        """
        specs = batch.specs
        if len(specs) > 1:
            if with_node:
                self._with_nodes.update(spec.key for spec in specs)
                if max(self._with_nodes[spec.key] for spec in specs) < LOSS_LIMIT:
                    return [batch], []
            # Halving isolates the trial that kills its process within log2 of their number deaths, and most others run
            # together.
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
        """Decides about a batch whose node was taken back after a notice: it runs again as it is.

        No trial is to blame, so none is given up however often that happens.
        """
        return [batch], []

    def after_overrun(self, batch: Batch, *, device: str) -> tuple[list[Batch], list[TrialResult]]:
        """Decides about a batch that ran too long: its trials run again, each alone; one that ran alone is given up."""
        specs = batch.specs
        if len(specs) > 1:
            return [replace(batch, specs=[spec]) for spec in specs], []
        message = f"it ran longer than budget.trial_minutes ({self.trial_minutes:g})"
        return [], [_given_up(specs[0].key, OUT_OF_TIME, message, device)]


def _given_up(key: str, kind: str, message: str, device: str) -> TrialResult:
    failure = Failure(kind=kind, message=message)
    return TrialResult(key=key, status=Status.FAILED, device=device, failure=failure)


def tell_loss(log: logging.Logger, slot: str, lost: Batch, reason: str, again: Sequence[Batch]) -> None:
    """Warns of the loss of a slot's batch, of which `again` runs again."""
    n = len(lost.specs)
    trials = "1 unfinished trial" if n == 1 else f"{n} unfinished trials"
    log.warning("%s was lost with %s: %s%s", slot, trials, reason, "; they run again" if again else "")


def unfinished(batch: Batch, stopped: Sequence[str] | set[str]) -> Batch | None:
    """Returns a batch without the trials whose keys are in `stopped`; None where none is left."""
    specs = [spec for spec in batch.specs if spec.key not in stopped]
    return replace(batch, specs=specs) if specs else None
