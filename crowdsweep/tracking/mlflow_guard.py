"""MLflow's own server behind a token: what `ui` serves answers who has the link that it printed, and nobody else.

`mlflow server --app-name crowdsweep` finds it by the entry point `mlflow.app`. The link brings the token once; from
then on a cookie of this browser has it. Programs send it as `Authorization: Bearer TOKEN`, as MLflow's client does
where `MLFLOW_TRACKING_TOKEN` is set.

MLflow 3 has two sets of pages, and opens those for prompts and traces unless the browser keeps another choice; no tag
of an experiment decides. The link therefore leads through a page that makes the other choice where there is none yet.
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

_OPEN = "/health"  # says OK, and nothing of anybody's runs
_CHOICE = "/crowdsweep-choice"
# The name and the form of MLflow's own entry, which its switch at the top left changes.
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
_REFUSED = "This page is open to whoever has the link that `crowdsweep ui` printed. Open that link.\n"


def guarded() -> ASGIApp:
    """Returns MLflow's application behind the token of the environment, which keeps to the folder that stands there.

    Raises:
        KeyError: there is no token, or no folder.
    """
    from mlflow.server.fastapi_app import app  # noqa: PLC0415 - it makes the application, which the server alone wants

    from crowdsweep.tracking.mlflow_confined import confine  # noqa: PLC0415 - mlflow takes seconds to import

    confine(Path(os.environ[ARTIFACTS]), remote=bool(os.environ.get(REMOTE)))
    return Guard(app, os.environ[TOKEN])


class Guard:
    """Passes on what comes with the token.

    Args:
        app: what is guarded.
        token: what opens it.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # the server's own start and end
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
        """Makes the browser keep the token and ask again without it: it then appears in no history and no referrer."""
        left = [pair for pair in parse_qsl(asked.url.query, keep_blank_values=True) if pair[0] != PARAMETER]
        browser = asked.url.path == "/" and "text/html" in asked.headers.get("Accept", "")
        path = _CHOICE if browser else asked.url.path
        answer = RedirectResponse(str(URL(path=path, query=urlencode(left))), status_code=303)
        answer.set_cookie(_cookie(asked), self._token, httponly=True, samesite="strict")
        return answer


def _cookie(asked: HTTPConnection) -> str:
    """Returns the cookie's name: cookies are those of a host, whatever its ports."""
    return f"crowdsweep-{asked.url.port}"


def _bearer(asked: HTTPConnection) -> str:
    kind, _, given = asked.headers.get("Authorization", "").partition(" ")
    return given if kind.lower() == "bearer" else ""
