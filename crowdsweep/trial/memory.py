"""Memory of this process: its peak, and what happens when trials run out of it.

When memory runs out while trials are prepared, fitted or scored, the memory that they held is released, and they are
tried again in smaller batches. A trial that runs out of memory alone fails. The numbers of the others do not depend on
their batch.
"""

import gc
import resource
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from traceback import clear_frames

from crowdsweep.errors import is_out_of_memory
from crowdsweep.record.result import OUT_OF_MEMORY, Failure, Status, TrialResult
from crowdsweep.record.spec import TrialSpec
from crowdsweep.trial.model_calls import ModelFault, failure_of

Run = Callable[[list[TrialSpec]], list[TrialResult]]

_RESET = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


def reset_peak() -> None:
    """Resets the peak of resident memory (Linux); elsewhere the peak remains that of the process's whole life."""
    try:
        _RESET.write_text("5")
    except OSError:
        return


def peak_bytes() -> int:
    """Returns the peak of resident memory, in bytes, since the last `reset_peak`."""
    try:
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def of_memory(error: BaseException) -> bool:
    """Whether an error, or the cause of a `ModelFault`, means that memory ran out."""
    return is_out_of_memory(error.__cause__ if isinstance(error, ModelFault) and error.__cause__ else error)


def release_memory(error: BaseException, device: str) -> None:
    """Clears the local variables in an error's traceback, which keep a batch's tensors alive.

    Also runs the garbage collector and releases the device's cached memory. The traceback can still be printed.
    """
    known: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in known:
        known.add(id(link))
        clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    gc.collect()
    if device != "cpu":
        from crowdsweep.models import devices  # noqa: PLC0415 - torch takes seconds to import

        devices.release(device)


def out_of_memory_failure(error: BaseException) -> Failure:
    """Returns the failure of a trial that ran out of memory although it ran alone."""
    plain = failure_of(error)
    message = (
        f"it needs more memory than its slot has, though it ran alone: {plain.kind}: "
        f"{plain.message.rstrip('.')}; give its slot a machine with more memory or fewer slots beside it, or choose "
        f"smaller hyper-parameters or less data"
    )
    return replace(plain, kind=OUT_OF_MEMORY, message=message)


def within_memory(run: Run, specs: Sequence[TrialSpec], device: str) -> list[TrialResult]:
    """Runs trials; where memory runs out, runs each half of them after the other, and so on.

    The runner itself handles memory errors in a model's own code; this function is for all code around it.

    Args:
        specs: the trials, at least one.
    """
    try:
        return run(list(specs))
    except Exception as error:
        if not of_memory(error):
            raise
        release_memory(error, device)
        failure = out_of_memory_failure(error)
    if len(specs) == 1:
        return [TrialResult(key=specs[0].key, status=Status.FAILED, failure=failure)]
    half = len(specs) // 2
    return within_memory(run, specs[:half], device) + within_memory(run, specs[half:], device)
