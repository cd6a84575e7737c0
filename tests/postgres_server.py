"""A PostgreSQL server that a test starts on loopback, kills, and starts again, with the tables of MLflow in it."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock

NO_POSTGRES = "there is no PostgreSQL (Debian: `apt-get install postgresql`), or no psycopg2"
_ACCOUNTS = ("postgres", "nobody")
# Little memory, and no waiting for the disk: it is processes that are killed, not machines.
_SETTINGS = (
    "fsync=off shared_buffers=16MB max_connections=20 autovacuum=off max_wal_size=64MB listen_addresses=127.0.0.1"
)
_MAKES_TABLES = (
    "import sys; from mlflow import MlflowClient; MlflowClient(sys.argv[1]).search_experiments(max_results=1)"
)


@cache
def programs() -> Path | None:
    """Returns the folder of PostgreSQL's own programs, the newest there are; None where it cannot be used."""
    try:
        import psycopg2  # noqa: F401
    except ImportError:
        return None
    on_path = shutil.which("initdb")
    places = [Path(on_path).resolve().parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


@cache
def _account() -> str | None:
    """Returns the account that it runs as: root is refused, so that another one is needed there."""
    if os.geteuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in _ACCOUNTS if name in names)


def _own_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    _give(folder)
    return folder


def _give(folder: Path) -> None:
    if account := _account():
        entry = pwd.getpwnam(account)
        os.chown(folder, entry.pw_uid, entry.pw_gid)


@dataclass(kw_only=True)
class PostgresServer:
    """A server with its data in a folder of its own; an empty one has to be made (`made`)."""

    folder: Path = field(default_factory=_own_folder)
    port: int = 0

    def __post_init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = self.port or free.getsockname()[1]

    @property
    def uri(self) -> str:
        return f"postgresql+psycopg2://runs@127.0.0.1:{self.port}/runs"

    def start(self) -> None:
        """Starts it and waits until it answers."""
        settings = " ".join(f"-c {one}" for one in _SETTINGS.split())
        self._control(
            "start", "-w", "-l", str(self.folder / "log"), "-o", f"{settings} -p {self.port} -k {self.folder}"
        )

    def kill(self) -> None:
        """Has all of its processes end at once, with nothing written any more; may be called twice."""
        if (self.folder / "data" / "postmaster.pid").exists():
            with suppress(subprocess.CalledProcessError):
                self._control("stop", "-w", "-m", "immediate")

    def close(self) -> None:
        """Kills it and removes its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def make(self) -> None:
        """Makes its data, with the tables of MLflow."""
        _run("initdb", "-D", str(self.folder / "data"), "-U", "runs", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        self.start()
        _run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "runs", "runs")
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true"}
        with tempfile.TemporaryDirectory() as place:  # where MLflow makes a folder for artifacts
            command = [sys.executable, "-P", "-c", _MAKES_TABLES, self.uri]
            subprocess.run(command, check=True, cwd=place, env={**os.environ, **quiet}, capture_output=True)
        self._control("stop", "-w", "-m", "fast")

    def _control(self, *words: str) -> None:
        _run("pg_ctl", "-D", str(self.folder / "data"), "-s", *words)


def _run(program: str, *words: str) -> None:
    place = programs()
    assert place is not None, NO_POSTGRES
    account = _account()
    # Its server inherits what is open here: nothing is, or whoever waits for the end of a stream waits for ever.
    subprocess.run(
        [str(place / program), *words],
        check=True,
        cwd="/",
        user=account,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class Postgres:
    """Makes servers alike, the data being made once: making it takes seconds."""

    def __init__(self) -> None:
        self._first: PostgresServer | None = None
        self._guard = Lock()

    def server(self) -> PostgresServer:
        """Returns a server that does not run yet."""
        with self._guard:
            if self._first is None:
                first = PostgresServer()
                first.make()
                self._first = first
        made = PostgresServer()
        copy = ["cp", "-a", str(self._first.folder / "data"), str(made.folder)]  # owners too, as root
        subprocess.run(copy, check=True)
        return made

    def close(self) -> None:
        """Removes the data that servers are copies of."""
        if self._first is not None:
            self._first.close()
