"""The objects below a prefix of an object store: the one door to `obstore`.

Every request ends: it has a limit, is tried again a few times, and then raises one named error in words.
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
"""Requests that wait for an answer at the same time, where many objects are read or written."""

_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|SAS|CREDENTIAL|CONNECTION", re.IGNORECASE)
_SHORTEST_SECRET = 6
_HIDDEN = "***"
_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")
# By what a scheme begins with: what obstore calls the URL of a server, and the variables that may say it.
_SERVERS = {
    "s3": ("endpoint", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")),
    "gs": ("base_url", ("GOOGLE_BASE_URL",)),
    "a": ("endpoint", ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
}
_INSTALL = "`pip install 'crowdsweep[cloud]'`"


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a server is waited for.

    Attributes:
        connect_s, request_s: seconds, for one try.
        tries: more of them after the first.
        all_s: seconds after which none is begun.
    """

    connect_s: float = 5.0
    request_s: float = 20.0
    tries: int = 5
    all_s: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Found:
    """An object of a listing: its name below the prefix, its size in bytes, and when it was written."""

    name: str
    size: int
    written: datetime


class Objects:
    """Objects by their names below a prefix.

    Args:
        place: the prefix.
        patience: with the server.
        client: what to speak to the bucket with; where it is None, the one of the place's connection, made from the
            environment as it is now.

    Raises:
        BadInput: the package for object stores is missing, or what the environment says of this store is not enough.
    """

    def __init__(
        self, place: StoreUri, *, patience: Patience | None = None, client: "ObjectStore | None" = None
    ) -> None:
        self.place = place
        self._above = "".join(f"{part}/" for part in place.parts)  # the bucket's names begin so
        self._client = _shared_client(place, patience or Patience()) if client is None else client

    def create(self, name: str, content: bytes) -> bool:
        """Writes an object where none of that name stands; returns whether it did, False where one stood there.

        Raises:
            JournalError: it is not known to have been written: the server cannot be reached, or says no.
        """
        try:
            with self._translated_errors(name, writing=True):
                self._put(name, content, mode="create")
        except _Exists:
            return False
        return True

    def put(self, name: str, content: bytes) -> None:
        """Writes an object, in place of one that stands there.

        Raises:
            JournalError: as `create`.
        """
        with self._translated_errors(name, writing=True):
            self._put(name, content, mode="overwrite")

    def get(self, name: str) -> bytes | None:
        """Returns the content of an object; None where there is none.

        Raises:
            JournalError: the object cannot be read.
        """
        import obstore  # noqa: PLC0415 - an extra

        try:
            with self._translated_errors(name):
                return bytes(obstore.get(self._client, self._above + name).bytes())
        except _Missing:
            return None

    def get_all(self, names: Sequence[str]) -> Iterator[bytes | None]:
        """Yields the contents of objects in their order, many of them read at the same time.

        Raises:
            JournalError: one cannot be read.
        """
        yield from _at_once(self.get, names)

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Writes objects where none of their names stand, many at the same time.

        Raises:
            JournalError: one could not be written.
        """
        for _ in _at_once(lambda file: self.create(*file), files):
            pass

    def names(self, folder: str, *, after: str = "") -> list[Found]:
        """Returns the objects below a folder in the order of their names, which are whole.

        Args:
            folder: below the prefix; empty for all.
            after: the name behind which to begin.

        Raises:
            JournalError: they cannot be listed.
        """
        import obstore  # noqa: PLC0415 - an extra

        behind = self._above + after if after else None
        with self._translated_errors(folder):
            pages = obstore.list(self._client, self._below(folder), offset=behind, chunk_size=1000)
            return self._found(one for page in pages for one in page)

    def names_in(self, folder: str) -> list[Found]:
        """Returns the objects that lie right in a folder, as `names` does, and none of those deeper in it.

        Raises:
            JournalError: they cannot be listed.
        """
        import obstore  # noqa: PLC0415 - an extra

        with self._translated_errors(folder):
            return self._found(obstore.list_with_delimiter(self._client, self._below(folder))["objects"])

    def folders(self) -> list[str]:
        """Returns the names of the folders right below the prefix.

        Raises:
            JournalError: they cannot be listed.
        """
        import obstore  # noqa: PLC0415 - an extra

        with self._translated_errors(""):
            found = obstore.list_with_delimiter(self._client, self._below(""))["common_prefixes"]
        return sorted(name.removeprefix(self._above).rstrip("/") for name in found)

    def remove(self, names: Sequence[str]) -> None:
        """Removes objects; those that are gone already are no error.

        Raises:
            JournalError: one cannot be removed.
        """
        import obstore  # noqa: PLC0415 - an extra

        for name in names:  # one by one: bulk requests are not understood by every server
            try:
                with self._translated_errors(name):  # S3 does not tell those that are gone, GCS and Azure do
                    obstore.delete(self._client, self._above + name)
            except _Missing:
                continue

    def _put(self, name: str, content: bytes, *, mode: Any) -> None:
        import obstore  # noqa: PLC0415 - an extra

        obstore.put(self._client, self._above + name, content, mode=mode, use_multipart=False)

    def _below(self, folder: str) -> str | None:
        """Returns how the bucket's names begin of what lies in a folder; None where they are all of its names."""
        return self._above + (f"{folder}/" if folder else "") or None

    def _found(self, listed: Iterable[Mapping[str, Any]]) -> list[Found]:
        found = (
            Found(name=one["path"].removeprefix(self._above), size=one["size"], written=one["last_modified"])
            for one in listed
        )
        return sorted(found, key=lambda one: one.name)

    @contextmanager
    def _translated_errors(self, name: str, *, writing: bool = False) -> Generator[None]:
        """Turns the library's errors into errors of ours. They have no cause: a traceback would print the library's own
        words, with the query of a URL and what the server said, and so a signature or a token.
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
    """There is no such object."""


class _Exists(Exception):
    """There is one already."""


def _at_once(do: Callable[[Any], Any], of: Sequence[Any]) -> Iterator[Any]:
    """Yields what comes of each, in order; so many are under way that memory stays bounded."""
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
    """Returns what differs where the environment says something else of object stores: their clients are others."""
    return hash(frozenset(one for one in os.environ.items() if one[0].startswith(_VARIABLES)))


def _shared_client(place: StoreUri, patience: Patience) -> "ObjectStore":
    """Returns the client of a place's connection, made from the environment as it is now."""
    return place.connection.client((patience, _environment()), lambda: _client_of(place, patience))


def _client_of(place: StoreUri, patience: Patience) -> "ObjectStore":
    """Returns what the bucket of a place is spoken to with."""
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
    if server := _server(place):  # of one's own, without encryption where its URL says so
        more |= server
        more["client_options"] = {**options, "allow_http": any(url.startswith("http://") for url in server.values())}
    if place.scheme.startswith("s3"):
        more |= _from_profile(place)
    try:
        return from_url(str(replace(place, parts=())), **more)
    except (BaseError, ValueError, OSError) as error:
        raise BadInput(
            f"{place}: what the environment says of this store is not enough: {_said(error)}; "
            f"docs/pages/how-to/use-an-object-store.md has the variables that each kind of store needs"
        ) from None


def _server(place: StoreUri) -> dict[str, str]:
    """Returns the URL of a server that is not the cloud's own, by obstore's name; nothing where no variable has one."""
    name, variables = next(one for begins, one in _SERVERS.items() if place.scheme.startswith(begins))
    url = next((os.environ[variable] for variable in variables if os.environ.get(variable)), "")
    return {name: url} if url else {}


def _from_profile(place: StoreUri) -> dict[str, Any]:
    """Returns what AWS's own files say, where the variables do not: `~/.aws/credentials` and `~/.aws/config`.

    Raises:
        BadInput: they say something that cannot be used.
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
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return (
            f"{place}: the server lets these credentials do no such thing ({said}). Reading, writing, listing and "
            f"removing objects below the prefix must be allowed; see to the credentials, then do the same again"
        )
    if re.search(r"169\.254\.169\.254|metadata\.google|credential", str(error), re.IGNORECASE):
        return (
            f"{place}: expected credentials for this store, and found none that work ({said}). Set the variables of "
            f"the store (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE; GOOGLE_APPLICATION_CREDENTIALS; "
            f"AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY), then do the same again"
        )
    return (
        f"{place}: the object store gave no answer that helps ({said}). What stands in the store is safe: see to the "
        f"server and the network, then do the same again and it goes on"
    )


def _said(error: BaseException) -> str:
    """Returns what a library said: its first line, and of a server's answer the code and the message. What could let
    somebody in is left out: names and queries of URLs, other parts of an answer (S3 sends a token back that it does
    not like), and what the environment holds of credentials."""
    told = str(error).strip()
    text = told.split("\n", maxsplit=1)[0].partition("<")[0].strip()
    answer = [found[1] for tag in ("Code", "Message") if (found := re.search(f"<{tag}>([^<]*)</{tag}>", told))]
    text = " ".join([text, *([": ".join(answer)] if answer else [])])
    text = re.sub(r"\?\S*", "?…", re.sub(r"://[^\s/]*@", f"://{_HIDDEN}@", text))
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, _HIDDEN).replace(quote(value, safe=""), _HIDDEN)
    return plain(shortened(text, 300)) or type(error).__name__
