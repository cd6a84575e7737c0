"""A server of objects that is slow, fails, refuses or hangs up: one error in words, in bounded time; no lost race."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote

import pytest
from mirror_checks import ok, spec
from object_stores import VARIABLES, place, rows_of, speak_to

from crowdsweep.errors import JournalError
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.objects import Objects, RetrySettings

PATIENCE = RetrySettings(connect_s=2.0, request_s=2.0, tries=2, all_s=2.0)
Answer = Callable[["Server", str, str], tuple[int, bytes] | None]


class Server:
    """Serves S3's words for one bucket, in memory, as far as a journal needs them; `answer` may say something else.

    Attributes:
        answer: takes the method and the path, returns status and body; None for what a sound server says.
        asked: requests so far.
        objects: content by path.
    """

    def __init__(self) -> None:
        self.answer: Answer = lambda server, method, path: None
        self.asked = 0
        self.objects: dict[str, bytes] = {}
        self.ended = threading.Event()

    def said(self, method: str, path: str, body: bytes, creates: bool) -> tuple[int, bytes]:
        """Returns what a sound server says."""
        if method == "PUT":
            if creates and path in self.objects:
                return 412, b""
            self.objects[path] = body
            return 200, b""
        if method == "DELETE":
            self.objects.pop(path, None)
            return 204, b""
        if "list-type" in path:
            return 200, self.listed(path)
        path = path.partition("?")[0]
        return (200, self.objects[path]) if path in self.objects else (404, b"<Error><Code>NoSuchKey</Code></Error>")

    def listed(self, path: str) -> bytes:
        """Returns the page that lists what is asked for."""
        bucket, _, query = path.partition("?")
        wanted = {key: values[0] for key, values in parse_qs(query).items()}
        keys = sorted(unquote(one).removeprefix(bucket + "/") for one in self.objects)
        found = [key for key in keys if key.startswith(wanted["prefix"]) and key > wanted.get("start-after", "")]
        facts = "<LastModified>2026-11-29T21:00:00.000Z</LastModified><Size>1</Size><ETag>0</ETag>"
        contents = "".join(f"<Contents><Key>{key}</Key>{facts}</Contents>" for key in found)
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            served.asked += 1
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            creates = self.headers.get("If-None-Match") == "*"
            told = served.answer(served, self.command, self.path)
            status, content = told or served.said(self.command, self.path, body, creates)
            if status == 0:  # hangs up
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", '"0"')
            self.send_header("Last-Modified", "Sun, 29 Nov 2026 21:00:00 GMT")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_DELETE = do_POST = _do

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        speak_to(f"http://127.0.0.1:{http.server_port}", monkeypatch)
        yield served
        served.ended.set()
        http.shutdown()
        thread.join()


def fails(server: Server, method: str, path: str) -> tuple[int, bytes]:
    return 503, b"<Error><Code>SlowDown</Code></Error>"


def hangs_up(server: Server, method: str, path: str) -> tuple[int, bytes]:
    return 0, b""


def hangs(server: Server, method: str, path: str) -> tuple[int, bytes]:
    server.ended.wait(30)
    return 0, b""


def refuses(server: Server, method: str, path: str) -> tuple[int, bytes]:
    return 403, b"<Error><Code>AccessDenied</Code></Error>"


def expires(server: Server, method: str, path: str) -> tuple[int, bytes]:
    message = "The provided token has expired."
    return 400, f"<Error><Code>ExpiredToken</Code><Message>{message}</Message></Error>".encode()


def no_conditions(server: Server, method: str, path: str) -> tuple[int, bytes] | None:
    return (501, b"<Error><Code>NotImplemented</Code></Error>") if method == "PUT" else None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fails, "the object store failed"),
        (hangs_up, "the object store failed"),
        (hangs, "the object store failed"),
        (refuses, "does not permit this with these credentials"),
        (expires, r"the session token of these credentials has expired \(.*What is in the store is safe: log in again"),
        (no_conditions, "the object store failed"),
    ],
)
def test_a_driver_stops_with_one_error_in_words(answer: Answer, words: str, server: Server) -> None:
    journal = Journal(place("x"), rows=rows_of(Objects(place("x"), patience=PATIENCE)))
    journal.handle(ok(spec(0).key))
    server.answer = answer
    with pytest.raises(JournalError, match=rf"s3://sweeps/x/journal/0+3\.rows: .*{words}") as told:
        journal.handle(ok(spec(1).key))
    assert not any(secret in str(told.value) for name, secret in VARIABLES.items() if name != "AWS_REGION")
    assert list(journal.state.results) == [spec(0).key]
    server.answer = lambda server, method, path: None
    journal.close()


def test_a_run_with_fresh_credentials_continues_after_a_token_that_expired(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-morning")
    journal = Journal(place("x"), rows=rows_of(Objects(place("x"), patience=PATIENCE)))
    journal.handle(ok(spec(0).key))
    server.answer = expires
    with pytest.raises(JournalError, match="has expired") as told:
        journal.handle(ok(spec(1).key))
    assert "of-the-morning" not in str(told.value)
    journal.close()  # neither raises nor waits: what it would remove stays for the next driver
    server.answer = lambda server, method, path: None
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-evening")
    journal = Journal(place("x"), rows=rows_of(Objects(place("x"), patience=PATIENCE)))
    assert list(journal.state.results) == [spec(0).key]
    journal.handle(ok(spec(1).key))
    journal.close()
    assert list(read_journal(place("x")).results) == [spec(0).key, spec(1).key]


def test_a_put_that_is_done_and_answered_by_a_failure_is_one_s_own(server: Server) -> None:
    """The library tries again, and is told that the object exists: it does, by this driver."""
    journal = Journal(place("x"), rows=rows_of(Objects(place("x"), patience=PATIENCE)))
    failed: list[str] = []
    sound = server.said

    def done_and_failed(method: str, path: str, body: bytes, creates: bool) -> tuple[int, bytes]:
        status, content = sound(method, path, body, creates)
        if method == "PUT" and path.endswith("2.rows") and status == 200:
            failed.append(path)
            return 500, b"<Error><Code>InternalError</Code></Error>"
        return status, content

    server.said = done_and_failed  # type: ignore[method-assign]
    journal.handle(ok(spec(0).key))
    assert failed
    journal.handle(ok(spec(1).key))
    assert len(journal.state.results) == 2
    journal.close()


def test_a_server_that_does_not_list_what_it_has_is_told(server: Server) -> None:
    server.listed = lambda path: b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    with pytest.raises(JournalError, match="does not list an object that was just written"):
        Journal(place("x"), rows=rows_of(Objects(place("x"), patience=PATIENCE)))
