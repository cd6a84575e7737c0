"""The driver's proxy of the executor on Ray, which runs in a process of its own (`ray_process`).

Why a process of its own: Ray's library ends the process that it runs in when the part of the cluster on this machine
ends. It does so after a second where that part was killed, and within a tenth of a second where it was asked to end:
the head node then says at once that the node is gone, and the next request to the node's object store exits. No setting
changes that. In a separate process it does no harm: recorded trials are safe, and the driver tells the user how to go
on.

Messages: over a socket the driver sends `RaySettings`, then pairs of a kind (`SUBMIT`, `STOP` or `POLL`) and a value.
`RaySettings` and `POLL` get one reply: `DONE` with a value, `FAILED` with an error that crowdsweep raises on purpose,
or `BUG` with the text of any other exception. Before the reply may come `PROGRESS` with the progress of a trial, for
which the process waits for `ACK`, and `LOG` with a log record. When the driver closes its end or dies, the process
disconnects from the cluster and ends.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.executor import Batch, ignore
from crowdsweep.engine.private_folder import clear_abandoned
from crowdsweep.engine.worker import bug_from_worker, exit_description
from crowdsweep.errors import SlotLost
from crowdsweep.record.events import Event, TrialProgressed
from crowdsweep.resources import Resources

SUBMIT, STOP, POLL, ACK = "submit", "stop", "poll", "ack"
DONE, FAILED, BUG, PROGRESS, LOG = "done", "failed", "bug", "progress", "log"
CLOSES_S = 4.0
"""Seconds that the process may take to disconnect from the cluster, before it and its children are killed."""
DROPPED_S = 0.5
"""The same after a second Ctrl-C: the command still has to say how to go on (`cli.interrupts.GRACE_S`)."""
_ROOT = str(Path(__file__).parents[2])
_PROGRAM = "from crowdsweep.engine import ray_process; ray_process.serve({})"
_LAST_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class RaySettings:
    """What the process needs to make an executor.

    Attributes:
        address: of the cluster, as for `cluster.connect`.
        resources: those that batches may ask for, the sweep's first.
        trial_minutes: minutes after which a trial is ended; None for no limit.
        name: of the sweep, for other sweeps on the cluster.
    """

    address: str | None
    resources: Sequence[Resources]
    trial_minutes: float | None
    name: str = "without a name"


@dataclass(frozen=True, kw_only=True)
class RayProcess:
    """The process, the connection to it, and the file that its standard output and standard error go to."""

    process: "subprocess.Popen[bytes]"
    connection: Connection
    errors: IO[bytes]

    def close(self) -> None:
        """Ends the process at once, where no `RayProxy` that used it has ended it."""
        if self.process.poll() is None:
            self.connection.close()
            _end(self.process)
            self.errors.close()


class RayProxy:
    """Executor that forwards all calls to a `RayExecutor` in another process.

    Args:
        datasets: base datasets by fingerprint; each is sent to the process when it is first needed.
        settings: the settings of the executor.
        process: started for it by `start_process`, perhaps some time ago; None for one that starts now.
        meanwhile: called while Ray starts, or joins a cluster.

    Raises:
        BadInput: the address has a wrong form, or no cluster answers there.
        InfeasibleRequest: the cluster has no node that such a slot fits on.
        SlotLost: the process ended before it was connected to a cluster.
    """

    def __init__(
        self,
        datasets: Mapping[str, CrowdDataset],
        settings: RaySettings,
        process: RayProcess | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> None:
        self._datasets = datasets
        self._handed: set[str] = set()
        self._shapes = list(settings.resources)
        self._listener: Callable[[TrialProgressed], None] = ignore
        self._ray: RayProcess | None = process or start_process()
        self._patience_s = CLOSES_S
        try:
            self._send(settings)
            meanwhile()
            self._slots: Sequence[int] = self._reply()
        except BaseException as error:
            self._disconnect(0.0 if isinstance(error, KeyboardInterrupt) else CLOSES_S)
            raise

    def slots_for(self, resources: Resources | None = None) -> int:
        """See `Executor.slots_for`; the number as of the last `poll`."""
        return self._slots[self._shapes.index(resources) if resources else 0]

    def submit(self, batch: Batch) -> None:
        """See `Executor.submit`; the next `poll` raises its errors."""
        dataset = None if batch.dataset in self._handed else self._datasets[batch.dataset]
        self._handed.add(batch.dataset)
        self._send((SUBMIT, (batch, dataset)))

    def poll(self, timeout_s: float) -> Sequence[Event]:
        """See `Executor.poll`.

        Raises:
            SlotLost: the cluster is lost.
        """
        self._send((POLL, timeout_s))
        try:
            events, self._slots = self._reply()
        except KeyboardInterrupt:
            self._patience_s = DROPPED_S
            raise
        return events

    def listen(self, listener: Callable[[TrialProgressed], None]) -> None:
        """See `Executor.listen`."""
        self._listener = listener

    def stop(self, key: str) -> None:
        """See `Executor.stop`."""
        self._send((STOP, key))

    def close(self) -> None:
        """See `Executor.close`."""
        self._disconnect(self._patience_s)

    def _disconnect(self, patience_s: float) -> None:
        """Closes the connection and waits `patience_s` for the process to end.

        Kills the process and its children where it does not end in time or with exit code 0, or where Ctrl-C interrupts
        the wait.
        """
        if self._ray is None:
            return
        ray, self._ray = self._ray, None
        ray.connection.close()
        has_ended = False
        try:
            with suppress(subprocess.TimeoutExpired):
                has_ended = ray.process.wait(patience_s) == 0
        finally:
            if not has_ended:
                _end(ray.process)
                clear_abandoned()
            ray.errors.close()

    def _send(self, request: object) -> None:
        with suppress(OSError):  # the next `_reply` raises `SlotLost`
            if self._ray is not None:
                self._ray.connection.send(request)

    def _reply(self) -> Any:
        while True:
            try:
                kind, value = self._receive()
            except (OSError, EOFError):
                raise SlotLost(self._how_it_ended()) from None
            match kind:
                case "progress":
                    self._listener(value)
                    self._send((ACK, None))
                case "log":
                    name, level, text = value
                    logging.getLogger(name).log(level, "%s", text)
                case "failed":
                    raise value
                case "bug":
                    raise bug_from_worker(*value)
                case _:
                    return value

    def _receive(self) -> tuple[str, Any]:
        if self._ray is None:
            raise EOFError
        return self._ray.connection.recv()

    def _how_it_ended(self) -> str:
        """Returns why the process does not answer any more, for an error message."""
        lost = "the Ray cluster is lost: "
        if self._ray is None:
            return f"{lost}it was released"
        try:
            code = self._ray.process.wait(CLOSES_S)
        except subprocess.TimeoutExpired:
            return f"{lost}its process beside the driver does not respond"
        if hasattr(self, "_slots"):
            return f"{lost}its part on this machine has ended (`ray stop`, a drained node or a signal do that)"
        self._ray.errors.seek(0)
        last = " ".join(self._ray.errors.read()[-_LAST_CHARACTERS:].decode(errors="replace").split())
        ended = exit_description(-code if code < 0 else code << 8)
        return f"the process that Ray was to run in did not start: {ended}{': ' if last else ''}{last}"


def start_process(program: str = _PROGRAM) -> RayProcess:
    """Starts a process for a `RayProxy`: its imports, which take a second, may go on beside other work.

    Args:
        program: Python code that it runs; `{}` stands for the descriptor of its socket.
    """
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the proxy; Ray's output is not for the terminal
    with theirs:
        start = f"import sys; sys.path.append({_ROOT!r}); {program.format(theirs.fileno())}"
        # `-P`: nothing is imported from the current directory.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and fixed words
            [sys.executable, "-P", "-c", start],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # Ctrl-C reaches only the driver, which handles it
        )
    return RayProcess(process=process, connection=Connection(ours.detach()), errors=errors)


def _end(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()
