"""The contract of executors, which run batches of trials on slots and return events."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from crowdsweep.record.events import Event, TrialProgressed
from crowdsweep.record.spec import TrialSpec
from crowdsweep.resources import Resources
from crowdsweep.trial.learning_curve import NO_CURVE, CurveSpec


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Trials of one point, or of several that are fitted together (`ModelInfo.varies`), on one base dataset and slot.

    Attributes:
        specs: the trials, at least one; all have the same `fingerprint` and `dataset`.
        curve_spec: which learning curve to record, and the bars of early stopping.
        resources: those that its slot must have.
        checkpoint_minutes: minutes between checkpoints of its fits; None for no checkpoints.
        saved: checkpoints that earlier slots wrote, by trial key.
    """

    specs: Sequence[TrialSpec]
    curve_spec: CurveSpec = NO_CURVE
    resources: Resources = field(default_factory=Resources)
    checkpoint_minutes: float | None = None
    saved: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)

    @property
    def dataset(self) -> str:
        """Fingerprint of the base dataset, as registered with the executor when it was made."""
        return self.specs[0].fingerprint


@runtime_checkable
class Executor(Protocol):
    """Runs batches on slots. The same spec gives the same numbers on every executor.

    An executor is made with the base datasets by fingerprint. `submit` never blocks for long; only a few more batches
    than `slots_for` returns should be in flight (the rest wait in a queue). `poll` returns exactly one `TrialFinished`
    for each trial of a submitted batch, whatever happens, unless the trial was stopped before it began.

    When an actor or node is lost, `poll` returns a `BatchLost`, and the unfinished trials run again, each from its
    latest checkpoint (`TrialSaved`), in whatever batch. Trials that are lost too often fail, with kind `SlotLost`.
    """

    def slots_for(self, resources: Resources | None = None) -> int:
        """Returns how many batches with these resources should be in flight if there were no others.

        The number changes as nodes come and go, and is 0 while there is no node. `resources` None: the sweep's.
        """
        ...

    def submit(self, batch: Batch) -> None:
        """Queues a batch.

        Raises:
            InfeasibleRequest: the batch can never run on this cluster.
        """
        ...

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """Returns the events since the last call; waits at most `timeout_s` seconds for the first."""
        ...

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        """Registers the listener, in place of an earlier one.

        It is called with each trial's progress as soon as that is known, in the thread that calls `poll`, and may call
        `stop`.
        """
        ...

    def stop(self, key: str) -> None:
        """Requests that a trial end early.

        A trial that has not begun never runs. A running trial ends at its next report, with status `stopped` and the
        numbers that it has by then. A finished trial is not changed.
        """
        ...

    def close(self) -> None:
        """Ends running batches and releases the slots; may be called twice."""
        ...


def ignore(event: TrialProgressed) -> None:
    """Does nothing: the listener of an executor until `listen` is called."""
