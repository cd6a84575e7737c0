"""MLflow's own server behind a token: the server that `ui` starts answers only those who have the printed link.

`mlflow server --app-name crowdsweep` finds this application by the entry point `mlflow.app`. The link carries the token
once; from then on a cookie in the browser holds it. Programs send it as `Authorization: Bearer TOKEN`, as MLflow's
client does where `MLFLOW_TRACKING_TOKEN` is set.

MLflow 3 has two sets of pages. It opens those for prompts and traces unless the browser has stored the other choice; no
tag of an experiment decides. The link therefore leads through a page that stores the other choice where none is stored.
"""

import hmac
import os
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import URL
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from crowdsweep.tracking.guard_names import ARTIFACTS, PARAMETER, REMOTE, TOKEN

_OPEN = "/health"  # answers OK, and reveals nothing about runs
_CHOICE = "/crowdsweep-choice"
# The key and the format are those of MLflow's own entry, which the switch at the top left of its pages changes.
_CHOOSE = """<!doctype html>
<title>MLflow</title>
<script>
try {
  if (localStorage.getItem("mlflow.workflowType_v1") === null) {
    localStorage.setItem("mlflow.workflowType_v1", JSON.stringify("machine_learning"));
  }
} catch {}
location.replace("/" + location.search + location.hash);
</script>
"""
_REFUSED = "This page needs the link that `crowdsweep ui` printed. Open that link.\n"


def guarded() -> ASGIApp:
    """Returns MLflow's application, guarded by a token and confined to a folder, both from environment variables.

    Raises:
        KeyError: the variable of the token or of the folder is missing.
    """
    from mlflow.server.fastapi_app import app  # noqa: PLC0415 - creates the application, which only the server needs

    from crowdsweep.tracking.mlflow_confined import confine  # noqa: PLC0415 - mlflow takes seconds to import

    confine(Path(os.environ[ARTIFACTS]), remote=bool(os.environ.get(REMOTE)))
    return Guard(app, os.environ[TOKEN])


class Guard:
    """ASGI application that passes on requests with the token, and those for `/health`, and refuses all others."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # start and end of the server
            await self._app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        if scope["type"] == "http" and self._is(asked.query_params.get(PARAMETER, "")):
            await self._let_in(asked)(scope, receive, send)
        elif asked.url.path == _OPEN or self._is(asked.cookies.get(_cookie(asked), "")) or self._is(_bearer(asked)):
            app = HTMLResponse(_CHOOSE) if asked.url.path == _CHOICE else self._app
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await PlainTextResponse(_REFUSED, status_code=401)(scope, receive, send)

    def _is(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _let_in(self, asked: HTTPConnection) -> Response:
        """Stores the token in a cookie and redirects to the address without it, which keeps it out of histories and
        referrers."""
        left = [pair for pair in parse_qsl(asked.url.query, keep_blank_values=True) if pair[0] != PARAMETER]
        browser = asked.url.path == "/" and "text/html" in asked.headers.get("Accept", "")
        path = _CHOICE if browser else asked.url.path
        answer = RedirectResponse(str(URL(path=path, query=urlencode(left))), status_code=303)
        answer.set_cookie(_cookie(asked), self._token, httponly=True, samesite="strict")
        return answer


def _cookie(asked: HTTPConnection) -> str:
    """Returns the cookie's name. It has the port, because browsers share cookies between the ports of a host."""
    return f"crowdsweep-{asked.url.port}"


def _bearer(asked: HTTPConnection) -> str:
    kind, _, given = asked.headers.get("Authorization", "").partition(" ")
    return given if kind.lower() == "bearer" else ""
