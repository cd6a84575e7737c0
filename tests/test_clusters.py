"""The cluster files parse, and what `clusters/local.yaml` says to type does what it says."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from crowdsweep.record.journal import read_journal

ROOT = Path(__file__).parent.parent
PATIENCE_S = 90
SWEEP = """
name: joined
datasets: [anesthesia]
models: [majority-vote, uniform]
seeds: {report: 3}
tracking: {enabled: false}
"""
LISTENS = "0A"
Start = Callable[..., "subprocess.Popen[str]"]


def local() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "clusters" / "local.yaml").read_text())


def test_local_yaml_says_how_to_start_and_use_each_kind() -> None:
    described = local()
    assert list(described) == ["environment", "once", "one_node", "two_nodes"]
    for kind in ("one_node", "two_nodes"):
        assert list(described[kind]) == ["environment", "start", "run"]
        for act, begins in (("start", "ray start --block "), ("run", "crowdsweep run SWEEP")):
            commands = described[kind][act]
            assert commands
            assert all(command.startswith(begins) for command in commands)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts commands as a person would, each in a terminal of its own, on a HOME that cannot be written."""
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"  # below a file: not even root can write there
    environment = {**os.environ, **local()["environment"], "HOME": str(home), "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    environment |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    for name in ("RAY_ADDRESS", "CROWDSWEEP_PLUGINS"):
        environment.pop(name, None)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    started: list[subprocess.Popen[str]] = []

    def run(command: str, more: Mapping[str, str]) -> "subprocess.Popen[str]":
        words = command.replace("PORT", port).replace("SWEEP", "sweep.yaml").split()
        log = (tmp_path / f"{len(started)}.log").open("w")
        process = subprocess.Popen(
            words,
            env={**environment, **more},
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        log.close()
        started.append(process)
        return process

    yield run
    for process in reversed(started):
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("clusters")
def test_two_nodes_as_written(start: Start, tmp_path: Path) -> None:
    """Two nodes with one and two CPUs: a sweep that asks for two at a time finds them on the second."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    commands = local()["two_nodes"]
    begin = partial(start, more=commands["environment"])
    head, second = (begin(command) for command in commands["start"])
    deadline = time.monotonic() + PATIENCE_S
    while (run := begin(commands["run"][0])).wait(PATIENCE_S) != 0:  # until the second node has joined
        assert time.monotonic() < deadline, _said(tmp_path)
        assert head.poll() is None, _said(tmp_path)
        if second.poll() is not None:  # it was quicker than the head
            second = begin(commands["start"][1])
    assert run.returncode == 0
    state = read_journal(tmp_path / "crowdsweep-runs" / "joined")
    assert state.status == "done"
    assert len(state.results) == 6


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.xdist_group("clusters")
def test_one_node_as_written_listens_on_loopback_alone(start: Start, tmp_path: Path) -> None:
    """And a sweep joins it, though Ray itself would look for it at the machine's outer address."""
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    commands = local()["one_node"]
    head = start(commands["start"][0], commands["environment"])
    deadline = time.monotonic() + PATIENCE_S
    while start(commands["run"][0], {}).wait(PATIENCE_S) != 0:
        assert time.monotonic() < deadline, _said(tmp_path)
        assert head.poll() is None, _said(tmp_path)
    listening = _listening(_below(head.pid))
    assert len(listening) > 3  # the head's, and others of Ray's parts
    assert set(listening.values()) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, listening
    assert len(read_journal(tmp_path / "crowdsweep-runs" / "joined").results) == 6


def _below(pid: int) -> set[int]:
    """Returns a process and all that it has started."""
    found = {pid}
    parents = {int(place.parent.name): _parent(place) for place in Path("/proc").glob("[0-9]*/stat")}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has just ended
        return 0


def _listening(processes: set[int]) -> dict[int, str]:
    """Returns the address that is listened on by port, of these processes."""
    sockets: set[str] = set()
    for pid in processes:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                sockets.add(str(file.readlink()))
    found: dict[int, str] = {}
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and f"socket:[{words[9]}]" in sockets:
                address, _, port = words[1].partition(":")
                numbers = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
                packed = b"".join(number.to_bytes(4, sys.byteorder) for number in numbers)
                found[int(port, 16)] = socket.inet_ntop(family, packed)
    return found


def _said(folder: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in sorted(folder.glob("*.log")))
