"""What `ui` serves is open to who has its link: nobody else reads, writes or deletes anything."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.responses import PlainTextResponse

from crowdsweep.tracking.mlflow_guard import Guard

TOKEN = "a-token"
REACHED: list[str] = []


async def served(scope: Any, receive: Any, send: Any) -> None:
    REACHED.append(scope["path"])
    if scope["type"] == "http":
        await PlainTextResponse("runs")(scope, receive, send)
    else:
        await send({"type": "websocket.accept"})


def asked(target: str, method: str = "GET", kind: str = "http", port: int = 5000, **headers: str) -> dict[str, Any]:
    """Returns the first message of the answer, with its headers as a mapping."""
    REACHED.clear()
    parts = urlsplit(target)
    scope = {
        "type": kind,
        "method": method,
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "root_path": "",
        "query_string": parts.query.encode(),
        "server": ("127.0.0.1", port),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    said: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    asyncio.run(Guard(served, TOKEN)(scope, receive, send))
    return {**said[0], "headers": {name.decode(): value.decode() for name, value in said[0].get("headers", [])}}


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize(
    "path", ["/", "/get-artifact?path=x", "/api/2.0/mlflow/runs/delete", "/ajax-api/2.0/x", "//health"]
)
def test_nothing_is_reached_without_the_token(path: str, method: str) -> None:
    for headers in ({}, {"Cookie": "crowdsweep-5000=another"}, {"Authorization": "Bearer another"}, {"Cookie": "x"}):
        assert asked(path, method, **headers)["status"] == 401
        assert asked(f"{path}{'&' if '?' in path else '?'}token=another", method, **headers)["status"] == 401
    assert REACHED == []


def test_the_link_leaves_a_cookie_and_no_token_in_the_address() -> None:
    answer = asked(f"/?a=1&token={TOKEN}&b=")
    assert (answer["status"], answer["headers"]["location"]) == (303, "/?a=1&b=")
    cookie = answer["headers"]["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert REACHED == []
    assert asked("/", Cookie=cookie.partition(";")[0])["status"] == 200
    assert REACHED == ["/"]


def test_a_browser_comes_to_the_pages_for_models_unless_it_has_chosen_others() -> None:
    answer = asked(f"/?a=1&token={TOKEN}", Accept="text/html,application/xhtml+xml")
    assert (answer["status"], answer["headers"]["location"]) == (303, "/crowdsweep-choice?a=1")
    assert asked("/crowdsweep-choice?a=1", Accept="text/html")["status"] == 401
    cookie = answer["headers"]["set-cookie"].partition(";")[0]
    choice = asked("/crowdsweep-choice?a=1", Accept="text/html", Cookie=cookie)
    assert (choice["status"], choice["headers"]["content-type"]) == (200, "text/html; charset=utf-8")
    assert REACHED == []
    answer = asked(f"/api/2.0/x?token={TOKEN}", Accept="text/html")
    assert answer["headers"]["location"] == "/api/2.0/x"


def test_a_cookie_of_another_port_opens_nothing() -> None:
    assert asked("/", port=5001, Cookie=f"crowdsweep-5000={TOKEN}")["status"] == 401


def test_programs_send_the_token_as_mlflows_client_does() -> None:
    assert asked("/api/2.0/mlflow/runs/search", "POST", Authorization=f"Bearer {TOKEN}")["status"] == 200


def test_whether_it_runs_may_be_asked_by_anybody() -> None:
    assert asked("/health")["status"] == 200


def test_sockets_are_guarded_too() -> None:
    assert asked("/ws", kind="websocket")["type"] == "websocket.close"
    assert asked("/ws", kind="websocket", Cookie=f"crowdsweep-5000={TOKEN}")["type"] == "websocket.accept"
