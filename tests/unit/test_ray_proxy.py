"""The executor that lives in a process beside the driver: the contract over the socket, and what its end is called.

Another executor stands in for Ray's, in a thread; `tests/contracts` and `tests/chaos` have real clusters.
"""

import logging
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import executor_checks as checks
import pytest
from executor_checks import datasets
from fakes import FakeExecutor

import crowdsweep as cs
from crowdsweep import app
from crowdsweep.cli.interrupts import GRACE_S
from crowdsweep.data.dataset import CrowdDataset
from crowdsweep.engine import cluster, ray_proxy
from crowdsweep.engine.executor import Executor
from crowdsweep.engine.ray_process import serve_connection
from crowdsweep.engine.ray_proxy import RayProcess, RayProxy, RaySettings
from crowdsweep.errors import BadInput, InfeasibleRequest, Interrupted, SlotLost
from crowdsweep.record.spec import TrialSpec
from crowdsweep.resources import Resources
from crowdsweep.trial.runner import run_batch

SETTINGS = RaySettings(address=None, resources=[Resources()], trial_minutes=None)
Link = Callable[[Executor | Exception, str], RayProxy]


def really_scored(spec: TrialSpec) -> Mapping[str, float]:
    (result,) = run_batch([spec], datasets()[spec.fingerprint], "cpu", lambda _: True)
    if result.failure is not None:
        raise ValueError(result.failure.message)
    return result.metrics


def beside(code: str) -> "tuple[RayProcess, socket.socket]":
    """Returns a process that runs a line of Python, and what it would have of the socket."""
    ours, theirs = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - the link closes it
    process = subprocess.Popen([sys.executable, "-SE", "-c", code], stderr=errors, start_new_session=True)
    return RayProcess(process=process, connection=Connection(ours.detach()), errors=errors), theirs


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Iterator[Link]:
    links: list[RayProxy] = []
    threads: list[threading.Thread] = []

    def make(executor: Executor | Exception, lost: str = "") -> RayProxy:
        process, theirs = beside("")
        monkeypatch.setattr(ray_proxy, "start_process", lambda: process)

        def made(settings: RaySettings, _: dict[str, CrowdDataset]) -> tuple[Executor, Callable[[], str]]:
            assert settings == SETTINGS
            if isinstance(executor, Exception):
                raise executor
            return executor, lambda: lost

        threads.append(threading.Thread(target=serve_connection, args=(Connection(theirs.detach()), made)))
        threads[-1].start()
        links.append(RayProxy(datasets(), SETTINGS))
        return links[-1]

    yield make
    for one in links:
        one.close()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("check", checks.CHECKS)
def test_suite(check: str, link: Link) -> None:
    checks.CHECKS[check](link(FakeExecutor(score=really_scored), ""))


def test_errors_and_log_lines_come_over(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InfeasibleRequest, match="no node"):
        link(InfeasibleRequest("no node"), "")

    class Broken(FakeExecutor):
        def poll(self, timeout_s: float) -> list[object]:  # type: ignore[override] # it returns nothing
            logging.getLogger("crowdsweep.there").warning("from over there")
            raise ConnectionError("words of a library")

    with caplog.at_level(logging.WARNING), pytest.raises(RuntimeError, match="words of a library"):
        link(Broken(score=really_scored), "").poll(0.0)
    assert "from over there" in caplog.messages
    with pytest.raises(SlotLost, match="the Ray cluster is lost: its head"):
        link(Broken(score=really_scored), "its head is gone").poll(0.0)


def test_a_process_that_ends_is_a_lost_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    process, theirs = beside("import os; os._exit(1)")
    connection = Connection(theirs.detach())
    connection.send((ray_proxy.DONE, [2]))
    monkeypatch.setattr(ray_proxy, "start_process", lambda: process)
    lost = RayProxy(datasets(), SETTINGS)
    assert lost.slots_for() == 2
    connection.close()
    for _ in range(2):
        with pytest.raises(SlotLost, match="the Ray cluster is lost: its part on this machine has ended"):
            lost.poll(0.0)
    lost.close()
    lost.close()


def test_a_process_that_does_not_begin_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    process, theirs = beside("raise SystemExit('no room')")
    theirs.close()
    monkeypatch.setattr(ray_proxy, "start_process", lambda: process)
    with pytest.raises(SlotLost, match="exited with code 1: no room"):
        RayProxy(datasets(), SETTINGS)


def test_other_work_is_done_while_ray_starts() -> None:
    """Between the settings and the reply to them, in a process that was started before."""
    process, theirs = beside("import time; time.sleep(60)")
    other_side = Connection(theirs.detach())

    def meanwhile() -> None:
        assert other_side.recv() == SETTINGS
        other_side.send((ray_proxy.DONE, [3]))

    proxy = RayProxy({}, SETTINGS, process, meanwhile)
    assert proxy.slots_for() == 3
    proxy.close()
    process.close()  # has been ended


def test_a_process_whose_sweep_is_refused_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, theirs = beside("import time; time.sleep(60)")
    monkeypatch.setattr(app, "start_process", lambda: process)
    with pytest.raises(BadInput, match="anesthesiology"):
        cs.run({"name": "s", "datasets": ["anesthesiology"], "models": ["uniform"]}, store=tmp_path / "s")
    theirs.close()
    assert process.process.poll() is not None


def test_a_cluster_that_does_not_start_is_said_in_our_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(**settings: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setenv("RAY_AUTH_TOKEN", "its own")  # which `connect` would make, and leave there
    monkeypatch.setattr(cluster.ray, "init", late)
    with pytest.raises(SlotLost, match=r"Ray: expected a cluster.*timed out during startup.*--engine inline"):
        cluster.connect("local", cpus=1)


def test_who_presses_ctrl_c_twice_still_reads_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process beside the driver takes its time to leave the cluster; the command ends before it has."""
    process, theirs = beside("import time; time.sleep(60)")
    monkeypatch.setattr(ray_proxy, "start_process", lambda: process)

    def serve() -> None:
        connection = Connection(theirs.detach())
        connection.recv()
        connection.send((ray_proxy.DONE, [1]))
        connection.recv()
        connection.send((ray_proxy.PROGRESS, None))

    thread = threading.Thread(target=serve)
    thread.start()
    link = RayProxy({}, SETTINGS)

    def press(_: object) -> None:
        raise Interrupted

    link.listen(press)
    with pytest.raises(Interrupted):
        link.poll(1.0)
    began = time.monotonic()
    link.close()
    assert time.monotonic() - began < GRACE_S - 1.0
    assert process.process.poll() is not None
    thread.join()
