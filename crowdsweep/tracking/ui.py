"""Opens a sweep's runs in MLflow's own pages, on the loopback address."""

import errno
import html
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from crowdsweep.errors import BadInput, plain
from crowdsweep.record.journal import read_journal
from crowdsweep.record.shown_uri import redacted
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import driver_of
from crowdsweep.tracking.artifact_files import DatabaseBusy, NoDatabase, relocate_artifacts
from crowdsweep.tracking.artifact_places import FOLDER
from crowdsweep.tracking.guard_names import APP, ARTIFACTS, PARAMETER, REMOTE, TOKEN
from crowdsweep.tracking.tracked_elsewhere import (
    ServedElsewhere,
    address_of,
    is_of_a_server,
    mirror_words,
    place_elsewhere,
    runs_in,
    served_elsewhere,
    server_words,
)
from crowdsweep.tracking.uri import DATABASE, sqlite_uri, whole

_GRACE_S = 2.0
_LOOK_S = 0.1
_LINES_OF_LOG = 30
_NEAR = 50
# The supervisor: starts the server in an empty folder of its own, and ends all of its processes when the pipe that its
# parent holds is closed for any reason. It creates the folder itself, because its parent may be killed in between.
_KEEP = f"""
import os, shutil, signal, subprocess, sys, threading
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, lambda *_: None)
place = sys.argv[1]
nowhere = os.path.join(place, "nowhere")
os.mkdir(place, 0o700)
os.mkdir(nowhere)
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, start_new_session=True, cwd=nowhere)
closing, ended = threading.Event(), threading.Event()
def end():
    sys.stdin.buffer.read()
    closing.set()
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(server.pid, number)
        except ProcessLookupError:
            pass
        ended.wait({_GRACE_S})
    shutil.rmtree(place, ignore_errors=True)
    os._exit(0)
threading.Thread(target=end, daemon=True).start()
code = server.wait()
ended.set()
if code < 0 or closing.is_set():  # `end` removes the folder, and ends this process
    threading.Event().wait({_GRACE_S})
os._exit(abs(code))
"""


def serve(store: Store, port: int, announce: Callable[[str], object]) -> int:
    """Serves the database that has a sweep's runs until it is interrupted; returns the server's exit code. Only those
    who have the announced link are let in (`mlflow_guard`).

    For a sweep that is tracked on a server, opens its pages there instead, and returns 0.

    Raises:
        BadInput: the sweep has no MLflow runs, its database cannot be used, or another program listens on the port.
    """
    database = whole(Path(str(store))) / DATABASE
    state = read_journal(store)
    place = place_elsewhere(state, database)
    if place is None:
        if not isinstance(store, Path):
            raise BadInput(
                f"{store}: expected a sweep with MLflow runs, and this one has none: MLflow's database cannot be "
                f"stored in an object store. Give a tracking server as MLFLOW_TRACKING_URI, and `crowdsweep mirror "
                f"{shlex.quote(str(store))}` writes them there"
            )
        return _serve(_of_store(store, state, database, port, announce), port, announce)
    if not is_of_a_server(place):
        _check_free(port)
        served = served_elsewhere(store, state, place)
        announce(f"this sweep is tracked in {place}, which is served here")
        return _serve(served, port, announce)
    announce(server_words(state, place))
    if (address := address_of(state, place)) and _has_screen():
        webbrowser.open(address)
    return 0


def _of_store(
    store: Path, state: JournalState, database: Path, port: int, announce: Callable[[str], object]
) -> ServedElsewhere:
    """Returns what to serve for a sweep whose runs are in the database beside its record."""
    if not database.is_file():
        raise BadInput(_why_none(store, state))
    if database.is_symlink():
        raise BadInput(f"{database}: expected a file of the store, got a link; remove it")
    _check_free(port)
    runs = _relocated(store, state, database, announce)
    return ServedElsewhere(uri=sqlite_uri(database), artifacts=database.with_name(FOLDER), runs=runs)


def _serve(served: ServedElsewhere, port: int, announce: Callable[[str], object]) -> int:
    command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--artifacts-destination", served.artifacts.as_uri(), "--workers", "1", "--app-name", APP]
    token = secrets.token_urlsafe(32)
    link = f"http://127.0.0.1:{port}/?{PARAMETER}={token}{served.runs}"
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "PYTHONSAFEPATH": "1"}
    environment |= {TOKEN: token, ARTIFACTS: str(served.artifacts), REMOTE: "yes" if served.remote else ""}
    environment["MLFLOW_BACKEND_STORE_URI"] = served.uri  # all users of a machine can read command lines
    environment["MLFLOW_WEBHOOK_ALLOWED_SCHEMES"] = "none"  # a database may name webhooks
    environment.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")  # six processes that no page of ours needs
    # The server's child processes import modules from their working directory, which is therefore an empty folder.
    # The server's log is shown only if the server ends by itself.
    place = Path(tempfile.gettempdir()) / f"crowdsweep-ui-{secrets.token_hex(8)}"
    with _removed(place), tempfile.TemporaryFile() as log, _signals() as signals:
        supervisor = subprocess.Popen(  # noqa: S603 - our own interpreter and fixed words
            [sys.executable, "-I", "-S", "-c", _KEEP, str(place), *command],
            env=environment,
            cwd=place.parent,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        ready = False
        while supervisor.poll() is None and not signals:
            if not ready and _answers(port):
                ready = True
                announce(f"MLflow (Ctrl-C ends it): {link}")
                if _has_screen():
                    _open(link, place)
            time.sleep(_LOOK_S)
        if signals:
            supervisor.communicate()  # closes its pipe, which ends it
            return 0
        log.seek(0)
        said = redacted(log.read().decode(errors="replace"), served.uri)
        announce("\n".join(said.splitlines()[-_LINES_OF_LOG:]))
        return supervisor.returncode


def _why_none(store: Path, state: JournalState) -> str:
    """Returns a message that says why there are no runs to show, and how to get some."""
    found = f"{store}: expected MLflow runs in {DATABASE}, found none"
    driver = driver_of(store)
    if driver is not None and driver.here:
        return f"{found} yet: the sweep has only begun; wait until a trial is done, then do this again"
    return f"{found}; write them: `{mirror_words(store, state)}`"


def _relocated(store: Path, state: JournalState, database: Path, announce: Callable[[str], object]) -> str:
    """Points a database's artifact locations to where the database is now; returns the link to the sweep's runs."""
    try:
        for named in relocate_artifacts(database, whole=True):
            announce(plain(f"not served, as it lies outside of {database.with_name(FOLDER)}: {named}"))
        return runs_in(database, state)
    except DatabaseBusy as error:
        raise BadInput(
            f"{error}. The database is intact: a `run`, `mirror` or `ui` of this sweep may be running; wait until it "
            f"has ended, then do this again"
        ) from error
    except NoDatabase as error:
        again = f"crowdsweep mirror {shlex.quote(str(store))}"
        raise BadInput(f"{error}; remove it, then write the runs again: `{again}`") from error
    except OSError as error:
        raise BadInput(f"{error}; check the disk, and the permissions of that file") from error


def _open(link: str, folder: Path) -> None:
    """Opens a browser with a file that redirects to a link, because all users of a machine can read command lines."""
    page = folder / "open.html"
    page.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(link)}">')
    webbrowser.open(page.as_uri())


def _has_screen() -> bool:
    """Whether a person uses this terminal on a graphical desktop; else a browser would take over the terminal."""
    windows = sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(windows) and sys.stdout.isatty()


def _answers(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _removed(folder: Path) -> Generator[None]:
    """Removes a folder at the end, in case the supervisor that should have done so was killed."""
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _signals() -> Generator[list[int]]:
    """Collects the signals that ask a process to end, without letting them interrupt it."""
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
        raise BadInput(
            f"--port: port {port} is busy, another program listens there; give another one{other}"
        ) from error
    raise BadInput(f"--port: cannot listen on port {port} ({error}); give another") from error


def _why_not(port: int) -> Exception | None:
    """Returns the error that prevents listening on a port; None where there is none."""
    try:
        with socket.socket() as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            asked.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        return error
    return None
