"""The forkserver process and its workers, which run models on every engine, in pilots and in replays.

A model may exit, crash, hang or close files that are not its own. It does so in a worker, which is killed and replaced;
there is one worker at a time. The forkserver has imported what trials need and runs no model's code. So it forks a
worker in milliseconds and in a known state. It is also the worker's parent process, in place of the driver. Both are in
a session of their own: Ctrl-C in the terminal does not reach them. They end when the driver ends, however it does.

Messages: for each worker, the driver sends the forkserver one end of a socket pair. The forkserver sends `STATUS` when
a worker begins and when it ends. Over the other end of the pair the driver sends `Work`, and receives pickled pairs of
a kind and a value:

    BEGUN       the models are imported and the data are there
    PROGRESS    a report of a trial; the driver replies with the keys of the trials to stop
    NEWS        a checkpoint, or a note for the user
    DONE        the results
    BUG         the text of an exception in crowdsweep's own code

To a `Call` the driver receives only `DONE` or `BUG`.
"""

import ctypes
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from traceback import format_exc
from types import FrameType
from typing import Any

from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine.executor import Batch
from crowdsweep.engine.work import ALIVE, BEGUN, BUG, DONE, NEWS, PROGRESS, STATUS, Call, Work, end
from crowdsweep.record.events import TrialProgressed, TrialSaved, TrialsNoted
from crowdsweep.registry.discovery import keep_search_path
from crowdsweep.trial.checkpoints import CheckpointSettings
from crowdsweep.trial.model_calls import STRAY_FORK
from crowdsweep.trial.runner import look_up_models, run_batch

_PR_SET_PDEATHSIG = 1
_REPORTED_EVERY_S = 0.5
_HANDOVER_LOST = 3  # exit code of a worker that lost its connection to the driver


def serve(number: int) -> None:
    """Runs the forkserver until the driver is gone; never returns.

    Args:
        number: descriptor of the inherited socket to the driver.
    """
    for ending in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):  # the forkserver ends only when the driver does
        signal.signal(ending, signal.SIG_IGN)
    driver = socket.socket(fileno=number)
    waking, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _wake)
    keep_search_path()
    gc.freeze()  # keeps workers' garbage collectors off imported objects, whose memory they share
    workers: set[int] = set()
    with suppress(OSError):  # the driver is gone
        _supervise(workers, driver, waking, woken)
    for process in workers:
        end(process)
    os._exit(0)


def _supervise(workers: set[int], driver: socket.socket, waking: socket.socket, woken: socket.socket) -> None:
    """Forks a worker at each request of the driver and reports workers that end; returns when the driver is gone.

    Raises:
        OSError: the driver ended while a message was sent to it.
    """
    while True:
        ready = wait([driver, waking])
        if waking in ready:
            waking.recv(1024)
            for process in list(workers):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    workers.discard(process)
                    driver.send(STATUS.pack(process, status))
        if driver in ready:
            try:
                request, files, _, _ = socket.recv_fds(driver, 1, 1)
            except OSError:  # the driver is gone, with a message unread
                break
            if not request:
                return
            server = os.getpid()
            process = os.fork()
            if process == 0:
                for inherited in (driver, waking, woken):
                    inherited.close()
                _run_worker(files[0], server)
            os.close(files[0])
            workers.add(process)
            driver.send(STATUS.pack(process, ALIVE))


def _wake(number: int, frame: FrameType | None) -> None:
    """Does nothing: Python writes to the wake-up socket only for signals that have a handler."""


def _run_worker(number: int, server: int) -> None:
    """Runs batches and calls that the driver sends until the connection closes; never returns."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setpgid(0, 0)
    _die_with(server)
    driver = Connection(number)
    datasets: dict[str, CrowdDataset] = {}
    try:
        while True:
            message: Work | Call = driver.recv()
            if isinstance(message, Call):
                _send_result(driver, message.function, *message.arguments)
                continue
            for fingerprint in message.forget:
                datasets.pop(fingerprint, None)
            if message.dataset is not None:
                datasets[message.batch.dataset] = message.dataset
            _run(message.batch, datasets[message.batch.dataset], message.device, driver)
    except BaseException:  # noqa: BLE001 - the driver is gone, or a model closed the connection
        os._exit(_HANDOVER_LOST)


def _die_with(server: int) -> None:
    """Has the system kill this process when the forkserver ends (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # the forkserver has ended already
            os._exit(_HANDOVER_LOST)


def _run(batch: Batch, dataset: CrowdDataset, device: str, driver: Connection) -> None:
    process, stopped = os.getpid(), set[str]()
    due = dict.fromkeys((spec.key for spec in batch.specs), time.monotonic() + _REPORTED_EVERY_S)

    def report(event: TrialProgressed) -> bool:
        """Tells the driver of every report with a score, since early stopping may decide by it, and of others now and
        then; returns whether the trial goes on."""
        if event.score is not None or time.monotonic() >= due[event.key]:
            due[event.key] = time.monotonic() + _REPORTED_EVERY_S
            if os.getpid() != process:
                os._exit(STRAY_FORK)
            driver.send((PROGRESS, event))
            stopped.update(driver.recv())
        return event.key not in stopped

    def tell(event: TrialSaved | TrialsNoted) -> None:
        if os.getpid() != process:
            os._exit(STRAY_FORK)
        driver.send((NEWS, event))

    look_up_models(batch.specs)
    driver.send((BEGUN, None))
    minutes = batch.checkpoint_minutes
    checkpoints = None if minutes is None else CheckpointSettings(minutes=minutes, saved=batch.saved, emit=tell)
    _send_result(driver, run_batch, batch.specs, dataset, device, report, batch.curve_spec, checkpoints)


def _send_result(driver: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    """Calls a function of crowdsweep and sends `DONE` with its result, or `BUG` with the exception that it raised."""
    try:
        result = DONE, function(*arguments)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - a bug in crowdsweep; the driver raises it
        result = BUG, (f"{type(error).__name__}: {error}", format_exc())
    sys.stdout.flush()
    driver.send(result)
