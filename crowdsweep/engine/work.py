"""The messages between a driver and the processes that run its models; it imports nothing of what models need.

`forkserver` says which is sent when.
"""

import os
import signal
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.record.spec import TrialSpec
from crowdsweep.trial.learning_curve import CurveSpec

BEGUN, PROGRESS, NEWS, DONE, BUG = "begun", "progress", "news", "done", "bug"
STATUS = struct.Struct("=ii")
"""A worker's process id, and the status that it ended with (`ALIVE` where it has begun): what the forkserver sends."""
ALIVE = -1


@dataclass(frozen=True, kw_only=True)
class Work:
    """One batch for a worker.

    Attributes:
        specs: the trials.
        fingerprint: of their base dataset.
        dataset: that dataset, the first time that this worker needs it.
        device: a torch device.
        curve_spec: which learning curve is kept.
        checkpoint_minutes: from one checkpoint of its fits to the next; None for none.
        saved: checkpoints that its trials go on from, by key.
        forget: fingerprints of datasets that the worker need not hold any more.
    """

    specs: Sequence[TrialSpec]
    fingerprint: str
    dataset: CrowdDataset | None
    device: str
    curve_spec: CurveSpec | None
    checkpoint_minutes: float | None = None
    saved: Mapping[str, bytes] = field(default_factory=dict[str, bytes], repr=False)
    forget: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of a function of ours that runs a model's code."""

    function: Callable[..., Any]
    arguments: Sequence[Any]


def end(process: int) -> None:
    """Kills a worker and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
