"""The folder around what Ray keeps: nobody takes a living process's, and the next one removes that of a dead one."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crowdsweep.sweep.private_folder import PrivateFolder

DIES = """
import os
from crowdsweep.sweep.private_folder import PrivateFolder
print(PrivateFolder().made("ray").parent, flush=True)
os._exit(9)
"""


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where such folders are made: of a short name, as sockets lie in them."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as short:
        monkeypatch.setenv("RAY_TMPDIR", short)
        yield Path(short)


def died(place: Path) -> Path:
    """Returns the folder that a process leaves which is gone."""
    program = [sys.executable, "-c", DIES]
    environment = {**os.environ, "RAY_TMPDIR": str(place)}
    said = subprocess.run(program, env=environment, capture_output=True, text=True, check=False).stdout
    folder = Path(said.strip())
    assert folder.parent == place
    assert folder.is_dir()
    return folder


def test_what_a_process_left_that_died_a_moment_ago_is_removed(place: Path) -> None:
    left = died(place)
    mine = PrivateFolder()
    assert not left.exists()
    mine.close()
    assert list(place.iterdir()) == []


def test_folders_of_processes_that_live_are_left_alone(place: Path) -> None:
    first = PrivateFolder()
    inside = first.made("ray")
    second = PrivateFolder()
    assert inside.is_dir()
    second.close()
    assert inside.is_dir()
    first.close()


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (1000, False)])
def test_a_folder_that_got_no_lock_is_somebody_s_for_a_minute(age_s: float, stays: bool, place: Path) -> None:
    being_made = place / "crowdsweep-abcdefgh"
    being_made.mkdir()
    os.utime(being_made, (time.time() - age_s,) * 2)
    PrivateFolder().close()
    assert being_made.exists() is stays
