"""Opens a sweep's runs in MLflow's own pages, on loopback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from crowdsweep.errors import BadInput
from crowdsweep.journal.journal import read_journal

DATABASE = "mlflow.db"
ARTIFACTS = "mlartifacts"


def serve(store: Path, port: int, announce: Callable[[str], object]) -> int:
    """Serves the database beside the record until it is interrupted; returns the server's exit code.

    A sweep that was tracked on a server needs none of ours: its address is announced instead.

    Raises:
        BadInput: the sweep has no MLflow runs.
    """
    database = store / DATABASE
    if not database.is_file():
        for uri in read_journal(store).runs:
            if uri.startswith(("http://", "https://", "databricks")):
                announce(f"this sweep is tracked on {uri}: open it there")
                return 0
        raise BadInput(
            f"{store}: expected MLflow runs in {DATABASE}, found none; write them: `crowdsweep mirror {store}`"
        )
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--backend-store-uri", f"sqlite:///{database.resolve()}"]
    command += ["--artifacts-destination", str((store / ARTIFACTS).resolve()), "--workers", "1"]
    announce(f"MLflow on http://127.0.0.1:{port} (Ctrl-C ends it)")
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    server = subprocess.Popen(command, env=environment)  # noqa: S603 - our own interpreter and fixed words
    try:
        return server.wait()
    except KeyboardInterrupt:
        server.terminate()
        server.wait()
        return 0
