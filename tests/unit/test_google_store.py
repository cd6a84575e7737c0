"""What is sent to Google's object store, and what its answers mean, as Google's documentation of its XML interface has
it. No emulator that can be had knows the condition there, on which the one writer of a journal depends."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import journal_checks
import mirror_checks
import pytest
from mirror_checks import ok, spec
from object_stores import BUCKET, rows_of
from six_drivers import six_at_once

from crowdsweep.errors import JournalError, JournalLocked
from crowdsweep.record.journal import Journal
from crowdsweep.record.object_rows import ObjectRows
from crowdsweep.record.objects import Objects, RetrySettings
from crowdsweep.record.store_uri import StoreUri, store_named

TOKEN = "a-token-that-nobody-writes-down"
PATIENCE = RetrySettings(connect_s=2.0, request_s=2.0, tries=0, all_s=2.0)
WHEN = ("2026-11-29T21:00:00.000Z", "Sun, 29 Nov 2026 21:00:00 GMT")


class Google:
    """Objects of one bucket, in memory.

    Attributes:
        honours: whether it looks at conditions.
        conditions: that puts came with, by the names of their objects.
        authorized: what requests came with to say who asks.
    """

    def __init__(self) -> None:
        self.honours = True
        self.conditions: dict[str, list[str]] = {}
        self.authorized: set[str] = set()
        self.objects: dict[str, bytes] = {}
        self.guard = threading.Lock()

    def answer(self, method: str, path: str, body: bytes, condition: str) -> tuple[int, bytes]:
        """Returns the status and the body of an answer."""
        parts = urlsplit(path)
        bucket, _, name = unquote(parts.path).strip("/").partition("/")
        if bucket != BUCKET:
            return 404, b"<Error><Code>NoSuchBucket</Code></Error>"
        with self.guard:
            if method == "GET" and not name:
                return 200, self._listed({key: values[0] for key, values in parse_qs(parts.query).items()})
            if method == "PUT":
                self.conditions.setdefault(name, []).append(condition)
                if self.honours and condition == "0" and name in self.objects:
                    return 412, b"<Error><Code>PreconditionFailed</Code></Error>"
                self.objects[name] = body
                return 200, b""
            if name not in self.objects:
                return 404, b"<Error><Code>NoSuchKey</Code></Error>"
            if method == "DELETE":
                del self.objects[name]
                return 204, b""
            return 200, self.objects[name]

    def _listed(self, wanted: dict[str, str]) -> bytes:
        begins, after = wanted.get("prefix", ""), wanted.get("start-after", "")
        found = [name for name in sorted(self.objects) if name.startswith(begins) and name > after]
        facts = f"<LastModified>{WHEN[0]}</LastModified><Size>1</Size><ETag>0</ETag>"
        folders = set[str]()
        if mark := wanted.get("delimiter"):
            folders = {begins + rest.partition(mark)[0] + mark for one in found if mark in (rest := one[len(begins) :])}
            found = [name for name in found if mark not in name[len(begins) :]]
        contents = "".join(f"<Contents><Key>{name}</Key>{facts}</Contents>" for name in found)
        contents += "".join(f"<CommonPrefixes><Prefix>{one}</Prefix></CommonPrefixes>" for one in sorted(folders))
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[Google]:
    served = Google()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            served.authorized.add(self.headers.get("Authorization", ""))
            condition = self.headers.get("x-goog-if-generation-match", "")
            status, content = served.answer(self.command, self.path, body, condition)
            self.send_response(status)
            headers = {"Content-Length": str(len(content)), "ETag": '"0"', "Last-Modified": WHEN[1]}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_DELETE = _do

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        monkeypatch.setenv("GOOGLE_BASE_URL", f"http://127.0.0.1:{http.server_port}")
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", TOKEN)
        yield served
        http.shutdown()
        thread.join()


def place(prefix: str = "runs/x", bucket: str = BUCKET) -> StoreUri:
    named = store_named(f"gs://{bucket}/{prefix}")
    assert isinstance(named, StoreUri)
    return named


def test_an_object_is_created_on_the_condition_that_it_has_no_generation(google: Google) -> None:
    objects = Objects(place(), patience=PATIENCE)
    assert objects.create("a", b"1")
    assert not objects.create("a", b"2")
    assert objects.get("a") == b"1"
    objects.put("a", b"3")
    assert google.conditions == {"runs/x/a": ["0", "0", ""]}
    assert google.authorized == {f"Bearer {TOKEN}"}


def test_names_are_those_below_the_prefix(google: Google) -> None:
    objects = Objects(place(), patience=PATIENCE)
    Objects(place("runs/xy"), patience=PATIENCE).put("other", b"")
    for name in ("b", "a/b", "a/c/d"):
        objects.put(name, b"")
    assert [one.name for one in objects.names("")] == ["a/b", "a/c/d", "b"]
    assert [one.name for one in objects.names("a", after="a/b")] == ["a/c/d"]
    assert [one.name for one in objects.names_in("")] == ["b"]
    assert objects.folders() == ["a"]
    objects.remove(["b", "b"])
    assert objects.get("b") is None


@pytest.mark.parametrize(
    "check",
    [
        mirror_checks.check_rows_come_back,
        mirror_checks.check_second_writer_is_kept_out,
        mirror_checks.check_closed_rows_refuse,
    ],
)
def test_rows(check: Callable[[mirror_checks.OpenRows], None], google: Google) -> None:
    check(lambda write: rows_of(Objects(place()), answer_s=60.0) if write else ObjectRows(Objects(place())))


@pytest.mark.long
@pytest.mark.parametrize("check", journal_checks.CHECKS)
def test_journal(check: Callable[[journal_checks.OpenJournal], None], google: Google) -> None:
    check(lambda: Journal(place(), rows=rows_of(Objects(place()), answer_s=60.0)))


def test_of_six_drivers_at_once_one_writes(google: Google) -> None:
    def begin(number: int) -> Journal:
        journal = Journal(place(), rows=rows_of(Objects(place()), answer_s=60.0))
        journal.handle(ok(spec(number).key))
        return journal

    wrote, refused = six_at_once(begin)
    assert (len(wrote), len(refused)) == (1, 5)
    assert all(isinstance(error, JournalLocked) for error in refused)
    wrote[0].close()


def test_a_server_that_looks_at_no_conditions_is_refused(google: Google) -> None:
    google.honours = False
    with pytest.raises(JournalError, match=r"overwrites objects that it was asked to create only where none exists"):
        rows_of(Objects(place()))


def test_a_bucket_that_is_not_there_is_told(google: Google) -> None:
    with pytest.raises(JournalError, match=r"^gs://nobody-made-this/x: expected a bucket .* and the server has none"):
        Objects(place("x", "nobody-made-this"), patience=PATIENCE).put("a", b"")
