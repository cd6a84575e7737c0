"""What `mirror` and `run` say where MLflow's server or database cannot be used: in our words, soon, without secrets."""

import json
import logging
import resource
import shutil
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy
from mirror_checks import started
from mlflow.exceptions import MlflowException
from mlflow_sweeps import outcomes, sweep

from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import BadInput
from crowdsweep.record.events import RunsCreated
from crowdsweep.record.journal import Journal
from crowdsweep.tracking import mlflow_reachable, ui
from crowdsweep.tracking.mlflow_failures import TrackingFailed, words_of
from crowdsweep.tracking.mlflow_reachable import check_reachable

PASSWORD = "hunter2"
SOON_S = 10.0


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store whose sweep MLflow has never heard of."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    return recorded(tmp_path / "store")


def recorded(folder: Path, **config: Any) -> Path:
    journal = Journal(folder)
    beginning = started()
    journal.handle_many([type(beginning)(**{**vars(beginning), "config": {**beginning.config, **config}}), *outcomes()])
    journal.close()
    return folder


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Runs a command that must end with one message, soon; returns the message."""
    began = time.monotonic()
    assert run_command_line(list(words)) == 2
    assert time.monotonic() - began < SOON_S
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert PASSWORD not in said
    (message,) = [line for line in said.splitlines() if line]
    assert message.startswith("error: MLflow at ")
    return message


DRIVERS = {
    "postgresql": "psycopg",
    "postgresql+psycopg2": "psycopg2",
    "mysql": "MySQLdb",
    "mysql+pymysql": "pymysql",
    "mssql+pyodbc": "pyodbc",
}


@pytest.mark.parametrize("scheme", DRIVERS)
def test_a_driver_that_is_not_installed(
    record: Path, scheme: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, DRIVERS[scheme], None)  # also where somebody has installed it
    message = refused(capsys, "mirror", str(record), "--uri", f"{scheme}://me:{PASSWORD}@127.0.0.1:1/runs")
    assert f"needs the driver {DRIVERS[scheme]}, which is not installed: `pip install '" in message
    assert f"{scheme}://127.0.0.1:1/runs" in message


@pytest.fixture
def with_driver(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Has PostgreSQL's driver be there; connecting does what stands in the list."""
    answers: list[Any] = []
    module = SimpleNamespace(paramstyle="pyformat", Error=RuntimeError)
    dialect = sqlalchemy.make_url("postgresql+psycopg2://").get_dialect()
    monkeypatch.setattr(dialect, "import_dbapi", classmethod(lambda cls: module))

    def connect(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(connect=answers.pop(), dispose=lambda: None)

    monkeypatch.setattr(mlflow_reachable.sqlalchemy, "create_engine", connect)
    return answers


def test_a_database_that_is_down(record: Path, with_driver: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    with listening() as port:
        pass
    uri = f"postgresql+psycopg2://me:{PASSWORD}@127.0.0.1:{port}/runs"
    assert f"no database answers at 127.0.0.1:{port}" in refused(capsys, "mirror", str(record), "--uri", uri)


def test_a_database_that_is_silent(
    record: Path, with_driver: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_reachable, "PATIENCE_S", 0.3)
    ended = threading.Event()
    with_driver.append(lambda: ended.wait(20))
    with listening() as port:
        uri = f"postgresql+psycopg2://me:{PASSWORD}@127.0.0.1:{port}/runs"
        assert "does not answer within 0.3 s" in refused(capsys, "mirror", str(record), "--uri", uri)
    ended.set()


def test_a_database_that_wants_another_password(
    record: Path, with_driver: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        words = 'FATAL:  password authentication failed for user "me"\n'
        raise sqlalchemy.exc.OperationalError("SELECT 1", {}, RuntimeError(words))

    with listening() as port:
        for given, hinted in ((f"me:{PASSWORD}@", False), ("", True)):
            with_driver.append(refuse)
            uri = f"postgresql+psycopg2://{given}127.0.0.1:{port}/runs"
            message = refused(capsys, "mirror", str(record), "--uri", uri)
            assert "password authentication failed" in message
            assert ("the record does not keep passwords" in message) == hinted


@contextmanager
def listening() -> Iterator[int]:
    """A port that takes connections and answers nobody."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        yield silent.getsockname()[1]


@contextmanager
def answering(status: int, content: str, kind: str = "text/html") -> Iterator[str]:
    """A server that gives everybody the same answer."""

    class Same(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content.encode())

        do_POST = do_PATCH = do_GET

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Same)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


PAGE = "<!doctype html>" + "<p>" * 3000
SERVERS = {
    "401": (401, "You are not authenticated", "requires a user name and a password (401)"),
    "403": (403, PAGE, "denies access to this user, or to this operation (403)"),
    "404": (404, PAGE, "there is no MLflow server at this address (404)"),
    "500": (500, PAGE, "the server failed (status 500)"),
    "502": (502, PAGE, "the server failed (status 502)"),
    "a page": (200, PAGE, "not as an MLflow server"),
    "a list": (200, "[]", "not as an MLflow server"),
    "MLflow's own": (
        400,
        json.dumps({"error_code": "INTERNAL_ERROR", "message": "no\nroom"}),
        "INTERNAL_ERROR: no room",
    ),
}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_is_none_or_fails(record: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, content, expected = SERVERS[kind]
    with answering(status, content) as uri:
        message = refused(capsys, "mirror", str(record), "--uri", uri)
    assert expected in message
    assert "<" not in message
    assert len(message) < 700


def test_a_server_that_takes_connections_and_never_answers(
    record: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_reachable, "PATIENCE_S", 0.5)
    with listening() as port:
        message = refused(capsys, "mirror", str(record), "--uri", f"http://127.0.0.1:{port}")
    assert "does not answer within 0.5 s" in message


def test_a_server_that_answers_late_is_waited_for(record: Path) -> None:
    with answering(200, "{}", "application/json") as uri:
        check_reachable(uri)
    with pytest.raises(TrackingFailed, match="no tracking server answers"):
        check_reachable(uri)


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """No file of this process grows beyond so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_is_full(
    record: Path, empty_database: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Before MLflow's tables are made, and when there is no room for runs; `run` says it once, without SQL."""
    with full_disk(100_000):
        message = refused(capsys, "mirror", str(record))
    assert "full" in message
    assert "CREATE" not in message
    assert not list(record.glob("mlflow.db*")), "nothing half-made is left"
    shutil.copy(empty_database, record / "mlflow.db")
    with full_disk(50_000):
        assert "full" in refused(capsys, "mirror", str(record))
    with full_disk(100_000), caplog.at_level(logging.WARNING, logger="crowdsweep"):
        sweep(record.parent / "another", outcomes((0,)))
    told = [entry.getMessage() for entry in caplog.records if entry.name.startswith("crowdsweep")]
    assert sum("cannot be written; the sweep continues" in words for words in told) == 1
    assert all(len(words) < 500 and "\n" not in words and "CREATE" not in words for words in told)


def test_words_of_what_libraries_raise() -> None:
    uri = f"sqlite:///place.db?key={PASSWORD}"
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    wrapped = sqlalchemy.exc.OperationalError("INSERT INTO runs VALUES (?)", (PASSWORD,), full)
    of_mlflow = MlflowException(str(wrapped))
    of_mlflow.__cause__ = wrapped
    for error in (full, wrapped, of_mlflow):
        assert "the disk is full" in words_of(error, uri)
        assert "INSERT" not in words_of(error, uri)
    for said in (f"one\ntwo {PASSWORD}\x1b[2J", "x" * 10_000):
        words = words_of(RuntimeError(said), uri)
        assert "\n" not in words
        assert "\x1b" not in words
        assert PASSWORD not in words
        assert len(words) < 500


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("http://host:5000/", "http://host:5000/#/experiments/7/runs"),
        ("databricks", "tracked on databricks: open it there"),
    ],
)
def test_ui_says_where_a_sweep_is_tracked(
    tmp_path: Path, uri: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the record of its runs, and by the sweep file's place where that was lost; also beside an older database."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    by_runs, by_file = recorded(tmp_path / "runs"), recorded(tmp_path / "file", tracking={"uri": uri})
    journal = Journal(by_runs)
    journal.handle(RunsCreated(tracking_uri=uri, experiment_id="7", runs={"a": "b"}))
    journal.close()
    (by_file / "mlflow.db").write_bytes(b"")
    told: list[str] = []
    assert ui.serve(by_runs, 0, told.append) == 0
    assert expected in told.pop()
    assert ui.serve(by_file, 0, told.append) == 0
    assert uri in told.pop()


def test_ui_and_mirror_do_not_send_each_other_round(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="write them: `crowdsweep mirror"):
        ui.serve(record, 0, print)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(BadInput, match="write them: `MLFLOW_TRACKING_URI= crowdsweep mirror"):
        ui.serve(record, 0, print)
    journal = Journal(record)
    with pytest.raises(BadInput, match="the sweep has only begun"):
        ui.serve(record, 0, print)
    journal.close()


def test_a_browser_is_not_started_with_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(ui.webbrowser, "open", opened.append)
    ui._open("http://127.0.0.1:5000/?token=abc#/x&y", tmp_path)
    (address,) = opened
    assert "abc" not in address
    assert 'url=http://127.0.0.1:5000/?token=abc#/x&amp;y"' in (tmp_path / "open.html").read_text()


def test_no_database_is_made_where_a_record_alone_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is one that is another program's changed."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    elsewhere = tmp_path / "elsewhere.db"
    store = recorded(tmp_path / "store", tracking={"uri": f"sqlite:///{elsewhere}"})
    assert run_command_line(["mirror", str(store)]) == 2
    assert f"--uri sqlite:///{elsewhere}" in capsys.readouterr().err
    assert not elsewhere.exists()
    with sqlite3.connect(elsewhere) as rows:
        rows.execute("CREATE TABLE bookmarks (place TEXT)")
    before = elsewhere.read_bytes()
    assert run_command_line(["mirror", str(store)]) == 2
    assert "cannot be used as MLflow's database" in capsys.readouterr().err
    assert elsewhere.read_bytes() == before


def test_a_uri_that_the_record_keeps_without_a_part_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    store = recorded(tmp_path / "store", tracking={"uri": "https://host/***/mlflow"})
    assert run_command_line(["mirror", str(store)]) == 2
    assert "give the complete URI as MLFLOW_TRACKING_URI" in capsys.readouterr().err
    with listening() as port:
        pass
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:{PASSWORD}@127.0.0.1:{port}/s3cr3t/mlflow")
    whole = recorded(tmp_path / "whole", tracking={"uri": f"http://127.0.0.1:{port}/***/mlflow"})
    assert "no tracking server answers" in refused(capsys, "mirror", str(whole))
