"""Opens a sweep's runs in MLflow's own pages, on loopback."""

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from crowdsweep.errors import BadInput
from crowdsweep.journal.journal import read_journal
from crowdsweep.tracking.artifact_files import bring_along
from crowdsweep.tracking.uri import sqlite_uri

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"

_GRACE_S = 2.0
_LOOK_S = 0.1
_LINES_OF_LOG = 30
_NEAR = 50
# Starts the server, and ends all of its processes when the pipe that its parent holds is closed, however that comes.
_KEEP = f"""
import os, signal, subprocess, sys, threading
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)
ended = threading.Event()
def end():
    sys.stdin.buffer.read()
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
        except ProcessLookupError:
            pass
        ended.wait({_GRACE_S})
    os._exit(0)
threading.Thread(target=end, daemon=True).start()
code = server.wait()
ended.set()
if code < 0:
    threading.Event().wait({_GRACE_S})
os._exit(abs(code))
"""


def serve(store: Path, port: int, announce: Callable[[str], object]) -> int:
    """Serves the database beside the record until it is interrupted; returns the server's exit code.

    A sweep that was tracked on a server needs none of ours: its address is announced instead.

    Raises:
        BadInput: the sweep has no MLflow runs, or its database cannot be used, or somebody listens on the port.
    """
    database = store.absolute() / DATABASE
    if not database.is_file():
        for uri in read_journal(store).runs:
            if uri.startswith(("http://", "https://", "databricks")):
                announce(f"this sweep is tracked on {uri}: open it there")
                return 0
        raise BadInput(
            f"{store}: expected MLflow runs in {DATABASE}, found none; write them: `crowdsweep mirror {store}`"
        )
    if database.is_symlink():
        raise BadInput(f"{database}: expected a file of the store, got a link; remove it")
    _check_free(port)
    try:
        bring_along(database, database.with_name(ARTIFACTS).as_uri())
    except OSError as error:
        raise BadInput(f"{error}; remove it, then write the runs again: `crowdsweep mirror {store}`") from error
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", sqlite_uri(database)]
    command += ["--artifacts-destination", str(database.with_name(ARTIFACTS)), "--workers", "1"]
    announce(f"MLflow on http://127.0.0.1:{port} (Ctrl-C ends it)")
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "PYTHONSAFEPATH": "1"}
    # The server's own children look for modules where they stand: in a folder that is empty.
    # What it logs is for nobody, unless it ends by itself.
    with tempfile.TemporaryDirectory() as nowhere, tempfile.TemporaryFile() as log, _signals() as signals:
        keeper = subprocess.Popen(  # noqa: S603 - our own interpreter and fixed words
            [sys.executable, "-I", "-S", "-c", _KEEP, *command],
            env=environment,
            cwd=nowhere,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        while keeper.poll() is None and not signals:
            time.sleep(_LOOK_S)
        if signals:
            keeper.communicate()  # it ends when its pipe is closed
            return 0
        log.seek(0)
        announce("\n".join(log.read().decode(errors="replace").splitlines()[-_LINES_OF_LOG:]))
        return keeper.returncode


@contextmanager
def _signals() -> Generator[list[int]]:
    """Collects the signals that ask a process to end; none of them breaks anything off."""
    heard: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in numbers}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_free(port: int) -> None:
    error = _why_not(port)
    if error is None:
        return
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        free = next((near for near in range(port + 1, min(port + _NEAR, 65536)) if _why_not(near) is None), None)
        other = "" if free is None else f", such as --port {free}"
        raise BadInput(f"--port: port {port} is busy, another program listens there; give another{other}") from error
    raise BadInput(f"--port: cannot listen on port {port} ({error}); give another") from error


def _why_not(port: int) -> Exception | None:
    """Returns why nobody could listen on a port; None where one can."""
    try:
        with socket.socket() as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            asked.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        return error
    return None
