"""Fixtures that every part's tests share."""

import gc
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from warm import WarmServer

from crowdsweep.engine import worker
from crowdsweep.testing.shapes import check_shapes

if TYPE_CHECKING:
    from cloud_emulators import Azurite

    from crowdsweep.engine.cluster import Cluster

# Examples are drawn the same on every run, and a slow machine is no failure.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("everything", deadline=None, derandomize=True, max_examples=100)


# Ray's own default has its workers give way to everything, the other tests among them.
os.environ.setdefault("RAY_worker_niceness", "0")

COLD_START = worker._started

# Where the shapes of arrays are compared with their types in every run: in what is compared with other hands' numbers,
# and in the data room; of models in one check of their contract each. `--shapes everywhere` has it in all tests.
SHAPES_ARE_CHECKED = re.compile(r"tests/(oracles/|\w+/test_data_|unit/test_arrays)")


# In the environment of workers of a session: where the one server of all of them listens (`warm.py`).
WARM_SERVER = "WARM_SERVER"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shapes", choices=("here", "everywhere"), default="here", help="where shapes of arrays are checked"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    everywhere = item.config.getoption("--shapes") == "everywhere" and item.get_closest_marker("unchecked") is None
    check_shapes(everywhere or SHAPES_ARE_CHECKED.search(item.path.as_posix()) is not None)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until all is collected: what imports make stays
    # beartype looks at one entry of a list drawn with `random`, which hypothesis takes for the strategy's own doing.
    config.addinivalue_line("filterwarnings", "ignore:Do not use the `random` module inside strategies")
    everything = config.getoption("--shapes") == "everywhere"
    check_shapes(everything)  # in collection and in fixtures of sessions
    settings.load_profile("everything" if everything else "quick")
    # A suite started with `&` or `nohup` hands ignored signals on; its commands start as a terminal's do.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        server = WarmServer()
        server.begin()  # while workers collect
        os.environ[WARM_SERVER] = server.path
        config.add_cleanup(server.close)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Takes modules and thousands of tests out of what the garbage collector looks through again and again."""
    gc.freeze()
    gc.enable()
    if session.config.getoption("loadgroup", False):  # in workers; some versions of pytest and xdist lose them silently
        lost = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if lost:
            raise pytest.UsageError(f"expected tests with an xdist_group to bear its name, got {lost[0].nodeid}")
        torn = [item for item in session.items if len({m.args for m in item.iter_markers("xdist_group")}) > 1]
        if torn:  # xdist makes a group of its own of two, which runs beside both
            raise pytest.UsageError(f"expected one xdist_group a test, got several: {torn[0].nodeid}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public crowd data beside the repository; tests that need it are skipped without it."""
    path = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        message = f"no public crowd data at {path}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return path


@pytest.fixture(scope="session")
def warm() -> Iterator[WarmServer]:
    """Starts commands in an instant; who tests a start begins cold."""
    server = WarmServer(os.environ.get(WARM_SERVER))
    yield server
    server.close()


@pytest.fixture(scope="session", autouse=True)
def warm_forkservers(warm: WarmServer) -> Iterator[pytest.MonkeyPatch]:
    """Has inline trials and pilots that tests run in their own process begin warm too; `cold_forkservers` takes it
    back."""

    def started() -> worker._Server:
        ours, theirs = socket.socketpair()
        with theirs:
            process = warm.forkserver(theirs, {**dict.fromkeys(worker.THREAD_VARIABLES, "1"), **os.environ})
        return worker._Server(process=process, control=ours)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_started", started)
        yield patch


@pytest.fixture
def cold_forkservers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inline trials begin as they do for everybody."""
    monkeypatch.setattr(worker, "_started", COLD_START)


@pytest.fixture(scope="session")
def ray_cluster() -> "Iterator[Cluster]":
    """The one Ray cluster of a test session, of two CPUs; executors that use it leave it running."""
    from crowdsweep.engine.cluster import Cluster, connect

    class Lasting(Cluster):
        def close(self) -> None:
            """Stays for the next test."""

    started = connect("local", cpus=2)
    yield Lasting(started=True)
    started.close()


@pytest.fixture
def misbehaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that are slow, fail or kill their process can be named."""
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(Path(__file__).parent / "misbehaving"))


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The one server of a test session that speaks S3, on loopback; its tests are marked for one worker."""
    from object_stores import served_s3

    with served_s3() as url:
        yield url


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Azurite]":
    """Azure's emulator on loopback; its tests are long, and beside those of S3."""
    from cloud_emulators import served_azurite

    with served_azurite(tmp_path_factory.mktemp("azurite")) as server:
        yield server


@pytest.fixture
def azure(azure_server: "Azurite", monkeypatch: pytest.MonkeyPatch) -> "Azurite":
    """Has this process use that server."""
    azure_server.speak_to(monkeypatch)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return azure_server


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Has this process use that server; returns its URL."""
    from object_stores import speak_to

    speak_to(s3_server, monkeypatch)
    return s3_server
