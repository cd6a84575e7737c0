"""Drivers of a record in an object store, killed at moments that nobody chose, and several at once: nothing is lost and
nothing done twice. The server is in memory by default, and a real one in `make test-all`."""

import os
import random
import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from imported_drivers import imported_drivers
from object_stores import REFUSED, VARIABLES, drive, place, served_seaweedfs, speak_to

from crowdsweep import app
from crowdsweep.record.codec import decode
from crowdsweep.record.events import TrialFinished
from crowdsweep.record.journal import open_rows, read_journal
from crowdsweep.record.store_uri import StoreUri
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.sweepfile.records import SweepConfig

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture
def drivers() -> Iterator[ForkServerContext]:
    with imported_drivers() as context:  # of each test: their servers lie at addresses of their own
        yield context


@pytest.fixture
def memory(s3: str) -> str:
    return s3


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "served").mkdir()
    with served_seaweedfs(tmp_path / "served") as url:
        speak_to(url, monkeypatch)
        yield url


SERVERS = [
    ("memory", 2, 12),
    pytest.param("real", 20, 120, marks=pytest.mark.long),
]


def config_of(seeds: int) -> SweepConfig:
    return parse_sweep(
        {
            "name": "killed",
            "datasets": ["anesthesia"],
            "models": [
                {"name": "slow", "params": {"steps": 2, "pause_s": 0.02, "smoothing": 0.5}},
                {"name": "dawid-skene", "search": {"smoothing": {"min": 0.0, "max": 1.0}}},
            ],
            "budget": {"points": 4},
            "seeds": {"search": 2, "report": seeds, "rescored": 2},
            "engine": "inline",
            "pack": 2,
            "tracking": {"enabled": False},
        }
    )


def environment_of(url: str) -> dict[str, str]:
    return {**VARIABLES, "AWS_ENDPOINT_URL": url, "CROWDSWEEP_PLUGINS": os.environ["CROWDSWEEP_PLUGINS"]}


def finished(store: StoreUri) -> Counter[str]:
    events = (decode(row.text) for row in open_rows(store).read_rows())
    return Counter(event.result.key for event in events if isinstance(event, TrialFinished))


def assert_same(store: StoreUri, reference: Path) -> None:
    got, expected = read_journal(store), read_journal(reference)
    assert set(got.results) == set(expected.results) == set(expected.specs) == set(got.specs)
    assert set(finished(store).values()) == {1}
    assert (dict(got.proposals), dict(got.selected)) == (dict(expected.proposals), dict(expected.selected))
    for key, result in expected.results.items():
        assert dict(got.results[key].metrics) == pytest.approx(dict(result.metrics), rel=1e-6)


@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize(("server", "kills", "seeds"), SERVERS)
def test_drivers_that_are_killed_lose_nothing(
    server: str,
    kills: int,
    seeds: int,
    drivers: ForkServerContext,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, store, config = request.getfixturevalue(server), place(f"killed/{secrets.token_hex(4)}"), config_of(seeds)
    moments, hits = random.Random(os.urandom(8)), 0
    for _ in range(kills):
        driver = drivers.Process(target=drive, args=(environment_of(url), config, store))
        driver.start()
        driver.join(moments.uniform(0.1, 2.0))
        hits += driver.is_alive()
        driver.kill()
        driver.join()
        assert driver.exitcode in (0, -signal.SIGKILL), "a driver failed on its own"
    assert hits
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert app.run(config, store, quiet=True).status == "done"
    assert app.run(config, tmp_path / "reference", quiet=True).status == "done"
    assert_same(store, tmp_path / "reference")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == []


@pytest.mark.long
@pytest.mark.usefixtures("misbehaving")
@pytest.mark.parametrize("server", ["memory", "real"])
def test_of_six_drivers_at_once_one_runs_the_sweep(
    server: str, drivers: ForkServerContext, request: pytest.FixtureRequest
) -> None:
    """The others are refused by name; each trial stands there once."""
    url, store = request.getfixturevalue(server), place(f"six/{secrets.token_hex(4)}")
    six = [drivers.Process(target=drive, args=(environment_of(url), config_of(40), store)) for _ in range(6)]
    for driver in six:
        driver.start()
    for driver in six:
        driver.join()
    ended = Counter(driver.exitcode for driver in six)
    assert ended[REFUSED] + ended[0] == 6
    assert ended[0] >= 1  # and more where one came when all was done, had nothing to do, and was kept out by nobody
    assert set(finished(store).values()) == {1}
    state = read_journal(store)
    assert (state.status, set(state.results)) == ("done", set(state.specs))
