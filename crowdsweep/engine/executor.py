"""The contract of executors, which run batches: a number of slots, and events that come back."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from crowdsweep.record.events import Event, TrialProgressed
from crowdsweep.record.spec import TrialSpec
from crowdsweep.sweepfile.records import Resources
from crowdsweep.trial.learning_curve import CurveSpec


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Trials of one cell (or of cells of one shape) on one base dataset, run together on one slot.

    Attributes:
        specs: at least one; their `fingerprint` and `dataset` agree.
        dataset: which base dataset: its fingerprint, as registered with the executor when it was made.
        curve_spec: which learning curve is kept; None for nothing.
        resources: of the slot that it runs on; None for the sweep's.
        checkpoint_minutes: from one checkpoint of its fits to the next; None for none.
        saved: checkpoints that earlier slots wrote, by key of the trial.
    """

    specs: Sequence[TrialSpec]
    dataset: str
    curve_spec: CurveSpec | None = None
    resources: Resources | None = None
    checkpoint_minutes: float | None = None
    saved: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)


@runtime_checkable
class Executor(Protocol):
    """Runs batches on slots. Same spec, same numbers, whichever executor.

    Constructed with the base datasets by fingerprint. `submit` never blocks for long; little more batches than
    `slots_for` says should be in flight (more are queued). For each trial of a submitted batch exactly one
    `TrialFinished` comes out of `poll`, whatever happens, unless it was stopped before it began. A lost actor or node
    gives a `BatchLost` and the unfinished trials are run again, up to a limit, then fail with kind `SlotLost`: from the
    latest checkpoint of each (`TrialSaved`), whatever batch they are in then.
    """

    def slots_for(self, resources: Resources | None = None) -> int:
        """Returns how many batches that ask for these resources (None: the sweep's) should be in flight at once, were
        there no others. It changes as nodes come and go, and is 0 while none is there."""
        ...

    def submit(self, batch: Batch) -> None:
        """Takes a batch.

        Raises:
            InfeasibleRequest: it can never run on this cluster.
        """
        ...

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """Returns what has happened since the last call, waiting at most `timeout_s` for the first event."""
        ...

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        """Calls the listener with each trial's progress as soon as it is known, in the thread that calls `poll`; it may
        call `stop`. A later listener takes the place of an earlier one.
        """
        ...

    def stop(self, key: str) -> None:
        """Asks that a trial end early. One that has not begun never runs; one that runs ends at its next report, with
        status `stopped` and the numbers that it has by then; one that has finished is left alone."""
        ...

    def close(self) -> None:
        """Stops what runs and lets go of the slots; may be called twice."""
        ...


def ignore(event: TrialProgressed) -> None:
    """The listener of an executor that nobody listens to."""
