"""A worker process, seen from the driver: started, sent batches, killed."""

import os
import signal
import socket
import subprocess
import sys
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from crowdsweep.engine.work import ALIVE, STATUS, Call, Work, end
from crowdsweep.errors import SlotLost

_ROOT = str(Path(__file__).parents[2])
_START_S = 60.0
# Trials compute on one thread, whoever starts them: the command line, which says so to itself, or another program.
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


# Where imports fail, for want of memory for one, a line says so in place of a traceback; the driver says what follows.
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
    """The worker's process ended; the text says how."""


def bug_of(text: str, trace: str) -> RuntimeError:
    """Returns, to be raised here, what our own code raised in a worker."""
    bug = RuntimeError(text)
    bug.add_note(trace)
    return bug


@runtime_checkable
class _Process(Protocol):
    """What is asked of the forkserver's process, however it was started."""

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
        process: its id.
        connection: to it.
        has: fingerprints of the datasets that it holds, the one that was needed last at the end.
    """

    process: int
    connection: Connection
    has: dict[str, None] = field(default_factory=dict[str, None])

    def send(self, work: Work | Call) -> None:
        """Sends it a batch or a call.

        Raises:
            WorkerDied: it is gone.
        """
        try:
            self.connection.send(work)
        except OSError as error:
            raise WorkerDied("it closed its connection to the driver") from error
        if isinstance(work, Work):
            for fingerprint in (*work.forget, work.fingerprint):
                self.has.pop(fingerprint, None)
            self.has[work.fingerprint] = None


class Forkserver:
    """Makes workers, one after another, by forks of a server that is started with the first of them (`forkserver`)."""

    def __init__(self) -> None:
        self._server: _Server | None = None
        self._worker: Worker | None = None
        self._ended: dict[int, int] = {}
        self._finalizer: Any = None

    def worker(self) -> Worker:
        """Returns the worker, which is made where there is none.

        Raises:
            SlotLost: none can be made.
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
        """Returns the worker's next message, or None where none comes in time.

        Raises:
            WorkerDied: it is gone.
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
        except Exception as error:  # what arrives is no message of ours
            raise WorkerDied(f"it sent what cannot be read: {type(error).__name__}") from error
        if worker.process in self._ended:
            raise WorkerDied(ending_words(self._ended[worker.process]))
        return None

    def reply(self, value: Any) -> None:
        """Answers a progress message of the worker."""
        if self._worker is not None:
            with suppress(OSError):  # the next `receive` finds out
                self._worker.connection.send(value)

    def kill_worker(self) -> None:
        """Ends the worker, and all that it has started; the next one is another."""
        if self._worker is not None:
            end(self._worker.process)
            self._worker.connection.close()
            self._worker = None

    def close(self) -> None:
        """Ends all processes; may be called twice."""
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
        """Waits a moment for the status that the forkserver sends."""
        end(worker.process)
        with suppress(OSError, EOFError):
            while worker.process not in self._ended and wait([server.control], 2.0):
                self._receive_status(server)
        return ending_words(self._ended.get(worker.process))

    def _close_server(self) -> None:
        if self._server is not None:
            self._finalizer()
            self._server = None


def _started() -> _Server:
    ours, theirs = socket.socketpair()
    with theirs:
        program = _PROGRAM.format(root=_ROOT, number=theirs.fileno())
        # `-P`: nothing is imported from where a person stands.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and fixed words
            [sys.executable, "-P", "-c", program],
            env={**dict.fromkeys(_ONE_THREAD, "1"), **os.environ},
            stdin=subprocess.DEVNULL,
            stdout=2,  # what models print is no result of the command
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # from its first instruction: a Ctrl-C while it imports is not its own
        )
    return _Server(process=process, control=ours)


def _shut_down(server: _Server) -> None:
    """Waits for the forkserver and its workers to end, and kills it where it does not."""
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


def ending_words(status: int | None) -> str:
    """Returns how a process ended, for a person; None for a status that nobody knows."""
    if status is None:
        return "it ended without a word"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        name = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
        memory = ", as the system does when memory runs out" if number == signal.SIGKILL else ""
        return f"it was killed by {name}{memory}"
    return f"it exited with code {os.WEXITSTATUS(status)}"
