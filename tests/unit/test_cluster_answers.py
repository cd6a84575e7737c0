"""A cluster that is not there, or cannot be one, is told at once, in one line."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import crowdsweep as cs
from crowdsweep.engine import address
from crowdsweep.engine.address import check_answers, wanted_address
from crowdsweep.engine.cluster import connect
from crowdsweep.errors import BadInput


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """Accepts everybody and says nothing."""
    with socket.create_server(("", 0)) as listening:
        yield listening


def test_an_address_where_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(BadInput, match=f"127.0.0.1:{port}.*nothing answers at .*:{port} ") as raised:
        connect(f"127.0.0.1:{port}")
    assert time.monotonic() - began < 15
    assert "\n" not in str(raised.value)


def test_an_address_where_nobody_says_a_word(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(BadInput, match=f"127.0.0.1:{port}.*timed out"):
        connect(f"127.0.0.1:{port}")
    assert time.monotonic() - began < 25


@pytest.mark.parametrize(
    ("said", "refused"), [(b"HTTP/1.1 400 Bad Request\r\n\r\n", True), (b"", True), (b"\0\0\6\4" + bytes(11), False)]
)
def test_who_speaks_http_2_may_be_ray(listener: socket.socket, said: bytes, refused: bool) -> None:
    """A first frame of settings is what gRPC, which Ray speaks, says before anything else."""
    import threading

    def answer() -> None:
        with listener.accept()[0] as asking:
            asking.recv(64)
            asking.sendall(said)

    answering = threading.Thread(target=answer)
    answering.start()
    place = f"127.0.0.1:{listener.getsockname()[1]}"
    if refused:
        with pytest.raises(BadInput, match=r"what answers at .* is no Ray cluster"):
            check_answers("auto", place)
    else:
        check_answers("auto", place)
    answering.join()


@pytest.mark.parametrize(
    "wrong",
    ["ray://host:10001", "http://host:8265", "host", "host:port", "host:", ":6379", "a b:1", "host:1\n", "\x1b[31m:"],
)
def test_what_is_no_address_is_refused_before_anything_else(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match=r"--address .*: expected host:port of .*, or auto") as raised:
        wanted_address(wrong)
    assert "\n" not in str(raised.value)
    assert ("Ray Client is not supported" in str(raised.value)) == wrong.startswith("ray://")
    monkeypatch.setenv("RAY_ADDRESS", wrong)
    with pytest.raises(BadInput, match=r"RAY_ADDRESS .*: expected host:port"):
        connect()


@pytest.mark.parametrize("right", ["auto", "local", "host:6379", "10.0.0.5:6379", "[::1]:6379"])
def test_what_is_one(right: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:1")
    assert wanted_address(right) == right
    assert wanted_address(None) == "elsewhere:1"
    monkeypatch.delenv("RAY_ADDRESS")
    assert wanted_address(None) == "local"
    assert address.ANSWERS_IN_S <= 10


def test_an_address_is_refused_of_a_sweep_that_joins_no_cluster(tmp_path: Path) -> None:
    sweep = {"name": "s", "datasets": ["anesthesia"], "models": ["majority-vote"], "engine": "inline"}
    with pytest.raises(BadInput, match="the engine of this sweep is inline, which joins no cluster"):
        cs.run(sweep, store=tmp_path / "s", address="10.0.0.5:6379")
    assert not (tmp_path / "s").exists()
