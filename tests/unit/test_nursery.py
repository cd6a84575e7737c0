"""The keeper of the inline engine's workers ends with its driver, and without a word."""

import os
import signal
import socket
import time
from contextlib import suppress

import pytest

from crowdsweep.sweep import worker
from crowdsweep.sweep.nursery import ALIVE, REPORT


def test_a_keeper_whose_driver_is_killed_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Its driver goes at the very moment at which it has the end of a worker to tell."""
    keeper = worker._started()
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(60)
        socket.send_fds(keeper.control, [b"w"], [theirs.fileno()])
        theirs.close()
        process, status = REPORT.unpack(keeper.control.recv(REPORT.size, socket.MSG_WAITALL))
        assert status == ALIVE
        keeper.process.send_signal(signal.SIGSTOP)
        os.waitpid(keeper.process.pid, os.WUNTRACED)  # until it stands still
        os.kill(process, signal.SIGKILL)
        ours.recv(1)  # until the worker is gone
        keeper.control.close()
        keeper.process.send_signal(signal.SIGCONT)
        assert keeper.process.wait(60) == 0
    deadline = time.monotonic() + 60
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(process, 0)
            time.sleep(0.05)
        pytest.fail("the worker stays")
    assert capfd.readouterr().err == ""
