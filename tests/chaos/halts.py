"""Processes that stand still for a while, and clocks that are wrong or jump."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from chaos.faults import Strike, fault, rows_in_words
from chaos.sandbox import Command, Sandbox

LONGEST_S = 4.0
LAST_ROW = 75
CLOCK = Path(__file__).with_name("clock.c")
NO_CLOCKS = "not struck: there is no C compiler"
HOURS = (-9600, -1, 1, 72)


def _still(find: Callable[[Sandbox, Command], int | None], *options: str) -> Strike:
    """Stops a process where it is, and lets it go on."""

    def strike(box: Sandbox, draw: Random) -> str:
        box.options += options
        box.cold_forkservers = True
        command = box.start()
        box.until_rows(draw.randint(1, LAST_ROW), command)
        box.until(lambda: find(box, command), command)
        where, process, seconds = rows_in_words(box), find(box, command), draw.uniform(0.1, LONGEST_S)
        if process is None:
            box.finish(command)
            return "after its end"
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(process, signal.SIGCONT)
        box.finish(command)
        return f"{where}, {seconds:.1f} s"

    return strike


fault("driver SIGSTOP", draws=2)(_still(lambda _, command: None if command.is_over else command.process.pid))
fault("inline worker SIGSTOP", draws=2)(_still(lambda box, _: box.worker()))
fault("inline forkserver SIGSTOP", draws=1)(_still(lambda box, _: box.process("forkserver.serve")))
fault("Ray actor SIGSTOP", draws=1, on_ray=True)(_still(lambda box, _: box.process("ray::Slot"), "--engine", "ray"))


@fault("clock wrong", draws=2)
def _wrong(box: Sandbox, draw: Random) -> str:
    """A driver whose clock is hours or days off is killed, and another goes on with a right one."""
    return _with_clock(box, draw, jumps=False)


@fault("clock jumps", draws=2)
def _jumps(box: Sandbox, draw: Random) -> str:
    """Somebody sets the clock in mid-run."""
    return _with_clock(box, draw, jumps=True)


def _with_clock(box: Sandbox, draw: Random, *, jumps: bool) -> str:
    hours = draw.choice(HOURS)
    library, error = box.folder / "clock.so", box.folder / "clock"
    box.expected |= {library.name, error.name}
    compiler = shutil.which("cc")
    if compiler is None:
        box.finish(box.start())
        return NO_CLOCKS
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, CLOCK, "-ldl"], check=True)
    _set(error, 0 if jumps else hours)
    box.environment |= {"LD_PRELOAD": str(library), "CHAOS_CLOCK": str(error)}
    command = box.start(largest_file=0)
    box.until_rows(draw.randint(1, LAST_ROW), command)
    where = rows_in_words(box)
    if jumps:
        _set(error, hours)
    else:
        command.signal(signal.SIGKILL)
    box.finish(command)
    for name in ("LD_PRELOAD", "CHAOS_CLOCK"):
        del box.environment[name]
    return f"{where}, {hours:+} h"


def _set(error: Path, hours: int) -> None:
    """Writes the error in place: processes that run have the file before them."""
    with error.open("r+b" if error.exists() else "wb") as file:
        file.write((hours * 3600 * 10**9).to_bytes(8, sys.byteorder, signed=True))
