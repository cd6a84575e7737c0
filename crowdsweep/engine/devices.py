"""The torch device of a slot, and whether the processes that run models can use it."""

from crowdsweep.engine.worker import Forkserver, WorkerDied
from crowdsweep.errors import InfeasibleRequest
from crowdsweep.resources import Resources

CPU_DEVICE = "cpu"
GPU_DEVICE = "cuda:0"  # Ray shows a slot its own GPU as the first one
_ANSWERS_S = 120.0  # importing torch and waking a sleeping GPU take long


def device_of(resources: Resources) -> str:
    """Returns the torch device of a slot: its GPU where it asks for one, else the CPU."""
    return GPU_DEVICE if resources.gpu > 0 else CPU_DEVICE


def why_unusable(device: str, forkserver: Forkserver) -> str:
    """Returns why a worker process cannot use a device; empty where it can.

    The check runs in a worker, not in this process: processes forked from one that has initialised CUDA cannot use it.
    """
    if device == CPU_DEVICE:
        return ""
    try:
        return forkserver.call(_looked_at, device, timeout_s=_ANSWERS_S)
    except WorkerDied as death:
        return f"the process that looked at {device} died: {death}"
    except TimeoutError:
        return f"{device} did not answer within {_ANSWERS_S:g} s"


def usable_device(resources: Resources, forkserver: Forkserver) -> str:
    """Returns the torch device of a slot on this machine; the CPU where the slot only prefers a GPU that is unusable.

    Raises:
        InfeasibleRequest: the slot needs a GPU (`gpu_needed`), which cannot be used.
    """
    device = device_of(resources)
    reason = why_unusable(device, forkserver)
    if reason and resources.gpu_needed:
        raise InfeasibleRequest(refusal(device, reason, "this machine"))
    return CPU_DEVICE if reason else device


def refusal(device: str, reason: str, where: str) -> str:
    """Returns the error message for a slot whose device cannot be used."""
    return (
        f"resources: expected a slot that computes on {device}, as `gpu` above 0 asks, and on {where} none can: "
        f"{reason}; install a torch for its GPU there, or leave `gpu` out (models then run on the CPU)"
    )


def _looked_at(device: str) -> str:
    from crowdsweep.models import devices  # noqa: PLC0415 - torch takes seconds to import, and only this check needs it

    return devices.why_unusable(device)
