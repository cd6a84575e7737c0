"""The device of a slot: which one it is, and whether the processes that run its models can use it."""

import time

from crowdsweep.engine.work import BUG, DONE, Call
from crowdsweep.engine.worker import Forkserver, WorkerDied, bug_of
from crowdsweep.errors import InfeasibleRequest
from crowdsweep.sweepfile.records import Resources

CPU_DEVICE = "cpu"
GPU_DEVICE = "cuda:0"  # Ray shows a slot its own GPU as the first one
_ANSWERS_S = 120.0  # torch is imported, and a GPU that sleeps is woken


def device_of(resources: Resources) -> str:
    """Returns the torch device of a slot: the GPU that it asks for, else the CPU."""
    return GPU_DEVICE if resources.gpu > 0 else CPU_DEVICE


def why_unusable(device: str, forkserver: Forkserver) -> str:
    """Asks a process of those that run models why it cannot use a device; empty where it can.

    This process is not asked: one that has looked at its GPUs cannot hand them on to those that it forks.
    """
    if device == CPU_DEVICE:
        return ""
    until = time.monotonic() + _ANSWERS_S
    try:
        forkserver.worker().send(Call(function=_looked_at, arguments=(device,)))
        while (left_s := until - time.monotonic()) > 0:
            match forkserver.receive(left_s):
                case (str() as kind, str() as answer) if kind == DONE:
                    return answer
                case (str() as kind, (text, trace)) if kind == BUG:
                    raise bug_of(text, trace)
                case _:
                    pass
    except WorkerDied as death:
        return f"the process that looked at {device} died: {death}"
    forkserver.kill_worker()
    return f"{device} did not answer within {_ANSWERS_S:g} s"


def usable_device(resources: Resources, forkserver: Forkserver) -> str:
    """Returns the torch device of a slot on this machine: the CPU too where the GPU that it prefers cannot be used.

    Raises:
        InfeasibleRequest: it needs a GPU that cannot be used.
    """
    device = device_of(resources)
    reason = why_unusable(device, forkserver)
    if reason and resources.gpu_needed:
        raise InfeasibleRequest(refusal(device, reason, "this machine"))
    return CPU_DEVICE if reason else device


def refusal(device: str, reason: str, where: str) -> str:
    """Returns what a sweep is refused with whose slots have a device that cannot be used.

    Args:
        device: of a slot.
        reason: why not.
        where: the machine.
    """
    return (
        f"resources: expected a slot that computes on {device}, as `gpu` above 0 asks, and on {where} none can: "
        f"{reason}; install a torch for its GPU there, or leave `gpu` out (models then run on the CPU)"
    )


def _looked_at(device: str) -> str:
    from crowdsweep.models import devices  # noqa: PLC0415 - torch takes seconds to import, and only here it is needed

    return devices.why_unusable(device)
