"""A worker process, seen from the driver, which starts it, sends it batches and kills it."""

import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from crowdsweep.engine.work import ALIVE, BUG, DONE, STATUS, Call, Work, end
from crowdsweep.errors import SlotLost

_ROOT = str(Path(__file__).parents[2])
_START_S = 60.0
# Inline trials compute on one thread, whether the command line (which sets these variables) or another program runs.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


# Where imports fail, for example for lack of memory, one line says so in place of a traceback.
_PROGRAM = """
import sys
sys.path.append({root!r})
try:
    from crowdsweep.engine import forkserver
except (ImportError, MemoryError, OSError) as error:
    sys.exit(f"the process that keeps workers cannot start: {{type(error).__name__}}: {{error}}")
forkserver.serve({number})
"""


class WorkerDied(Exception):
    """The worker's process ended; the message says how."""


def bug_from_worker(text: str, trace: str) -> RuntimeError:
    """Returns an exception for the driver to raise, from one that crowdsweep's own code raised in another process.

    Args:
        trace: its traceback, added as a note.
    """
    bug = RuntimeError(text)
    bug.add_note(trace)
    return bug


@runtime_checkable
class _Process(Protocol):
    """Methods that are needed of the forkserver's process, however it was started."""

    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


@dataclass(kw_only=True)
class _Server:
    process: _Process
    control: socket.socket


@dataclass(kw_only=True)
class Worker:
    """One process that runs batches.

    Attributes:
        process: process id.
        connection: the driver's connection to the worker.
        has: fingerprints of the datasets that it holds, the last used one at the end.
    """

    process: int
    connection: Connection
    has: dict[str, None] = field(default_factory=dict[str, None])

    def send(self, work: Work | Call) -> None:
        """Sends the worker a batch or a call.

        Raises:
            WorkerDied: the worker has ended.
        """
        try:
            self.connection.send(work)
        except OSError as error:
            raise WorkerDied("it closed its connection to the driver") from error
        if isinstance(work, Work):
            for fingerprint in (*work.forget, work.batch.dataset):
                self.has.pop(fingerprint, None)
            self.has[work.batch.dataset] = None


class Forkserver:
    """Client of a forkserver process (`forkserver`), which it starts with the first worker; one worker at a time."""

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._worker: Worker | None = None
        self._ended: dict[int, int] = {}
        self._finalizer: Any = None

    def worker(self) -> Worker:
        """Returns the worker; makes one where there is none.

        Raises:
            SlotLost: no worker can be made.
        """
        if self._worker is None:
            try:
                self._worker = self._started_worker()
            except (OSError, EOFError):  # the forkserver was killed
                self._close_server()
                try:
                    self._worker = self._started_worker()
                except (OSError, EOFError) as error:
                    raise SlotLost(f"no process can be made for trials: {error or 'it ends at once'}") from error
        return self._worker

    def receive(self, timeout_s: float) -> Any:
        """Returns the worker's next message, or None where none comes within `timeout_s` or there is no worker.

        Raises:
            WorkerDied: the worker has ended, or sent a message that cannot be read.
        """
        worker, server = self._worker, self._server
        if worker is None or server is None:
            return None
        ready = wait([worker.connection, server.control], timeout_s)
        try:
            if worker.connection in ready:
                return worker.connection.recv()
            if server.control in ready:
                self._receive_status(server)
        except (OSError, EOFError) as error:
            raise WorkerDied(self._how_it_ended(worker, server)) from error
        except Exception as error:  # a model wrote to the connection: no valid message
            raise WorkerDied(f"it sent what cannot be read: {type(error).__name__}") from error
        if worker.process in self._ended:
            raise WorkerDied(exit_description(self._ended[worker.process]))
        return None

    def reply(self, value: Any) -> None:
        """Replies to a progress message of the worker."""
        if self._worker is not None:
            with suppress(OSError):  # the next `receive` finds out
                self._worker.connection.send(value)

    def call(self, function: Callable[..., Any], *arguments: Any, timeout_s: float) -> Any:
        """Returns the result of a function of crowdsweep that the worker calls.

        Raises:
            WorkerDied: the worker ended meanwhile.
            TimeoutError: the function did not return within `timeout_s`; the worker is killed.
        """
        until = time.monotonic() + timeout_s
        self.worker().send(Call(function=function, arguments=arguments))
        while (left_s := until - time.monotonic()) > 0:
            match self.receive(left_s):
                case (str() as kind, result) if kind == DONE:
                    return result
                case (str() as kind, (text, trace)) if kind == BUG:
                    raise bug_from_worker(text, trace)
                case _:
                    pass
        self.kill_worker()
        raise TimeoutError

    def kill_worker(self) -> None:
        """Kills the worker and all processes that it has started; `worker` then makes another one."""
        if self._worker is not None:
            end(self._worker.process)
            self._worker.connection.close()
            self._worker = None

    def close(self) -> None:
        """Ends the worker and the forkserver; may be called twice."""
        self.kill_worker()
        self._close_server()

    def _started_worker(self) -> Worker:
        if self._server is None:
            self._server = _started()
            self._finalizer = weakref.finalize(self, _shut_down, self._server)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(self._server.control, [b"w"], [theirs.fileno()])
            self._server.control.settimeout(_START_S)
            process, status = _status(self._server)
            while status != ALIVE:
                self._ended[process] = status
                process, status = _status(self._server)
            return Worker(process=process, connection=Connection(ours.detach()))

    def _receive_status(self, server: _Server) -> None:
        process, status = _status(server)
        self._ended[process] = status

    def _how_it_ended(self, worker: Worker, server: _Server) -> str:
        """Kills what is left of the worker, and returns how it ended, waiting up to 2 s for the forkserver's status."""
        end(worker.process)
        with suppress(OSError, EOFError):
            while worker.process not in self._ended and wait([server.control], 2.0):
                self._receive_status(server)
        return exit_description(self._ended.get(worker.process))

    def _close_server(self) -> None:
        if self._server is not None:
            self._finalizer()
            self._server = None


def _started() -> _Server:
    ours, theirs = socket.socketpair()
    with theirs:
        program = _PROGRAM.format(root=_ROOT, number=theirs.fileno())
        # `-P`: nothing is imported from the current directory.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and fixed words
            [sys.executable, "-P", "-c", program],
            env={**dict.fromkeys(THREAD_VARIABLES, "1"), **os.environ},
            stdin=subprocess.DEVNULL,
            stdout=2,  # models' output goes to standard error, as it is no result of the command
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # so Ctrl-C does not reach it, even while it imports
        )
    return _Server(process=process, control=ours)


def _shut_down(server: _Server) -> None:
    """Closes the connection to the forkserver, which ends it and its workers; kills it where it does not end in 2 s."""
    server.control.close()
    try:
        server.process.wait(2.0)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()


def _status(server: _Server) -> tuple[int, int]:
    text = server.control.recv(STATUS.size, socket.MSG_WAITALL)
    if len(text) < STATUS.size:
        raise EOFError
    return STATUS.unpack(text)


def exit_description(status: int | None) -> str:
    """Returns how a process ended, for a message.

    Args:
        status: as `os.waitpid` returns it; None where it is unknown.
    """
    if status is None:
        return "it ended without an error message"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
        memory = ", as the system does when memory runs out" if number == signal.SIGKILL else ""
        return f"it was killed by {name}{memory}"
    return f"it exited with code {os.WEXITSTATUS(status)}"
