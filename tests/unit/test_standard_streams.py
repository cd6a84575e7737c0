"""Closed or full streams, a removed current folder: a command ends in its result or one error, and harms no file."""

import subprocess
import sys
from pathlib import Path

import pytest

from crowdsweep.cli.commands import run_command_line

COMMAND = (sys.executable, "-P", "-m", "crowdsweep")


def ran(streams: str, *command: str) -> "subprocess.CompletedProcess[str]":
    shell = ["/bin/sh", "-c", f'exec "$@" {streams}', "sh", *command]
    return subprocess.run(shell, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("streams", [">/dev/full", ">/dev/full 2>&1"])
def test_output_that_cannot_be_written_is_one_error(streams: str) -> None:
    done = ran(streams, *COMMAND, "sweeps")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    said = [] if "2>" in streams else ["error: the output could not be written (No space left on device)"]
    assert [line.split(";")[0] for line in done.stderr.splitlines() if "loading" not in line] == said


def test_a_closed_output_is_no_error() -> None:
    done = ran(">&-", *COMMAND, "sweeps")
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (0, "", False)


def test_a_reader_who_leaves_is_no_error() -> None:
    """`crowdsweep results | head`, with `set -o pipefail`."""
    with subprocess.Popen([*COMMAND, "sweeps"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    assert (process.returncode, "Traceback" in said) == (0, False), said


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library or a child process prints would be written into it."""
    program = (
        "import os, sys; from crowdsweep.__main__ import _open_missing_streams; _open_missing_streams(); "
        "file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY); os.write(file, b'%d' % file); "
        "print('lost'); os.system('echo lost; echo lost >&2')"
    )
    assert ran("<&- >&- 2>&-", sys.executable, "-c", program, str(tmp_path / "file")).returncode == 0
    assert int((tmp_path / "file").read_text()) > 2


def test_a_current_folder_that_was_removed_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run_command_line(["data", "check", "."]) == 2
    assert "the current folder was removed" in capsys.readouterr().err
