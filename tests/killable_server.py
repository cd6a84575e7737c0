"""An MLflow server that a test starts on loopback, kills, and starts again."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

STARTS_S = 90.0


class KillableServer:
    """A server with its data in a folder, or in a database and an object store.

    Args:
        folder: of its log, and of its data.
        database: URI; a file in the folder where None.
        artifacts: URI that they go to by way of the server; a folder in the folder where None.
    """

    def __init__(self, folder: Path, *, database: str | None = None, artifacts: str | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self._port}"
        self._folder = folder
        self._database = database or f"sqlite:///{folder / 'served.db'}"
        self._artifacts = artifacts or str(folder / "artifacts")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it answers."""
        command = [sys.executable, "-P", "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self._port)]
        command += ["--backend-store-uri", self._database, "--workers", "1"]
        command += ["--artifacts-destination", self._artifacts]
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env={**environment, **quiet}, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + STARTS_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "server.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "the tracking server does not start"
            time.sleep(0.1)

    def kill(self) -> None:
        """Kills it with its workers; may be called twice."""
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            while self._listens():  # its workers are dying
                time.sleep(0.01)

    def _listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5).close()
        except OSError:
            return False
        return True

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False
