"""Opens a sweep's runs in MLflow's own pages, on loopback."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from crowdsweep.errors import BadInput
from crowdsweep.journal.journal import read_journal
from crowdsweep.tracking.artifact_files import bring_along
from crowdsweep.tracking.uri import sqlite_uri

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"

_GRACE_S = 3.0
# Waits for the end of the pipe that its parent holds, however that comes, and ends the server's processes then.
_WATCH = f"""
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sys.stdin.buffer.read()
try:
    os.killpg(int(sys.argv[1]), signal.SIGTERM)
    time.sleep({_GRACE_S})
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
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
    with tempfile.TemporaryDirectory() as nowhere, _signals():
        server = subprocess.Popen(command, env=environment, cwd=nowhere, start_new_session=True)  # noqa: S603 - our own interpreter and fixed words
        with _attended(server):
            try:
                return server.wait()
            except _Ended:
                return 0


class _Ended(BaseException):
    """A signal came."""


@contextmanager
def _signals() -> Generator[None]:
    """Has each signal that asks a process to end raise `_Ended`."""

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as `signal` calls it
        raise _Ended

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _attended(server: "subprocess.Popen[bytes]") -> Generator[None]:
    """Ends the server and its children afterwards, also where this process is killed."""
    watch = subprocess.Popen(  # noqa: S603 - our own interpreter and fixed words
        [sys.executable, "-I", "-S", "-c", _WATCH, str(server.pid)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(server.pid, number)
            with suppress(subprocess.TimeoutExpired):
                server.wait(_GRACE_S)
        watch.kill()
        watch.communicate()


def _check_free(port: int) -> None:
    try:
        with socket.socket() as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            asked.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise BadInput(f"--port: cannot listen on port {port} ({error}); give another") from error
