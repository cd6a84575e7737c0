"""A server of files on loopback that sends the rest of one where it is asked to, and fails as servers do."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """What is served, and how.

    Attributes:
        files: by path, `/a.csv`.
        tags: the entity tag of each, where it is not `"1"`; empty for none.
        changed: the date of each one's last change, where that is sent.
        fails: given how many requests came before and the path: None, a status, an address to go on at, or how many
            bytes to send before the connection is cut.
        goes_on: whether a rest is sent where one is asked for.
        knows_if_range: whether that depends on the validator in If-Range.
        asked: path and Range of each request.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    fails: Callable[[int, str], int | str | None] = lambda _, __: None
    goes_on: bool = True
    knows_if_range: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


@contextmanager
def file_server() -> Iterator[FileServer]:
    """Yields a server that listens; `url` says where."""
    serving = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            failure = serving.fails(len(serving.asked), self.path)
            serving.asked.append((self.path, self.headers.get("Range")))
            content = serving.files.get(self.path)
            if isinstance(failure, str):
                self.send_response(302)
                self.send_header("Location", failure)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            if content is None or (failure is not None and 400 <= failure < 600):
                self.send_error(failure or 404)
                return
            start = 0
            tag, changed = serving.tags.get(self.path, '"1"'), serving.changed.get(self.path, "")
            same = self.headers.get("If-Range") in (None, tag, changed) or not serving.knows_if_range
            if serving.goes_on and same and (wanted := self.headers.get("Range")):
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content) > 0:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            for name, value in (("ETag", tag), ("Last-Modified", changed)):
                if value:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            sent = content[start:]
            if failure is not None:
                sent, self.close_connection = sent[:failure], True
            self.wfile.write(sent)

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    serving.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield serving
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
