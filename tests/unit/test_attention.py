"""A press of Ctrl-C where code in C drops the exception that Python makes of it."""

import os
import signal
import subprocess
import sys

from crowdsweep.sweep.interrupts import Interrupts

DROPPED_BY_C = """
import signal, time
from crowdsweep.cli.interrupts import InterruptHandler
from crowdsweep.errors import Interrupted

class Collected:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)

handler = InterruptHandler()
try:
    Collected()
    time.sleep(60)
except Interrupted:
    print("interrupted", handler.presses)
"""


def test_a_press_that_code_in_c_drops_is_heard_and_counted_once() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED_BY_C], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("interrupted 1\n", "")


BLOCKED_FROM_THE_START = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
from crowdsweep.cli.interrupts import InterruptHandler
from crowdsweep.errors import Interrupted

handler = InterruptHandler()
try:
    signal.raise_signal(signal.SIGINT)
    time.sleep(5)
except Interrupted:
    print("interrupted")
"""


def test_a_press_is_heard_where_a_job_of_ray_has_it_blocked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED_FROM_THE_START], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_a_sweep_in_a_job_of_ray_that_is_python_hears_it_too() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGINT)
            assert interrupts.count == 1
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
