"""MLflow's server answers that it fails, or that it is asked too often: said at once, and not asked for minutes."""

import logging
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow_sweeps import outcomes, sweep

from crowdsweep.errors import BadInput
from crowdsweep.record.journal import read_journal
from crowdsweep.tracking.mlflow_failures import TrackingFailed
from crowdsweep.tracking.mlflow_reachable import check_reachable
from crowdsweep.tracking.mlflow_runs import rebuild

SOON_S = 10.0


@pytest.fixture(params=[429, 500, 502, 503, 504])
def failing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A server's URI and the status that it answers everything with."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "7")  # MLflow's own

    class Failing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(request.param)

        do_POST = do_GET

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", request.param
    server.shutdown()
    server.server_close()


def test_it_is_said_at_once(failing: tuple[str, int], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri, status = failing
    began = time.monotonic()
    with pytest.raises(TrackingFailed, match=str(status)):
        check_reachable(uri)
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        state = sweep(tmp_path, outcomes(), uri=uri)
    with pytest.raises(BadInput, match=f"cannot be written: .*{status}"):
        rebuild(state, uri, "an experiment")
    assert time.monotonic() - began < SOON_S
    assert len(read_journal(tmp_path).results) == 4
    told = [record.getMessage() for record in caplog.records]
    assert str(status) in told[0]
    assert told[-1] == "MLflow lacks 4 trials"
