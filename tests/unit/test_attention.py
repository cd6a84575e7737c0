"""A press of Ctrl-C where code in C drops the exception that Python makes of it."""

import subprocess
import sys

DROPPED_BY_C = """
import signal, time
from crowdsweep.cli.interrupts import Attention
from crowdsweep.errors import Interrupted

class Collected:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)

attention = Attention()
try:
    Collected()
    time.sleep(60)
except Interrupted:
    print("interrupted", attention.presses)
"""


def test_a_press_that_code_in_c_drops_is_heard_and_counted_once() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED_BY_C], capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.stderr) == ("interrupted 1\n", "")
