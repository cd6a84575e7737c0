"""Access to the objects below a prefix of an object store; only this module uses `obstore`.

Every request has a timeout and a retry policy, after which it raises a `JournalError` in plain words.
"""

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from crowdsweep.errors import BadInput, JournalError, plain, shortened
from crowdsweep.record.store_uri import StoreUri

if TYPE_CHECKING:
    from obstore.store import ObjectStore

AT_ONCE = 32
"""Number of concurrent requests when many objects are read or written."""

_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|SAS|CREDENTIAL|CONNECTION", re.IGNORECASE)
_SHORTEST_SECRET = 6
_HIDDEN = "***"
_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")
# Beginning of a scheme → (obstore's option for the URL of a server, environment variables that may set it).
_SERVERS = {
    "s3": ("endpoint", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")),
    "gs": ("base_url", ("GOOGLE_BASE_URL",)),
    "a": ("endpoint", ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
}
_INSTALL = "`pip install 'crowdsweep[cloud]'`"


@dataclass(frozen=True, kw_only=True)
class RetrySettings:
    """Timeouts and retry policy of requests to a server.

    Attributes:
        connect_s, request_s: timeouts of one try, in seconds.
        tries: number of retries after the first try.
        all_s: seconds after which no further try begins.
    """

    connect_s: float = 5.0
    request_s: float = 20.0
    tries: int = 5
    all_s: float = 30.0


@dataclass(frozen=True, kw_only=True)
class ObjectInfo:
    """An object of a listing: its name below the prefix, its size in bytes, and the time it was written."""

    name: str
    size: int
    written: datetime


class Objects:
    """The objects below a prefix, by name.

    Each method raises `JournalError` where the server cannot be reached or refuses; after a write it is then unknown
    whether the object was written.

    Args:
        client: for the bucket; None: the client of the place's connection, made from the current environment.

    Raises:
        BadInput: the package `obstore` is not installed, or the environment does not configure this store.
    """

    def __init__(
        self, place: StoreUri, *, patience: RetrySettings | None = None, client: "ObjectStore | None" = None
    ) -> None:
        self.place = place
        self._above = "".join(f"{part}/" for part in place.parts)  # the prefix of all names in the bucket
        self._client = _shared_client(place, patience or RetrySettings()) if client is None else client

    def create(self, name: str, content: bytes) -> bool:
        """Writes a new object; returns False, without writing, if the name exists."""
        try:
            with self._translated_errors(name, writing=True):
                self._put(name, content, mode="create")
        except _Exists:
            return False
        return True

    def put(self, name: str, content: bytes) -> None:
        """Writes an object and replaces an existing one of that name."""
        with self._translated_errors(name, writing=True):
            self._put(name, content, mode="overwrite")

    def get(self, name: str) -> bytes | None:
        """Returns the content of an object; None if it does not exist."""
        import obstore  # noqa: PLC0415 - an extra

        try:
            with self._translated_errors(name):
                return bytes(obstore.get(self._client, self._above + name).bytes())
        except _Missing:
            return None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yields the contents of objects in order, None for missing ones; reads many at the same time."""
        yield from _at_once(self.get, names)

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Writes new objects, (name, content), many at the same time; existing ones are left as they are."""
        for _ in _at_once(lambda file: self.create(*file), files):
            pass

    def names(self, folder: str, *, after: str = "") -> list[ObjectInfo]:
        """Returns all objects below a folder, including its subfolders, ordered by name.

        The names are relative to the prefix, not to the folder.

        Args:
            folder: below the prefix; empty for all objects.
            after: a name; only later names are returned.
        """
        import obstore  # noqa: PLC0415 - an extra

        behind = self._above + after if after else None
        with self._translated_errors(folder):
            pages = obstore.list(self._client, self._below(folder), offset=behind, chunk_size=1000)
            return self._found(one for page in pages for one in page)

    def names_in(self, folder: str) -> list[ObjectInfo]:
        """Returns the objects directly in a folder, without those of its subfolders; otherwise like `names`."""
        import obstore  # noqa: PLC0415 - an extra

        with self._translated_errors(folder):
            return self._found(obstore.list_with_delimiter(self._client, self._below(folder))["objects"])

    def folders(self) -> list[str]:
        """Returns the names of the folders directly below the prefix."""
        import obstore  # noqa: PLC0415 - an extra

        with self._translated_errors(""):
            found = obstore.list_with_delimiter(self._client, self._below(""))["common_prefixes"]
        return sorted(name.removeprefix(self._above).rstrip("/") for name in found)

    def remove(self, names: Sequence[str]) -> None:
        """Removes objects; missing objects are no error."""
        import obstore  # noqa: PLC0415 - an extra

        for name in names:  # one by one: not every server supports bulk requests
            try:
                with self._translated_errors(name):  # S3 does not report missing objects, GCS and Azure do
                    obstore.delete(self._client, self._above + name)
            except _Missing:
                continue

    def _put(self, name: str, content: bytes, *, mode: Any) -> None:
        import obstore  # noqa: PLC0415 - an extra

        obstore.put(self._client, self._above + name, content, mode=mode, use_multipart=False)

    def _below(self, folder: str) -> str | None:
        """Returns the prefix, in the bucket, of the names in a folder; None if that is the whole bucket."""
        return self._above + (f"{folder}/" if folder else "") or None

    def _found(self, listed: Iterable[Mapping[str, Any]]) -> list[ObjectInfo]:
        found = (
            ObjectInfo(name=one["path"].removeprefix(self._above), size=one["size"], written=one["last_modified"])
            for one in listed
        )
        return sorted(found, key=lambda one: one.name)

    @contextmanager
    def _translated_errors(self, name: str, *, writing: bool = False) -> Generator[None]:
        """Translates exceptions of the library into the project's errors, without a cause.

        A traceback with the cause would print the library's message, with URL queries and server answers, which may
        contain a signature or a token.
        """
        from obstore import exceptions  # noqa: PLC0415 - an extra

        try:
            yield
        except exceptions.AlreadyExistsError:
            raise _Exists from None
        except FileNotFoundError as error:
            if not writing and "NoSuchBucket" not in str(error) and "ContainerNotFound" not in str(error):
                raise _Missing from None
            raise JournalError(_no_bucket(self.place)) from None
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise JournalError(_words(self.place / name if name else self.place, error)) from None


class _Missing(Exception):
    """The object does not exist."""


class _Exists(Exception):
    """The object exists already."""


def _at_once(do: Callable[[Any], Any], of: Sequence[Any]) -> Iterator[Any]:
    """Yields the result of `do` for each element, in order; a limited number run at once, to bound the memory."""
    if len(of) < 2:
        yield from map(do, of)
        return
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="objects") as pool:
        waiting = iter(of)
        running = [pool.submit(do, one) for one in islice(waiting, 2 * AT_ONCE)]
        try:
            while running:
                yield running.pop(0).result()
                running += [pool.submit(do, one) for one in islice(waiting, 1)]
        finally:
            for future in running:
                future.cancel()


def _environment() -> int:
    """Returns a hash of the environment variables for object stores; clients are cached under it."""
    return hash(frozenset(one for one in os.environ.items() if one[0].startswith(_VARIABLES)))


def _shared_client(place: StoreUri, patience: RetrySettings) -> "ObjectStore":
    """Returns the client of a place's connection; makes one if the current environment has none yet."""
    return place.connection.client((patience, _environment()), lambda: _client_of(place, patience))


def _client_of(place: StoreUri, patience: RetrySettings) -> "ObjectStore":
    """Returns a new client for the bucket of a place."""
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra
        from obstore.store import from_url  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise BadInput(
            f"{place}: a store in an object store needs the package obstore, which is not installed: {_INSTALL}, then "
            f"do the same again"
        ) from error
    options = {
        "connect_timeout": timedelta(seconds=patience.connect_s),
        "timeout": timedelta(seconds=patience.request_s),
    }
    more: dict[str, Any] = {
        "client_options": options,
        "retry_config": {"max_retries": patience.tries, "retry_timeout": timedelta(seconds=patience.all_s)},
    }
    if server := _server(place):  # a custom server, without encryption if its URL says http
        more |= server
        more["client_options"] = {**options, "allow_http": any(url.startswith("http://") for url in server.values())}
    if place.scheme.startswith("s3"):
        more |= _from_profile(place)
    try:
        return from_url(str(replace(place, parts=())), **more)
    except (BaseError, ValueError, OSError) as error:
        raise BadInput(
            f"{place}: the environment lacks settings for this store: {_said(error)}; "
            f"docs/pages/how-to/use-an-object-store.md has the variables that each kind of store needs"
        ) from None


def _server(place: StoreUri) -> dict[str, str]:
    """Returns {obstore's option: URL} for a server other than the cloud's own; empty if no variable sets one."""
    name, variables = next(one for begins, one in _SERVERS.items() if place.scheme.startswith(begins))
    url = next((os.environ[variable] for variable in variables if os.environ.get(variable)), "")
    return {name: url} if url else {}


def _from_profile(place: StoreUri) -> dict[str, Any]:
    """Returns obstore's options for the credentials in AWS's own files, `~/.aws/credentials` and `~/.aws/config`.

    Empty if AWS_ACCESS_KEY_ID is set, or if the files do not exist or contain no credentials.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return {}
    files = (
        Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")),
        Path(os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")),
    )
    if not os.environ.get("AWS_PROFILE") and not any(file.expanduser().is_file() for file in files):
        return {}
    try:
        import boto3  # noqa: PLC0415 - an extra
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - an extra
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise BadInput(
            f"{place}: the credentials of AWS's files (AWS_PROFILE, ~/.aws) need the package boto3, which is not "
            f"installed: {_INSTALL}, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    try:
        session = boto3.Session()
        if session.get_credentials() is None:
            return {}
        region = session.region_name or "us-east-1"
        return {"credential_provider": Boto3CredentialProvider(session), "region": region}
    except (BotoCoreError, ValueError, OSError) as error:
        raise BadInput(f"{place}: AWS's files (AWS_PROFILE, ~/.aws) cannot be used: {_said(error)}") from None


def _no_bucket(place: StoreUri) -> str:
    return (
        f"{place}: expected a bucket (or container) called {place.bucket}, and the server has none; make it, or give "
        f"another --store (the URL of a server of your own goes into AWS_ENDPOINT_URL, AZURE_STORAGE_ENDPOINT or "
        f"GOOGLE_BASE_URL)"
    )


def _words(place: StoreUri, error: BaseException) -> str:
    from obstore import exceptions  # noqa: PLC0415 - an extra

    said = _said(error)
    if "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
        return _no_bucket(place)
    if "RequestTimeTooSkewed" in str(error):
        return f"{place}: the server refuses the clock of this machine ({said}); set it (NTP), then do the same again"
    if re.search(r"ExpiredToken|token[^<]* expired", str(error), re.IGNORECASE):  # S3 answers 400, others 401 or 403
        return (
            f"{place}: the session token of these credentials has expired ({said}). What is in the store is safe: log "
            f"in again (such as `aws sso login`, or a new AWS_SESSION_TOKEN with its keys), then do the same again to "
            f"continue"
        )
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return (
            f"{place}: the server does not permit this with these credentials ({said}). Reading, writing, listing and "
            f"removing objects below the prefix must be allowed; check the credentials, then do the same again"
        )
    if re.search(r"169\.254\.169\.254|metadata\.google|credential", str(error), re.IGNORECASE):
        return (
            f"{place}: expected credentials for this store, and found none that work ({said}). Set the variables of "
            f"the store (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE; GOOGLE_APPLICATION_CREDENTIALS; "
            f"AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY), then do the same again"
        )
    return (
        f"{place}: the object store failed ({said}). What is in the store is safe: check the server "
        f"and the network, then do the same again to continue"
    )


def _said(error: BaseException) -> str:
    """Returns the message of a library's error without secrets: its first line, and a server's code and message.

    Possible secrets are left out: user names and queries of URLs, other parts of a server's answer (S3 returns a token
    that it rejects), and credentials from the environment.
    """
    message = str(error).strip()
    text = message.split("\n", maxsplit=1)[0].partition("<")[0].strip()
    answer = [found[1] for tag in ("Code", "Message") if (found := re.search(f"<{tag}>([^<]*)</{tag}>", message))]
    text = " ".join([text, *([": ".join(answer)] if answer else [])])
    text = re.sub(r"\?\S*", "?…", re.sub(r"://[^\s/]*@", f"://{_HIDDEN}@", text))
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, _HIDDEN).replace(quote(value, safe=""), _HIDDEN)
    return plain(shortened(text, 300)) or type(error).__name__
