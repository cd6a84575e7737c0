"""Fixtures that every part's tests share."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from crowdsweep.sweep.cluster import Cluster

# Examples are drawn the same on every run, and a slow machine is no failure.
settings.register_profile("crowdsweep", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("crowdsweep")


def pytest_configure(config: pytest.Config) -> None:
    # beartype looks at one entry of a list drawn with `random`, which hypothesis takes for the strategy's own doing.
    config.addinivalue_line("filterwarnings", "ignore:Do not use the `random` module inside strategies")
    # A suite started with `&` or `nohup` hands ignored signals on; its commands start as a terminal's do.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


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
def ray_cluster() -> "Iterator[Cluster]":
    """The one Ray cluster of a test session, of two CPUs; executors that use it leave it running."""
    from crowdsweep.sweep.cluster import Cluster, connect

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
