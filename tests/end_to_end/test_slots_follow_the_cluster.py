"""Two shapes of slots on nodes that come and go, and a cluster that an autoscaler grows: each trial once, same numbers.

Nodes are processes of this machine that say what they have. The sweep runs as a command beside the test.
"""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from crowdsweep import app
from crowdsweep.errors import JournalError
from crowdsweep.record.journal import read_journal
from crowdsweep.sweepfile.read import parse_sweep

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("clusters")]

PATIENCE_S = 120.0
SPECIAL = 0.5  # smoothing: numbers of its own
MISBEHAVING = Path(__file__).parent.parent / "misbehaving"


@dataclass(kw_only=True)
class Machine:
    """Nodes of a cluster, and a sweep on it.

    Attributes:
        folder: for logs and stores.
        port: of the head.
        environment: of all processes.
        started: processes, each the leader of a group.
    """

    folder: Path
    port: int
    environment: dict[str, str]
    started: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def begin(self, *words: str, **more: str) -> "subprocess.Popen[bytes]":
        with (self.folder / f"{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                words,
                env={**self.environment, **more},
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def head(self, *options: str, **more: str) -> None:
        address = ("--node-ip-address=127.0.0.1", f"--port={self.port}", "--include-dashboard=false")
        self.begin("ray", "start", "--block", "--head", *address, *options, **more)
        self.wait_for(self._answers)

    def node(self, *options: str) -> "subprocess.Popen[bytes]":
        return self.begin("ray", "start", "--block", f"--address=127.0.0.1:{self.port}", *options)

    def sweep(self, mapping: dict[str, Any]) -> "subprocess.Popen[bytes]":
        (self.folder / "sweep.yaml").write_text(yaml.safe_dump(mapping))
        place = ["--address", f"127.0.0.1:{self.port}", "--store", "store"]
        return self.begin("crowdsweep", "run", "sweep.yaml", *place)

    def ended(self) -> Counter[str]:
        """Returns how many trials of each model have ended well by now."""
        try:
            state = read_journal(self.folder / "store")
        except JournalError:  # the sweep has not begun
            return Counter()
        well = [state.specs[key] for key, result in state.results.items() if result.failure is None]
        return Counter("special" if spec.params["smoothing"] == SPECIAL else "plain" for spec in well)

    def asked(self, program: str) -> str:
        """Returns what a program prints that has joined the cluster."""
        said = subprocess.run(
            [sys.executable, "-c", f"import ray; ray.init('127.0.0.1:{self.port}', log_to_driver=False); {program}"],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )
        return said.stdout.strip()

    def wait_for(self, whether: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not whether():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def said(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in sorted(self.folder.glob("*.log")))

    def close(self) -> None:
        for process in reversed(self.started):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _answers(self) -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = {
        **{name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "CROWDSWEEP_PLUGINS": str(MISBEHAVING),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    made = Machine(folder=tmp_path, port=port, environment=environment)
    yield made
    made.close()


def sweep_of(**more: Any) -> dict[str, Any]:
    waits = {"name": "slow", "params": {"steps": 4, "pause_s": 0.1, "smoothing": 0.3}}
    special = {**waits, "label": "special", "params": {**waits["params"], "smoothing": SPECIAL}}
    return {
        "name": "elastic",
        "datasets": ["anesthesia"],
        "models": [waits, {**special, "resources": {"custom": {"special": 1}}}],
        "seeds": {"report": 8},
        "pack": 1,
        "tracking": {"enabled": False},
        **more,
    }


def ended_as_inline(machine: Machine, mapping: dict[str, Any], tmp_path: Path) -> None:
    """Each trial of a sweep has one result, which is that of the same sweep without a cluster."""
    rows = [json.loads(line) for line in (machine.folder / "store" / "journal.jsonl").read_text().splitlines()]
    finished = Counter(row["data"]["result"]["key"] for row in rows if row["kind"] == "trial_finished")
    state = read_journal(machine.folder / "store")
    assert state.status == "done"
    assert set(finished.values()) <= {1}
    app.run(parse_sweep({**mapping, "engine": "inline"}), tmp_path / "inline", quiet=True)
    alone = read_journal(tmp_path / "inline").results
    assert {key: result.metrics for key, result in state.results.items()} == {
        key: result.metrics for key, result in alone.items()
    }


@pytest.mark.long
def test_two_shapes_while_one_node_is_killed_and_another_joins_late(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(MISBEHAVING))
    machine.head("--num-cpus=1")
    first = machine.node("--num-cpus=1", '--resources={"special": 1}')
    machine.wait_for(lambda: "special" in machine.asked("print(ray.cluster_resources())"))
    mapping = sweep_of()
    run = machine.sweep(mapping)
    machine.wait_for(lambda: machine.ended()["special"] > 0)
    os.killpg(first.pid, signal.SIGKILL)
    plain = machine.ended()["plain"]
    machine.wait_for(lambda: machine.ended()["plain"] > plain)
    assert run.poll() is None, "the one that is left has no special slot, and the sweep waits for one"
    machine.node("--num-cpus=1", '--resources={"special": 1}')
    assert run.wait(PATIENCE_S) == 0, machine.said()
    ended_as_inline(machine, mapping, tmp_path)


@pytest.mark.long
def test_an_autoscaler_grows_the_cluster_under_a_sweep_and_shrinks_it_again(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray's own provider of made-up nodes: a head without CPUs, and workers only while work waits."""
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(MISBEHAVING))
    from ray.util import get_node_ip_address

    kinds = {
        "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
        "plain": {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2},
        "special": {"resources": {"CPU": 1, "special": 1}, "node_config": {}, "min_workers": 0, "max_workers": 1},
    }
    growing = {
        "cluster_name": "made-up",
        "max_workers": 3,
        "idle_timeout_minutes": 0.1,
        "upscaling_speed": 10,
        "provider": {
            "type": "fake_multinode",
            "gcs_address": f"{get_node_ip_address()}:{machine.port}",
            "use_node_id_as_ip": True,  # all nodes share one address
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "available_node_types": kinds,
        "head_node_type": "ray.head.default",
        "auth": {},
        "docker": {},
        "file_mounts": {},
        "cluster_synced_files": [],
        "initialization_commands": [],
        "setup_commands": [],
        "head_setup_commands": [],
        "worker_setup_commands": [],
        "head_start_ray_commands": [],
        "worker_start_ray_commands": [],
    }
    (tmp_path / "growing.json").write_text(json.dumps(growing))
    fake = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
    machine.head("--num-cpus=0", f"--autoscaling-config={tmp_path / 'growing.json'}", **fake)
    nodes = "print(sum(node['Alive'] for node in ray.nodes()))"
    machine.wait_for(lambda: machine.asked(nodes) == "1")
    mapping = sweep_of(seeds={"report": 20})
    run = machine.sweep(mapping)
    machine.wait_for(lambda: int(machine.asked(nodes)) > 2)
    assert run.wait(PATIENCE_S) == 0, machine.said()
    ended_as_inline(machine, mapping, tmp_path)
    machine.wait_for(lambda: machine.asked(nodes) == "1")


@pytest.mark.long
def test_two_sweeps_share_a_cluster(machine: Machine) -> None:
    """The first would hold all of it for minutes; the second gets a slot when a batch of the first ends."""
    machine.head("--num-cpus=2")
    waits = {"name": "slow", "params": {"steps": 4, "pause_s": 0.2}}
    first = machine.sweep(sweep_of(models=[waits], seeds={"report": 1000}))
    machine.wait_for(lambda: machine.ended()["plain"] > 4)
    (machine.folder / "second.yaml").write_text(yaml.safe_dump(sweep_of(name="second", models=[waits])))
    place = ["--address", f"127.0.0.1:{machine.port}", "--store", "second"]
    second = machine.begin("crowdsweep", "run", "second.yaml", *place)
    assert second.wait(PATIENCE_S) == 0, machine.said()
    assert first.poll() is None, "it goes on beside the other"
    assert "the sweep second waits for room here" in machine.said()
    first.send_signal(signal.SIGINT)
    assert first.wait(PATIENCE_S) == 130, machine.said()
