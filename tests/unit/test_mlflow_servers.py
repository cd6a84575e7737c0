"""MLflow on a server: down, slow, with a password."""

import logging
import socket
import threading
import time
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from journals import folded
from mirror_checks import started
from mlflow_sweeps import outcomes, sweep

from crowdsweep import app
from crowdsweep.errors import BadInput
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.tracking.mlflow_runs import (
    MlflowMirror,
    rebuild,
)
from crowdsweep.views.in_mlflow import rebuild_runs


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def nobody_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, "")  # so that what a test sets is undone


@pytest.mark.usefixtures("nobody_logged_in")
def test_a_server_that_is_down_delays_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        state = sweep(tmp_path, outcomes(), uri=f"http://somebody:secret@127.0.0.1:{port}")
    assert len(state.results) == 4
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert f"no tracking server answers at 127.0.0.1:{port}" in told[0]
    assert "lacks 4 trials" in told[1]
    assert "secret" not in caplog.text


@pytest.mark.usefixtures("nobody_logged_in")
@pytest.mark.parametrize("uri", ["http://me:hunter2@127.0.0.1:{port}", "postgres://me:hunter2@127.0.0.1:{port}/runs"])
def test_a_password_goes_nowhere(
    tmp_path: Path, uri: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nobody listens at the first, and MLflow does not know the scheme of the second, which it cites."""
    uri = uri.format(port=free_port())
    config = parse_sweep(
        {
            "name": "discreet",
            "datasets": ["anesthesia"],
            "models": ["majority-vote"],
            "seeds": {"report": 1},
            "engine": "inline",
            "tracking": {"uri": uri},
        }
    )
    with caplog.at_level(logging.DEBUG):
        assert app.run(config, tmp_path).status == "done"
        with pytest.raises(BadInput, match="cannot be written") as refused:
            rebuild_runs(tmp_path, uri)
    assert "MLflow cannot be written" in caplog.text
    assert read_journal(tmp_path).config["tracking"]["uri"] == uri.replace("me:hunter2@", "")
    told = [caplog.text, *capfd.readouterr(), str(refused.value)]
    told += [path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in told if "hunter2" in text]


@pytest.mark.usefixtures("nobody_logged_in")
def test_a_server_is_sent_the_name_and_password(tmp_path: Path) -> None:
    sent: list[str | None] = []

    class Guarded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.append(self.headers["Authorization"])
            self.send_error(403)

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Guarded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    journal = Journal(tmp_path)
    journal.handle(started())
    journal.close()
    with pytest.raises(BadInput, match="403"):
        rebuild(read_journal(tmp_path), f"http://me:w%40rd@127.0.0.1:{server.server_port}", "x")
    server.shutdown()
    server.server_close()
    assert set(sent) == {"Basic " + b64encode(b"me:w@rd").decode()}


class SlowServer(BaseHTTPRequestHandler):
    """Takes a connection and does not answer."""

    def do_GET(self) -> None:
        time.sleep(30)

    do_POST = do_GET

    def log_message(self, *words: object) -> None: ...


@pytest.mark.usefixtures("nobody_logged_in")
def test_ctrl_c_leaves_a_slow_server_to_mirror(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowServer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    presses, told = 0, []
    state = folded([started(), *outcomes()])
    mirror = MlflowMirror(
        tmp_path,
        experiment="x",
        look=lambda: state,
        uri=f"http://127.0.0.1:{server.server_port}",
        presses=lambda: presses,
        tell=told.append,
    )
    mirror.handle(state.started[0])

    def press() -> None:
        nonlocal presses
        presses += 1

    threading.Timer(5.0, press).start()
    began = time.monotonic()
    mirror.close()
    took_s = time.monotonic() - began
    server.shutdown()
    server.server_close()
    assert 4.5 < took_s < 10.0
    assert told == [f"MLflow: 4 runs to go; Ctrl-C leaves the rest to `crowdsweep mirror {tmp_path}`"]
    assert mirror.lacks == "4 trials"


def test_after_a_second_ctrl_c_nothing_is_waited_for(tmp_path: Path) -> None:
    state = folded([started()])
    mirror = MlflowMirror(tmp_path, experiment="x", look=lambda: state, presses=lambda: 2)
    mirror.handle(state.started[0])
    began = time.monotonic()
    mirror.close()
    assert time.monotonic() - began < 2.0
