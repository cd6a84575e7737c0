"""Addresses of clusters' dashboards: how they are written, who answers there, and who is sent a token."""

import socket
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from ray._private.authentication import http_token_authentication

from crowdsweep.engine import ray_jobs
from crowdsweep.engine.address import on_loopback, wanted_address
from crowdsweep.engine.ray_jobs import Jobs, jobs_address, noted_jobs
from crowdsweep.errors import BadInput


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://10.0.0.5:8265", "http://10.0.0.5:8265"),
        ("http://10.0.0.5:8265/", "http://10.0.0.5:8265"),
        ("https://ray.example.org/cluster/", "https://ray.example.org:443/cluster"),
        ("head", "http://head:8265"),
        ("head:80", "http://head:80"),
        ("[::1]:80", "http://[::1]:80"),
        (None, "http://127.0.0.1:8265"),
    ],
)
def test_addresses_of_dashboards(given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    assert jobs_address(given) == expected


def test_the_address_of_the_environment_counts_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "http://a:1")
    assert jobs_address(None) == "http://a:1"
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://b:2")
    assert jobs_address(None) == "http://b:2"
    assert jobs_address("c:3") == "http://c:3"


@pytest.mark.parametrize(
    "given", ["ray://head:10001", "http://me:secret@head", "http://", "a b", "http://h:x", "auto:"]
)
def test_what_is_no_address_of_a_dashboard(given: str) -> None:
    with pytest.raises(BadInput, match=r"--address .*expected the address of a cluster's dashboard"):
        jobs_address(given)


def test_a_dashboard_is_no_cluster_to_join() -> None:
    with pytest.raises(BadInput, match=r"expected host:port of a cluster's head.*crowdsweep submit"):
        wanted_address("http://10.0.0.5:8265")


def test_nobody_answers(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(BadInput, match=r"nothing answers there.*pip install crowdsweep\[cluster\]"):
            Jobs(f"http://127.0.0.1:{held.getsockname()[1]}")


def test_the_missing_extra_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_jobs, "_check_answers", lambda address: None)
    monkeypatch.setitem(sys.modules, "ray.job_submission", None)
    with pytest.raises(BadInput, match=r"pip install 'crowdsweep\[cluster\]'"):
        Jobs("http://127.0.0.1:8265")


def test_a_cluster_on_loopback_alone_is_looked_for_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        outer = f"127.0.0.9:{port}"  # where nobody listens
        for target in (f"127.0.0.1:{port}", f"localhost:{port}", "auto"):
            assert on_loopback(target, outer) == f"127.0.0.1:{port}"
        assert on_loopback(f"10.0.0.5:{port}", outer) == ""
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        assert on_loopback(f"127.0.0.1:{port}", f"127.0.0.9:{port}") == ""  # it listens there too


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """An address that the note of a stranger names, and the tokens that are sent there."""
    heard: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers.get("Authorization", ""))
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", heard
        server.shutdown()


def test_a_token_goes_only_where_somebody_who_has_it_or_this_user_says(
    listener: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, heard = listener
    token = "secret-" * 6
    monkeypatch.setattr(http_token_authentication, "get_auth_headers_if_auth_enabled", lambda headers: {"a": token})
    sealed = ray_jobs.seal_of("job", address)
    for seal in ("", "0" * 32, ray_jobs.seal_of("job", "http://127.0.0.1:1"), ray_jobs.seal_of("other", address)):
        with pytest.raises(BadInput, match="your token would be sent there"):
            noted_jobs("job", address, seal)
    assert heard == []
    assert token not in sealed
    assert ray_jobs.seal_of("job", address) == sealed
    with pytest.raises(BadInput, match="takes jobs"):  # it is asked, and is no dashboard
        noted_jobs("job", address, sealed)
    asked = len(heard)
    assert asked
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", address)
    with pytest.raises(BadInput, match="takes jobs"):
        noted_jobs("job", address, "")
    assert len(heard) > asked
