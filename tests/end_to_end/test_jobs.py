"""Sweeps as jobs of a Ray cluster of two nodes with a token, started by hand as a person would."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from warm import WarmServer

from crowdsweep.errors import JournalError
from crowdsweep.record.journal import read_journal

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("clusters")]

PATIENCE_S = 240.0
MARK = "CROWDSWEEP_TEST_CLUSTER"
SWEEP = """
name: {name}
datasets: [{dataset}]
models: [majority-vote, {model}]
seeds: {{report: 2}}
tracking: {{enabled: false}}
"""
PLUGIN = '''
"""A plug-in that the cluster has not."""
from crowdsweep.models.aggregate.majority_vote import MODEL as KNOWN
from dataclasses import replace

MODEL = replace(KNOWN, name="brought")
'''


@dataclass(frozen=True, kw_only=True)
class Started:
    """A cluster: the address of its dashboard, and the environment of who uses it."""

    address: str
    environment: Mapping[str, str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    """Two nodes of one CPU each. Nothing of them is left when the tests have ended."""
    folder = tmp_path_factory.mktemp("cluster")
    mark = secrets.token_hex(8)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CROWDSWEEP_", "RAY_"))}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DASHBOARD_STARTUP_TIMEOUT_S": str(int(PATIENCE_S)),
        "RAY_worker_niceness": "0",
        "OMP_NUM_THREADS": "1",
    }
    port, dashboard, client, *agents = free_ports(5)
    # Not blocked: where its door for Ray Client, which is not used, comes up too late, the others stand all the same.
    nodes = [
        f"--head --port={port} --dashboard-port={dashboard} --ray-client-server-port={client} --temp-dir=/tmp/r{mark}",
        f"--address=127.0.0.1:{port}",
    ]
    try:
        for words, agent in zip(nodes, agents, strict=True):
            begun = subprocess.run(
                f"ray start --num-cpus=1 --dashboard-agent-listen-port={agent} {words}".split(),
                env={**environment, MARK: mark},
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
            assert begun.returncode == 0, begun.stdout + begun.stderr
        yield Started(address=f"http://127.0.0.1:{dashboard}", environment=environment)
    finally:
        for log in Path(f"/tmp/r{mark}/session_latest/logs").glob("job-driver-*.log"):
            print(log.name, log.read_text()[-3000:], sep="\n")  # shown where a test failed
        end_marked(f"{MARK}={mark}")
        shutil.rmtree(f"/tmp/r{mark}", ignore_errors=True)


def free_ports(number: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def end_marked(mark: str) -> None:
    """Kills every process that inherited the mark, and returns when they are gone."""
    while marked := [place for place in Path("/proc").glob("[0-9]*/environ") if mark in variables(place)]:
        for place in marked:
            with suppress(OSError):
                os.kill(int(place.parent.name), signal.SIGKILL)
        time.sleep(0.1)


def variables(environ: Path) -> list[str]:
    try:
        return environ.read_text(errors="replace").split("\0")
    except OSError:  # it has ended, or is somebody else's
        return []


def command(cluster: Started, *words: str, cwd: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words,
        env={**cluster.environment, **more},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def in_a_terminal_that_is_killed(cluster: Started, line: str, until: str, cwd: Path, **more: str) -> None:
    """Types a command into a terminal of its own, which is killed when the command has said something."""
    heard = cwd / "terminal"
    with heard.open("w") as said:
        terminal = subprocess.Popen(
            ["bash", "-c", f"{line}; sleep 600"],
            env={**cluster.environment, **more},
            cwd=cwd,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(lambda: until in heard.read_text(), heard.read_text)
    finally:
        os.killpg(terminal.pid, signal.SIGKILL)
        terminal.wait()


def wait_for(done: Callable[[], bool], why_not: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, why_not()
        time.sleep(0.3)


def asked(warm: WarmServer, cluster: Started, cwd: Path, *words: str) -> str:
    """Returns what a command of ours says."""
    done = warm.run(words, cwd=cwd, env=cluster.environment, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("of_ray", [["with"], pytest.param(["with", "without"], marks=pytest.mark.long)], ids=len)
def test_a_submitted_sweep_and_rays_own_jobs_run_to_their_end(
    of_ray: Sequence[str], cluster: Started, tmp_path: Path, warm: WarmServer
) -> None:
    """At once, to wait once: `submit --detach` whose terminal is killed, and `ray job submit` with a working directory
    and without."""
    home, stores, elsewhere = tmp_path / "home", tmp_path / "stores", tmp_path / "elsewhere"
    for folder in (home / "photos", home / "plugins", elsewhere):
        folder.mkdir(parents=True)
    (home / "photos/annotations.csv").write_text("item,annotator,label\np1,ann,a\np1,bob,b\np2,ann,b\np2,bob,b\n")
    (home / "plugins/brought.py").write_text(PLUGIN)
    (home / "sent.yaml").write_text(SWEEP.format(name="sent", dataset="photos", model="brought"))
    (home / "own.yaml").write_text(SWEEP.format(name="own", dataset="photos", model="uniform"))

    line = f"crowdsweep submit sent.yaml --address {cluster.address} --store {stores / 'sent'} --detach"
    in_a_terminal_that_is_killed(cluster, line, "submitted to", home, CROWDSWEEP_PLUGINS="plugins")
    (home / "plugins").rename(tmp_path / "plugins-gone")  # the job has what it needs
    ray = ["ray", "job", "submit", "--no-wait", "--address", cluster.address]
    for store in of_ray:
        words, sweep = (["--working-dir", str(home)], "own.yaml") if store == "with" else ([], home / "own.yaml")
        run = ["--", "crowdsweep", "run", str(sweep), "--store", str(stores / store)]
        begun = command(cluster, *ray, *words, *run, cwd=elsewhere)
        assert begun.returncode == 0, begun.stderr

    for store in ("sent", *of_ray):
        page = stores / store / "report.html"
        wait_for(
            page.exists, lambda: command(cluster, "ray", "job", "list", "--address", cluster.address, cwd=home).stdout
        )
        assert len(read_journal(stores / store).results) == 4

    def found() -> dict[str, Any]:
        return json.loads(asked(warm, cluster, elsewhere, "status", str(stores / "sent"), "--json"))

    wait_for(lambda: found()["job"]["state"] != "running", lambda: str(found()))
    status = found()
    assert (status["status"], status["job"]["state"]) == ("done", "succeeded, exit 0")
    assert status["job"]["address"] == cluster.address
    results = asked(warm, cluster, elsewhere, "results", str(stores / "sent")).splitlines()
    assert len(results) == 1 + 4
    assert sum("brought" in row for row in results) == 2
    assert {spec.dataset for spec in read_journal(stores / "sent").specs.values()} == {"photos"}


@pytest.mark.long
def test_the_token_is_asked_for(cluster: Started, tmp_path: Path, warm: WarmServer) -> None:
    (tmp_path / "sweep.yaml").write_text(SWEEP.format(name="refused", dataset="anesthesia", model="uniform"))
    words = f"submit sweep.yaml --address {cluster.address} --store store --detach".split()
    for token in ({"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "x" * 32}):
        done = warm.run(words, cwd=tmp_path, env={**cluster.environment, **token})
        assert done.returncode == 2
        assert "expected the cluster's token, got none or another" in " ".join(done.stderr.split())
        assert not (tmp_path / "store").exists()


@pytest.mark.long
@pytest.mark.parametrize("is_here", [True, False])
def test_a_job_that_is_stopped_finishes_what_runs_and_goes_on_when_submitted_again(
    is_here: bool, cluster: Started, tmp_path: Path, warm: WarmServer
) -> None:
    """Stopped on its driver's machine, by SIGINT, which Ray blocks in jobs; or as from another: by its job, which
    ends its driver as Ctrl-C does."""
    slow = "{name: slow, params: {steps: 100, pause_s: 0.1}}"
    sweep = SWEEP.format(name="stopped", dataset="anesthesia", model=slow).replace("report: 2", "report: 6")
    (tmp_path / "sweep.yaml").write_text(f"{sweep}pack: 1\n")
    store = tmp_path / "store"
    environment = {**cluster.environment, "CROWDSWEEP_PLUGINS": str(Path(__file__).parents[1] / "misbehaving")}
    plugged = Started(address=cluster.address, environment=environment)
    submit = f"submit sweep.yaml --address {cluster.address} --store {store} --detach".split()
    asked(warm, plugged, tmp_path, *submit)

    def done() -> Mapping[str, Any]:
        try:
            return read_journal(store).results
        except JournalError:  # its driver has not begun
            return {}

    wait_for(lambda: len(done()) > 0, str)
    lock = store / "journal.lock"
    if not is_here:
        lock.write_text(lock.read_text().replace(socket.gethostname(), "another"))
    assert f"asked {'process' if is_here else 'the job'}" in " ".join(
        asked(warm, plugged, tmp_path, "stop", str(store)).split()
    )

    def state() -> str:
        return json.loads(asked(warm, plugged, tmp_path, "status", str(store), "--json"))["job"]["state"]

    wait_for(lambda: state() != "running", state)
    stopped = read_journal(store)
    assert state() in ("stopped", "stopped, exit 130")  # Ray knows the exit code where it had the time to ask for it
    assert stopped.status == "interrupted"
    assert 0 < len(stopped.results) < 12
    asked(warm, plugged, tmp_path, *submit)
    wait_for(lambda: state().startswith("succeeded"), state)
    assert len(read_journal(store).results) == 12
    assert set(stopped.results) < set(read_journal(store).results)
