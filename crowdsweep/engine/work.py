"""The messages between a driver and its workers; this module imports no library that models need.

`forkserver` says when each is sent.
"""

import os
import signal
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.executor import Batch

BEGUN, PROGRESS, NEWS, DONE, BUG = "begun", "progress", "news", "done", "bug"
STATUS = struct.Struct("=ii")
"""What the forkserver sends: a worker's process id, and its exit status (`ALIVE` when it has just begun)."""
ALIVE = -1


@dataclass(frozen=True, kw_only=True)
class Work:
    """Message with one batch for a worker.

    Attributes:
        batch: the batch, with the checkpoints that its trials continue from.
        dataset: its base dataset; None where the worker holds it already.
        device: a torch device.
        forget: fingerprints of datasets that the worker is to drop.
    """

    batch: Batch
    dataset: CrowdDataset | None
    device: str
    forget: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Call:
    """Message that has a worker call a function of crowdsweep which runs a model's code."""

    function: Callable[..., Any]
    arguments: Sequence[Any]


def end(process: int) -> None:
    """Kills a worker and the processes that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
