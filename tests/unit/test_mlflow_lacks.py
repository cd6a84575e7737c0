"""What MLflow lacks of a sweep is said once, when the run ends, with the command that makes up for it."""

import socket
from pathlib import Path

import pytest

from crowdsweep.cli.commands import run_command_line

SWEEP = "name: mine\ndatasets: [anesthesia]\nmodels: [majority-vote]\nseeds: {report: 2}\nengine: inline\n"


def test_a_server_that_is_down_costs_one_line_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free.getsockname()[1]}")
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    store = tmp_path / "store"
    assert run_command_line(["run", str(tmp_path / "sweep.yaml"), "--store", str(store), "--quiet"]) == 0
    said = [record.getMessage() for record in caplog.records if record.name.startswith("crowdsweep")]
    told = [words for words in said if words.startswith("MLflow")]
    assert len(told) == 2, told
    assert told[0].startswith("MLflow cannot be written; the sweep continues"), "while it runs"
    assert told[1].startswith("MLflow lacks 2 trials and does not show the report as it is now: ")
    assert told[1].endswith(f"The record has it all: `crowdsweep mirror {store}` writes what is missing")
    assert (store / "report.html").is_file()
    assert "MLflow" not in capfd.readouterr().err
