"""A Ray cluster that is lost in mid-run: said in our words with the line to go on, and the next run ends well."""

import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.campaign import Undisturbed
from chaos.holds import broken_promises
from chaos.kills import LOST_CLUSTER
from chaos.sandbox import Command, Sandbox
from warm import WarmServer

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("clusters"), pytest.mark.long]

SAID_IN_S = 30.0
MEANWHILE_S = 60.0  # for the report and for a machine that is busy; what is promised is SAID_IN_S
TRIALS_FAILED = 3
SEEDS = 8
MID_RUN = 1 + 2 * SEEDS + SEEDS  # rows: the start, what is planned, the trials of the first model


@pytest.fixture
def box(warm: WarmServer) -> Iterator[Sandbox]:
    """Of a sweep whose second model goes no further while a file is there."""
    box = Sandbox(warm=warm)
    (box.folder / "hold").touch()
    held = {"name": "held", "params": {"by": str(box.folder / "hold")}}
    box.write(models=["majority-vote", held], seeds={"report": SEEDS})
    yield box
    box.close()


@pytest.fixture
def undisturbed(warm: WarmServer) -> Iterator[Undisturbed]:
    sweeps = Undisturbed(warm=warm)
    yield sweeps
    sweeps.close()


def goes_on_well(box: Sandbox, undisturbed: Undisturbed, command: Command, *, lost_at: float) -> None:
    code = box.finish(command)
    (box.folder / "hold").unlink()
    took = time.monotonic() - lost_at
    assert code == TRIALS_FAILED, f"exit code {code}: {box.said}"
    assert LOST_CLUSTER in box.said, box.said
    assert re.search(r"try again with `crowdsweep run sweep\.yaml --store store [^`]*--[^`]*`", box.said), box.said
    assert took < SAID_IN_S + MEANWHILE_S
    box.take_stock()
    assert len(box.kept) == SEEDS
    box.options = ["--engine", "ray"]  # where the cluster that was joined is gone, a person leaves --address out
    box.said = "" if "--address" in box.said else box.said
    assert box.go_on() == ""
    assert list(broken_promises(box, undisturbed.store_of(dict(box.mapping)))) == []


RAYLET, HEAD = "raylet/raylet ", "gcs/gcs_server "


@pytest.mark.parametrize(
    ("part", "number"),
    [
        (RAYLET, signal.SIGKILL),
        (RAYLET, signal.SIGTERM),  # it ends in order, and takes its node out of the cluster at once
        (HEAD, signal.SIGKILL),
        (HEAD, signal.SIGTERM),
    ],
)
def test_a_part_of_our_own_cluster_ends(
    part: str, number: signal.Signals, box: Sandbox, undisturbed: Undisturbed
) -> None:
    box.options = ["--engine", "ray"]
    command = box.start()
    box.until_rows(MID_RUN, command)
    victim = box.process(part)
    assert victim is not None, command.said
    os.kill(victim, number)
    goes_on_well(box, undisturbed, command, lost_at=time.monotonic())


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_cluster_that_was_joined_is_lost(number: signal.Signals, box: Sandbox, undisturbed: Undisturbed) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    box.environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    box.environment |= {"RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="head-") as folder:  # a short path: sockets go below it
        _lost_once_joined(port, number, Path(folder), box, undisturbed)


def _lost_once_joined(port: int, number: signal.Signals, folder: Path, box: Sandbox, undisturbed: Undisturbed) -> None:
    program = [str(Path(sys.executable).parent / "ray")]
    start = shlex.split("start --block --head --node-ip-address=127.0.0.1 --num-cpus=2 --include-dashboard=false")
    with (folder / "head.txt").open("wb") as log:
        head = subprocess.Popen(
            [*program, *start, f"--port={port}", f"--temp-dir={folder}/ray"],
            env={**os.environ, **box.environment},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        box.options = ["--engine", "ray", "--address", f"127.0.0.1:{port}"]
        deadline = time.monotonic() + 90
        while "Ray runtime started" not in (folder / "head.txt").read_text():
            assert head.poll() is None, (folder / "head.txt").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        command = box.start()
        box.until_rows(MID_RUN, command)
        assert not command.is_over, command.said
        os.killpg(head.pid, number)
        goes_on_well(box, undisturbed, command, lost_at=time.monotonic())
    finally:
        if head.poll() is None:
            os.killpg(head.pid, signal.SIGKILL)
        head.wait()
