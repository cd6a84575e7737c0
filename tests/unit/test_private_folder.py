"""The folder around what Ray keeps: nobody takes a living process's, and the next one removes that of a dead one."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from crowdsweep.engine.cluster import Cluster
from crowdsweep.engine.private_folder import VARIABLE, PrivateFolder

DIES = """
import os
from crowdsweep.engine.private_folder import PrivateFolder
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


def heir() -> "subprocess.Popen[bytes]":
    """Starts a process that would stay, as the parts of a cluster are started: the folder's name is handed down."""
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # before that the system may not tell its environment
    return process


def test_processes_that_belong_to_a_folder_end_with_it(place: Path) -> None:
    before = heir()
    folder = PrivateFolder()
    inside = heir()
    folder.close()
    after = heir()
    try:
        assert inside.wait(30) == -signal.SIGKILL
        assert before.poll() is None
        assert after.poll() is None
        PrivateFolder().close()
        assert after.poll() is None
    finally:
        for process in (before, inside, after):
            process.kill()
            process.communicate()


def test_processes_of_a_folder_whose_own_process_died_are_ended_by_the_next_one(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = died(place)
    monkeypatch.setenv(VARIABLE, str(left))
    orphan = heir()
    monkeypatch.delenv(VARIABLE)
    PrivateFolder().close()
    assert orphan.wait(30) == -signal.SIGKILL
    orphan.communicate()


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


@pytest.mark.parametrize("lock", [None, b"", b"mine", b'{"format": "crowdsweep-ray"}'])
def test_a_person_s_folder_that_happens_to_be_called_so_stays(lock: bytes | None, place: Path) -> None:
    own = place / "crowdsweep-datasets"  # eight characters behind the dash, as those of ours have
    own.mkdir()
    (own / "thesis.tex").write_text("mine")
    if lock is not None:
        (own / "lock").write_bytes(lock)
    os.utime(own, (time.time() - 1000,) * 2)
    PrivateFolder().close()
    assert (own / "thesis.tex").read_text() == "mine"


@pytest.mark.ray
@pytest.mark.xdist_group("ray")
@pytest.mark.skipif(sys.platform != "linux", reason="environments of processes are read from /proc")
def test_every_process_of_a_cluster_of_ours_tells_which_folder_it_belongs_to(ray_cluster: Cluster) -> None:
    """Ray's agents would write their title over the beginning of what they tell."""
    del ray_cluster
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(stat.parent.name)] = parent_of(stat.read_text())
    cluster = {child for child, parent in parents.items() if parent == os.getpid()}
    cluster |= {child for child, parent in parents.items() if parent in cluster}
    agents = [process for process in cluster if title_of(process) in ("ray::DashboardAgent", "ray::RuntimeEnvAgent")]
    assert {title_of(process) for process in agents} == {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}
    for process in agents:
        told = Path(f"/proc/{process}/environ").read_bytes()
        assert any(entry.startswith(f"{VARIABLE}=/".encode()) for entry in told.split(b"\0"))
        assert not told.startswith(b"\0")


def title_of(process: int) -> str:
    with suppress(OSError):  # it has ended
        return Path(f"/proc/{process}/cmdline").read_text().rstrip("\0")
    return ""


def parent_of(stat: str) -> int:
    """Returns the parent's id of a line of /proc/PID/stat; the name before it may hold anything."""
    return int(stat.rpartition(")")[2].split()[1])
