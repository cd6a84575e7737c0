"""What runs batches: a number of slots, and events that come back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from crowdsweep.trial.events import Event
from crowdsweep.trial.spec import TrialSpec


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Trials of one cell (or of cells of one shape) on one base dataset, run together on one slot.

    Attributes:
        specs: at least one; their `fingerprint` and `dataset` agree.
        dataset: which base dataset: its fingerprint, as registered with the executor when it was made.
    """

    specs: Sequence[TrialSpec]
    dataset: str


@runtime_checkable
class Executor(Protocol):
    """Runs batches on slots. Same spec, same numbers, whichever executor.

    Constructed with the base datasets by fingerprint. `submit` never blocks for long; at most `slots` batches should
    be in flight (more are queued). For each trial of a submitted batch exactly one `TrialFinished` comes out of
    `poll`, whatever happens, unless it was stopped. A lost actor or node gives a `BatchLost` and the unfinished trials
    are run again, up to a limit, then fail with kind `SlotLost`.
    """

    @property
    def slots(self) -> int:
        """How many batches can run at once."""
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

    def stop(self, key: str) -> None:
        """Asks that a trial end early; one that has finished is left alone."""
        ...

    def close(self) -> None:
        """Stops what runs and lets go of the slots; may be called twice."""
        ...
