"""A server on loopback between a client and another server: it is slow, fails, or loses answers."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Manner = Literal["passes", "is slow", "fails", "loses the answer"]
SLOW_S = 0.5
_NOT_PASSED_ON = {"connection", "transfer-encoding", "content-length", "host"}


class AwkwardServer:
    """Passes requests on.

    Args:
        behind: URI of the server that does what is asked.
        manner: given a request's method and path, tells what becomes of it; it fails before anything was done, and the
            answer is lost after it was.
    """

    def __init__(self, behind: str, manner: Callable[[str, str], Manner]) -> None:
        self.counts: Counter[Manner] = Counter()
        host = urlsplit(behind).netloc
        counts = self.counts

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                how = manner(self.command, self.path)
                counts[how] += 1
                if how == "is slow":
                    time.sleep(SLOW_S)
                if how == "fails":
                    self.answer(500, b"Internal Server Error", "text/plain")
                    return
                asked = http.client.HTTPConnection(host, timeout=60)
                asked.request(self.command, self.path, body, self.passed_on())
                answer = asked.getresponse()
                content = answer.read()
                asked.close()
                if how == "loses the answer":
                    self.close_connection = True
                    return
                self.answer(answer.status, content, answer.headers.get("Content-Type", ""))

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

            def passed_on(self) -> dict[str, str]:
                return {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}

            def answer(self, status: int, content: bytes, kind: str) -> None:
                with suppress(OSError):  # nobody waits any more
                    self.send_response(status)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, *words: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.uri = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stops it."""
        self._server.shutdown()
        self._server.server_close()
