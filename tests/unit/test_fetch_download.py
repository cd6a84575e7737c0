"""One file over HTTP: gone on with where it was cut, never the half of one for the whole, and nothing else's bytes."""

import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request

import pytest
from file_server import FileServer, file_server

from crowdsweep.errors import DataError
from crowdsweep.fetching import download as downloads
from crowdsweep.fetching.download import digest_of, download
from crowdsweep.units import show_file_size

CONTENT = bytes(range(256)) * 2000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(downloads, "_PAUSE_S", 0.0)
    with file_server() as serving:
        serving.files["/a.bin"] = CONTENT
        yield serving


def fetched(server: FileServer, folder: Path) -> bytes:
    return download(f"{server.url}/a.bin", folder, "a.bin", lambda _: None).read_bytes()


def test_a_file_is_fetched_once(server: FileServer, tmp_path: Path) -> None:
    assert fetched(server, tmp_path) == fetched(server, tmp_path) == CONTENT
    assert server.asked == [("/a.bin", None)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]
    assert digest_of(tmp_path / "a.bin", "sha256") == hashlib.sha256(CONTENT).hexdigest()


def test_a_connection_that_is_cut_is_gone_on_with_at_once(server: FileServer, tmp_path: Path) -> None:
    server.fails = lambda n, _: (1000, 70_000, None)[n]
    assert fetched(server, tmp_path) == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", "bytes=71000-"]


def test_what_came_is_kept_for_the_next_command(server: FileServer, tmp_path: Path) -> None:
    server.fails = lambda _, __: 10_000
    with pytest.raises(DataError, match=r"cut.*4 times; 40 kB are kept"):
        fetched(server, tmp_path)
    assert (tmp_path / "a.bin.part").read_bytes() == CONTENT[:40_000]
    server.fails = lambda _, __: None
    assert fetched(server, tmp_path) == CONTENT
    assert server.asked[-1] == ("/a.bin", "bytes=40000-")


@pytest.mark.parametrize("how", ["another tag", "another size", "no rest", "no note", "another address"])
def test_the_rest_of_another_file_is_not_added(server: FileServer, tmp_path: Path, how: str) -> None:
    server.fails = lambda n, _: 10_000 if n < 4 else None
    with pytest.raises(DataError, match="kept"):
        fetched(server, tmp_path)
    wanted = CONTENT[::-1]
    server.files["/a.bin"] = wanted
    if how == "another tag":
        server.tags["/a.bin"] = '"2"'
    elif how == "another size":
        server.files["/a.bin"] = wanted = wanted[:-1]
    elif how == "no rest":
        server.goes_on = False
    elif how == "no note":
        (tmp_path / "a.bin.from").write_text("{")
    else:
        note = tmp_path / "a.bin.from"
        note.write_text(note.read_text().replace("a.bin", "b.bin"))
    assert fetched(server, tmp_path) == wanted


MONDAY, TUESDAY = "Mon, 02 Nov 2026 10:00:00 GMT", "Tue, 03 Nov 2026 10:00:00 GMT"


@pytest.mark.parametrize("knows_if_range", [True, False])
@pytest.mark.parametrize(
    ("tags", "dates"),
    [
        (('"1"', '"2"'), ("", "")),
        (("", ""), (MONDAY, TUESDAY)),
        (('W/"1"', 'W/"1"'), (MONDAY, TUESDAY)),  # a weak tag says that the files mean the same, not that they are
        (("", ""), ("", "")),
        (("", '"1"'), (MONDAY, "")),
    ],
)
def test_the_rest_of_a_changed_file_of_the_same_size_is_not_added(
    server: FileServer, tmp_path: Path, tags: tuple[str, str], dates: tuple[str, str], knows_if_range: bool
) -> None:
    server.knows_if_range = knows_if_range
    server.tags["/a.bin"], server.changed["/a.bin"] = tags[0], dates[0]
    server.fails = lambda n, _: 10_000 if n < 4 else None
    with pytest.raises(DataError, match="kept"):
        fetched(server, tmp_path)
    server.files["/a.bin"] = CONTENT[::-1]
    server.tags["/a.bin"], server.changed["/a.bin"] = tags[1], dates[1]
    assert fetched(server, tmp_path) == CONTENT[::-1]


def test_a_file_with_a_date_alone_is_gone_on_with(server: FileServer, tmp_path: Path) -> None:
    server.tags["/a.bin"], server.changed["/a.bin"] = "", MONDAY
    server.fails = lambda n, _: (1000, None)[n]
    assert fetched(server, tmp_path) == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-"]


def test_a_file_that_was_whole_when_its_command_was_killed_is_whole(server: FileServer, tmp_path: Path) -> None:
    server.fails = lambda n, _: 0 if n else len(CONTENT) - 1
    with pytest.raises(DataError, match="kept"):
        fetched(server, tmp_path)
    (tmp_path / "a.bin.part").write_bytes(CONTENT)
    server.fails = lambda _, __: None
    assert fetched(server, tmp_path) == CONTENT
    assert server.asked[-1] == ("/a.bin", f"bytes={len(CONTENT)}-")  # 416: there is nothing behind it


def test_a_server_that_is_busy_is_asked_again_and_one_that_has_nothing_is_not(
    server: FileServer, tmp_path: Path
) -> None:
    server.fails = lambda n, _: (503, 429)[n] if n < 2 else None
    assert fetched(server, tmp_path) == CONTENT
    with pytest.raises(DataError, match=r"/b.bin: the download failed: the server answered 404"):
        download(f"{server.url}/b.bin", tmp_path, "b.bin", lambda _: None)
    assert len(server.asked) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]  # nothing of b is kept, as nothing came


def test_a_port_where_no_server_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(DataError, match=r"cannot be reached .*refused"):
        download("http://127.0.0.1:9/a.bin", tmp_path, "a.bin", lambda _: None)


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://example.org/a", "a.bin"])
def test_only_web_addresses_are_fetched(url: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="begins with https"):
        download(url, tmp_path, "a.bin", lambda _: None)


def test_what_leads_elsewhere_is_followed_on_the_web_alone(server: FileServer, tmp_path: Path) -> None:
    server.fails = lambda n, _: f"{server.url}/a.bin" if n == 0 else None
    assert download(f"{server.url}/moved", tmp_path, "a.bin", lambda _: None).read_bytes() == CONTENT
    for place in ("file:///etc/hostname", "ftp://127.0.0.1/a.bin"):
        server.fails = lambda _, __, place=place: place
        with pytest.raises(DataError, match=r"is not (allowed|followed)"):
            download(f"{server.url}/moved", tmp_path, "b.bin", lambda _: None)


@pytest.mark.parametrize(("before", "after", "is_followed"), [("https", "https", True), ("https", "http", False)])
def test_https_does_not_become_http(before: str, after: str, is_followed: bool) -> None:
    request = Request(f"{before}://example.org/a")
    if is_followed:
        assert downloads._NoDowngrade().redirect_request(request, None, 302, "", {}, f"{after}://example.org/b")
    else:
        with pytest.raises(DataError, match="which is not followed"):
            downloads._NoDowngrade().redirect_request(request, None, 302, "", {}, f"{after}://example.org/b")


def test_a_file_without_end_is_refused(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "MOST_BYTES", 1000)
    with pytest.raises(DataError, match=r"at most .* the server announces"):
        fetched(server, tmp_path)


def test_two_do_not_write_one_file(server: FileServer, tmp_path: Path) -> None:
    with (tmp_path / "a.bin.part").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another crowdsweep fetches it"):
            fetched(server, tmp_path)


def test_nothing_is_written_through_a_link(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("kept")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.bin.part").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="symbolic links"):
        fetched(server, tmp_path / "in")
    assert (tmp_path / "theirs").read_text() == "kept"
    assert not server.asked


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (40_000, "40 kB"),
        (2_598_838, "2.6 MB"),
        (3 * 10**9, "3.0 GB"),
    ],
)
def test_sizes_are_said_as_listings_say_them(size: int, said: str) -> None:
    assert show_file_size(size) == said
