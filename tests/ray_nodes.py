"""A Ray cluster of several nodes on this machine: a head and workers, each with processes of its own that can be
killed, stopped or drained without the others."""

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

PATIENCE_S = 300.0
TRIES = 3
MARK = "RAY_NODES_MARK"
_BIN = Path(sys.executable).parent
_NODE_ID = re.compile(r"--node_id=([0-9a-f]+)")
_STORE_BYTES = 100 * 2**20


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(kw_only=True)
class RayNode:
    """One node.

    Attributes:
        process: the `ray start` that leads it.
        log: what that says.
        mark: that all of its processes inherit.
    """

    process: "subprocess.Popen[bytes]"
    log: Path
    mark: str

    def processes(self) -> dict[int, str]:
        """Returns those that are alive: the command line by id."""
        found: dict[int, str] = {}
        for place in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"{MARK}={self.mark}".encode() in (place / "environ").read_bytes().split(b"\0"):
                    line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(place.name)] = line.strip()
        return {pid: line for pid, line in found.items() if line}  # a zombie has none

    def slots(self) -> list[int]:
        """Returns the processes of the slots that lie on it."""
        return [pid for pid, line in self.processes().items() if line.startswith("ray::Slot")]

    @property
    def id(self) -> str:
        """Ray's."""
        lines = [line for line in self.processes().values() if "raylet/raylet " in line]
        return next(found[1] for line in lines if (found := _NODE_ID.search(line)))

    def signal(self, number: signal.Signals) -> None:
        """Sends it to all of its processes."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def lose(self) -> None:
        """Kills all of its processes, as when its machine is gone; those that it begins meanwhile too."""
        deadline = time.monotonic() + PATIENCE_S
        while self.processes():
            assert time.monotonic() < deadline, self.processes()
            self.signal(signal.SIGKILL)
            time.sleep(0.02)
        self.process.wait()


@dataclass(kw_only=True)
class RayNodes:
    """A cluster that asks for a token.

    Attributes:
        port: of its head.
        nodes: the head first.
        environment: of who joins it.
    """

    port: int = field(default_factory=_free_port)
    nodes: list[RayNode] = field(default_factory=list[RayNode])
    environment: dict[str, str] = field(
        default_factory=lambda: {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_USAGE_STATS_ENABLED": "0",
        }
    )
    _folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="rn", dir="/tmp")))  # sockets go below

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def begin(self, workers: int, *, cpus: int = 1, **environment: str) -> None:
        """Starts a head and workers, and waits until all have joined.

        Args:
            workers: beside the head.
            cpus: of each of them and the head.
            environment: more of it, for the head.
        """
        own = f"--head --node-ip-address=127.0.0.1 --port={self.port} --include-dashboard=false"
        self._start(*own.split(), f"--temp-dir={self._folder / 'ray'}", f"--num-cpus={cpus}", **environment)
        for _ in range(workers):
            self._start(f"--address={self.address}", f"--num-cpus={cpus}")

    def drain(self, node: RayNode, *, deadline_s: int) -> None:
        """Gives the notice that a cloud gives before it takes a spot machine back."""
        words = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "taken back"]
        words += ["--node-id", node.id, "--deadline-remaining-seconds", str(deadline_s)]
        said = subprocess.run(
            [str(_BIN / "ray"), "drain-node", "--address", self.address, *words],
            env=self._environment(),
            cwd=self._folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert said.returncode == 0, said.stdout + said.stderr

    def slots(self) -> Sequence[int]:
        """Returns the processes of slots on any node."""
        return [pid for node in self.nodes for pid in node.slots()]

    def close(self) -> None:
        for node in reversed(self.nodes):
            node.lose()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, *options: str, **environment: str) -> None:
        """Starts a node and waits until it has joined; where the machine is busy, `ray start` gives up after 30 s."""
        deadline = time.monotonic() + PATIENCE_S
        for attempt in range(TRIES):
            node = self._started(options, environment)
            self.nodes.append(node)
            while node.process.poll() is None and time.monotonic() < deadline:
                if "Ray runtime started" in node.log.read_text():
                    return
                time.sleep(0.1)
            node.lose()
            assert attempt + 1 < TRIES, node.log.read_text()[-2000:]
            self.nodes.remove(node)

    def _started(self, options: Sequence[str], environment: Mapping[str, str]) -> RayNode:
        mark = uuid4().hex
        log = self._folder / f"{mark}.txt"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(_BIN / "ray"), "start", "--block", f"--object-store-memory={_STORE_BYTES}", *options],
                env={**self._environment(), **environment, MARK: mark},
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return RayNode(process=process, log=log, mark=mark)

    def _environment(self) -> dict[str, str]:
        left_out = ("CROWDSWEEP", "MLFLOW", "RAY", "PYTEST")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        path = f"{_BIN}{os.pathsep}{inherited.get('PATH', os.defpath)}"
        return {**inherited, "PATH": path, "OMP_NUM_THREADS": "1", **self.environment}
