"""The forkserver of the inline engine's workers ends with its driver, and without a word."""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from crowdsweep.engine import worker
from crowdsweep.engine.work import ALIVE, DONE, STATUS, Call


def until(state: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not state():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_forkserver_whose_driver_is_killed_says_nothing(
    cold_forkservers: None, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its driver goes at the very moment at which it has the end of a worker to tell."""
    forkserver = worker._started()
    ours, theirs = socket.socketpair()
    with ours:
        socket.send_fds(forkserver.control, [b"w"], [theirs.fileno()])
        theirs.close()
        process, status = STATUS.unpack(forkserver.control.recv(STATUS.size, socket.MSG_WAITALL))
        assert status == ALIVE
        forkserver.process.send_signal(signal.SIGSTOP)
        os.waitpid(forkserver.process.pid, os.WUNTRACED)  # until it stands still
        os.kill(process, signal.SIGKILL)
        until(lambda: Path(f"/proc/{process}/stat").read_text().split()[2] == "Z")  # gone, and its parent was told
        forkserver.control.close()
        forkserver.process.send_signal(signal.SIGCONT)
        assert forkserver.process.wait(60) == 0
    until(lambda: not Path(f"/proc/{process}").exists())
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("set_here", "there"), [(None, "1"), ("3", "3")])
def test_workers_compute_on_one_thread_unless_a_person_says_otherwise(
    set_here: str | None, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if set_here is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", set_here)
    forkserver = worker.Forkserver()
    try:
        forkserver.worker().send(Call(function=os.getenv, arguments=("OMP_NUM_THREADS",)))
        assert forkserver.receive(60.0) == (DONE, there)
    finally:
        forkserver.close()
