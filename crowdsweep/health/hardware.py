"""The hardware: cores, memory, and the GPUs that torch sees."""

import json
import subprocess
import sys
from typing import Any

from crowdsweep import machine
from crowdsweep.errors import error_words, shortened
from crowdsweep.health.finding import Finding
from crowdsweep.paths import exists
from crowdsweep.units import show_bytes

LEAST_BYTES, ENOUGH_BYTES = 1 << 30, 3 << 30
"""Free memory: below the first, a driver and one process with torch do not fit; with the second, they and Ray do."""
_ANSWERS_S = 120.0
_DRIVER = "/proc/driver/nvidia/version"
# Runs in a process of its own: this process would keep a GPU that it has queried, and would die if torch crashed.
_LOOK = """
import json, torch
from crowdsweep.models.devices import why_unusable
cards = [torch.cuda.get_device_properties(n) for n in range(torch.cuda.device_count())]
unusable = why_unusable("cuda:0") if cards else ""
print(json.dumps([torch.__version__, [[card.name, card.total_memory] for card in cards], unusable]))
"""


def hardware() -> list[Finding]:
    """Returns the findings on cores, memory and GPUs."""
    return [_cores(), _memory(), _gpus()]


def _cores() -> Finding:
    here, all_ = machine.usable_cores(), machine.cores()
    words = f"{here} of {all_} may be used" if here < all_ else f"{here}"
    return Finding(what="cores", verdict="ok", words=f"{words}: as many batches of trials run at a time")


def _memory() -> Finding:
    free, all_ = machine.free_bytes(), machine.memory_bytes()
    if free is None:
        return Finding(what="memory", verdict="ok", words="this system does not report how much is free")
    words = f"{show_bytes(free)} free of {show_bytes(all_)}"
    if free >= ENOUGH_BYTES:
        return Finding(what="memory", verdict="ok", words=words)
    then = "end other programs, or give the container more; `--engine inline` needs the least"
    return Finding(what="memory", verdict="problem" if free < LEAST_BYTES else "note", words=words, then=then)


def _gpus() -> Finding:
    try:
        asked = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-P", "-c", _LOOK],
            capture_output=True,
            text=True,
            timeout=_ANSWERS_S,
            check=False,
        )
        answer: list[Any] = json.loads(asked.stdout.splitlines()[-1]) if asked.returncode == 0 else []
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired) as error:
        return _no_torch(error_words(error))
    if asked.returncode:
        return _no_torch((asked.stderr.strip().splitlines() or [f"it ended with code {asked.returncode}"])[-1])
    version, cards, unusable = answer
    if unusable:
        then = "install a torch for this GPU; models run on the CPU unless a sweep file sets `gpu`"
        return Finding(what="GPUs", verdict="note", words=unusable, then=then)
    if cards:
        words = ", ".join(f"{name} ({show_bytes(size)})" for name, size in cards)
        then = "with `resources: {gpu: 1}` in a sweep file, slots use them"
        return Finding(what="GPUs", verdict="ok", words=f"torch {version} sees {words}", then=then)
    words = f"torch {version} sees none, and models run on the CPU"
    if exists(_DRIVER):
        then = "this machine has NVIDIA's driver: install a torch that is built for its CUDA"
        return Finding(what="GPUs", verdict="note", words=words, then=then)
    return Finding(what="GPUs", verdict="ok", words=words)


def _no_torch(why: str) -> Finding:
    then = "models need it: `pip install --force-reinstall torch`"
    return Finding(what="torch", verdict="problem", words=f"it cannot be used: {shortened(why)}", then=then)
