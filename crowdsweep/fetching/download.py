"""Download of one file over HTTP, which resumes where a lost connection has ended it.

`NAME.part` holds the bytes received so far, and `NAME.from` says which file they belong to. The rest is appended if the
server sends it (206) with the same entity tag or, without one, the same date of its last change, and the same size;
otherwise the download starts anew, as it does where the server sent neither (RFC 9110, section 13.1.5). A file is
complete when it has the size that the server announced, and the published checksum if there is one (`fetch.py` checks
that).
"""

import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from crowdsweep.errors import DataError, error_words
from crowdsweep.files.inside import content_of
from crowdsweep.paths import is_file
from crowdsweep.units import show_file_size

MOST_BYTES = 1 << 30
"""Size limit of one file: no dataset here is nearly as large."""
_ATTEMPTS = 4
_PAUSE_S = 1.0  # wait before the second attempt; each further wait is longer by as much
_TIMEOUT_S = 30.0  # longest silence of a server
_PIECE = 1 << 16
_LATER = (408, 425, 429, 500, 502, 503, 504)  # temporary HTTP errors
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+)")
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class _ConnectionCut(Exception):
    """A connection ended, or a server could not answer, before a file was complete."""


@dataclass(frozen=True, kw_only=True)
class _From:
    """The file that a partial download belongs to: its address, and its entity tag, date of the last change and size if
    the server sent them.
    """

    url: str
    tag: str | None = None
    modified: str | None = None
    size: int | None = None

    @property
    def validator(self) -> str:
        """What tells this file from a later one of the same address; empty for nothing. A weak tag does not."""
        return self.tag if self.tag and not self.tag.startswith("W/") else self.modified or ""


def download(url: str, folder: Path, name: str, tell: Callable[[str], None]) -> Path:
    """Downloads a file unless it is there already, and returns its path.

    Args:
        url: `https://…` or `http://…`.
        folder: the folder that the file goes into, which must exist.
        name: name of the file in the folder.
        tell: receives sentences on the progress.

    Raises:
        DataError: the file cannot be downloaded (bytes received so far are kept), or another process downloads it.
    """
    whole = folder / name
    if is_file(whole):
        return whole
    with _alone_with(folder, name) as (file, descriptor):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _receive(url, file, descriptor, name)
                break
            except _ConnectionCut as cut:
                have = show_file_size(file.seek(0, os.SEEK_END))
                if attempt == _ATTEMPTS:
                    raise DataError(
                        f"{url}: the download failed: {cut}, {_ATTEMPTS} times; {have} are kept, and the same command "
                        f"continues from there"
                    ) from cut
                tell(f"{name}: {cut} after {have}; trying again")
                time.sleep(attempt * _PAUSE_S)
        # Durable before it has its name: a file of that name is whole, after a crash of the machine too.
        file.flush()
        os.fsync(file.fileno())
        os.rename(f"{name}.part", name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
        _remove(descriptor, f"{name}.from")
    return whole


def digest_of(path: Path, algorithm: str) -> str:
    """Returns a file's digest in hexadecimal.

    Args:
        path: the file.
        algorithm: `sha256`, or `md5`, which detects damage but no tampering.
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


@contextmanager
def _alone_with(folder: Path, name: str) -> Generator[tuple[IO[bytes], int]]:
    """Yields the partial file, locked, and the descriptor of its folder; raises DataError if it is locked already."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with open(os.open(f"{name}.part", _NEW_FILE, 0o666, dir_fd=descriptor), "r+b") as file:  # noqa: PTH123 - a descriptor, not a path
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(f"{folder / name}: another crowdsweep fetches it; wait until it has ended") from None
            try:
                yield file, descriptor
            finally:
                if not file.seek(0, os.SEEK_END):  # an empty file is not kept
                    _remove(descriptor, f"{name}.part", f"{name}.from")
    finally:
        os.close(descriptor)


def _remove(folder: int, *names: str) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)


def _receive(url: str, file: IO[bytes], folder: int, name: str) -> None:
    """Appends the missing bytes to a partial file.

    Raises:
        _ConnectionCut: the file is still incomplete.
        DataError: the server does not have the file, or sends something else.
    """
    have, known = file.seek(0, os.SEEK_END), _read_note(folder, name)
    if known is None or known.url != url or not known.validator:
        have, known = 0, _From(url=url)
    for begins in dict.fromkeys((have, 0)):  # from 0 if the server does not continue the same file
        try:
            with _answer(url, begins, known.validator) as response:
                start, source = _what_comes(response, url)
                if start and (start != begins or source != known):
                    continue
                file.seek(start)
                file.truncate()
                # Noted before the first byte: what is on the disk is always known to be of this file, however the
                # process ends.
                _write_note(folder, name, source)
                _copy(response, file, source)
                return
        except _AlreadyComplete as there:
            if there.size == have == known.size:
                return
    raise DataError(f"{url}: expected a file, the server sends only a part of it; download it by hand")


class _AlreadyComplete(Exception):
    """The server has no bytes beyond those received; `size` is the size of its file, or None."""

    def __init__(self, size: int | None) -> None:
        super().__init__()
        self.size = size


def _answer(url: str, begins: int, validator: str) -> HTTPResponse:
    """Requests a file from byte `begins` on if it is still the one of the validator, and returns the response."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise DataError(f"{url}: expected an address that begins with https:// or http://")
    # Not compressed on the way: positions in what is sent have to be positions in the file, or nothing could be
    # continued.
    headers = {"User-Agent": "crowdsweep", "Accept-Encoding": "identity"}
    headers |= {"Range": f"bytes={begins}-", "If-Range": validator} if begins else {}
    request = Request(url, headers=headers)  # noqa: S310 - the scheme is checked
    try:
        return build_opener(_NoDowngrade).open(request, timeout=_TIMEOUT_S)
    except HTTPError as error:
        with error:
            if error.code == 416 and begins:
                _, size = _range_of(error.headers.get("Content-Range"))
                raise _AlreadyComplete(size) from error
            if error.code in _LATER:
                raise _ConnectionCut(f"the server answered {error.code} ({error.reason})") from error
            raise DataError(
                f"{url}: the download failed: the server answered {error.code} ({error.reason}); the file may have "
                f"moved: report it, or download it by hand"
            ) from error
    except URLError as error:
        if isinstance(error.reason, TimeoutError):
            raise _ConnectionCut("the server was silent") from error
        raise DataError(
            f"{url}: cannot be reached ({error.reason}); is there a network, or a proxy to be named in HTTPS_PROXY?"
        ) from error
    except (HTTPException, OSError) as error:
        raise _ConnectionCut(f"the connection was lost ({error_words(error)})") from error


class _NoDowngrade(HTTPRedirectHandler):
    """Follows no redirect from https to another scheme, and none to an address that is not http or https."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        allowed = ("https",) if req.type == "https" else ("http", "https")
        if urlsplit(newurl).scheme not in allowed:
            raise DataError(f"{req.full_url}: expected a file, was redirected to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _what_comes(response: HTTPResponse, url: str) -> tuple[int, _From]:
    """Returns the position of a response's first byte in its file, and which file that is."""
    tag, modified = response.headers.get("ETag"), response.headers.get("Last-Modified")
    if response.status == 206:
        start, size = _range_of(response.headers.get("Content-Range"))
    else:
        start, length = 0, response.headers.get("Content-Length")
        size = int(length) if length is not None and length.isdecimal() else None
    return start or 0, _From(url=url, tag=tag, modified=modified, size=size)


def _range_of(text: str | None) -> tuple[int | None, int | None]:
    """Returns the first byte and the file size in a Content-Range header; None for what it does not say."""
    found = _RANGE.fullmatch(text or "")
    return (None, None) if found is None else (int(found[1]) if found[1] else None, int(found[2]))


def _copy(response: HTTPResponse, file: IO[bytes], source: _From) -> None:
    if source.size is not None and source.size > MOST_BYTES:
        many = show_file_size(source.size)
        raise DataError(f"{source.url}: expected at most {show_file_size(MOST_BYTES)}, the server announces {many}")
    while piece := _piece_of(response):
        file.write(piece)
        if file.tell() > MOST_BYTES:
            raise DataError(f"{source.url}: expected at most {show_file_size(MOST_BYTES)}, the server sends more")
    if source.size is not None and file.tell() != source.size:
        raise _ConnectionCut("the connection was cut")


def _piece_of(response: HTTPResponse) -> bytes:
    try:
        return response.read(_PIECE)
    except (HTTPException, OSError) as error:
        raise _ConnectionCut(f"the connection was cut ({error_words(error)})") from error


def _read_note(folder: int, name: str) -> _From | None:
    """Returns the file that a partial download belongs to; None where that is not known."""
    try:
        loaded = json.loads(content_of(folder, f"{name}.from", 10_000) or b"null")
        return _From(url=str(loaded["url"]), tag=loaded["tag"], modified=loaded["modified"], size=loaded["size"])
    except (ValueError, TypeError, KeyError):
        return None


def _write_note(folder: int, name: str, source: _From) -> None:
    descriptor = os.open(f"{name}.from", _NEW_FILE | os.O_TRUNC, 0o666, dir_fd=folder)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor, not a path
        json.dump(asdict(source), file)
