"""The objects below a prefix of an object store: the one door to `obstore`.

Every request ends: it has a limit, is tried again a few times, and then raises one named error in words.
"""

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdsweep.errors import BadInput, JournalError, plain, shortened
from crowdsweep.record.store_uri import StoreUri

if TYPE_CHECKING:
    from obstore.store import ObjectStore

AT_ONCE = 32
"""Requests that wait for an answer at the same time, where many objects are read or written."""

_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASSWORD|SAS|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 6
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
        client: what to speak to it with; made from the environment where it is None.

    Raises:
        BadInput: the package for object stores is missing, or what the environment says of this store is not enough.
    """

    def __init__(
        self, place: StoreUri, *, patience: Patience | None = None, client: "ObjectStore | None" = None
    ) -> None:
        self.place = place
        self._client = _client_of(place, patience or Patience()) if client is None else client

    def create(self, name: str, content: bytes) -> bool:
        """Writes an object where none of that name stands; returns whether it did, False where one stood there.

        Raises:
            JournalError: it is not known to have been written: the server cannot be reached, or says no.
        """
        try:
            with self._spoken_to(name, writing=True):
                _put(self._client, name, content, mode="create")
        except _Exists:
            return False
        return True

    def put(self, name: str, content: bytes) -> None:
        """Writes an object, in place of one that stands there.

        Raises:
            JournalError: as `create`.
        """
        with self._spoken_to(name, writing=True):
            _put(self._client, name, content, mode="overwrite")

    def get(self, name: str) -> bytes | None:
        """Returns the content of an object; None where there is none.

        Raises:
            JournalError: it cannot be read.
        """
        import obstore  # noqa: PLC0415 - an extra

        try:
            with self._spoken_to(name):
                return bytes(obstore.get(self._client, name).bytes())
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

        with self._spoken_to(folder):
            pages = obstore.list(self._client, f"{folder}/" if folder else None, offset=after or None, chunk_size=1000)
            found = [one for page in pages for one in page]
        listed = (Found(name=one["path"], size=one["size"], written=one["last_modified"]) for one in found)
        return sorted(listed, key=lambda one: one.name)

    def names_in(self, folder: str) -> list[Found]:
        """Returns the objects that lie right in a folder, as `names` does, and none of those deeper in it.

        Raises:
            JournalError: they cannot be listed.
        """
        import obstore  # noqa: PLC0415 - an extra

        with self._spoken_to(folder):
            listed = obstore.list_with_delimiter(self._client, f"{folder}/" if folder else None)["objects"]
        found = (Found(name=one["path"], size=one["size"], written=one["last_modified"]) for one in listed)
        return sorted(found, key=lambda one: one.name)

    def folders(self) -> list[str]:
        """Returns the names of the folders right below the prefix.

        Raises:
            JournalError: they cannot be listed.
        """
        import obstore  # noqa: PLC0415 - an extra

        with self._spoken_to(""):
            return sorted(name.rstrip("/") for name in obstore.list_with_delimiter(self._client)["common_prefixes"])

    def remove(self, names: Sequence[str]) -> None:
        """Removes objects; those that are gone already are no error.

        Raises:
            JournalError: one cannot be removed.
        """
        import obstore  # noqa: PLC0415 - an extra

        for name in names:  # one by one: bulk requests are not understood by every server
            try:
                with self._spoken_to(name, writing=True):
                    obstore.delete(self._client, name)
            except _Missing:
                continue

    @contextmanager
    def _spoken_to(self, name: str, *, writing: bool = False) -> Generator[None]:
        """Has what the library raises come out as errors of ours."""
        from obstore import exceptions  # noqa: PLC0415 - an extra

        try:
            yield
        except exceptions.AlreadyExistsError as error:
            raise _Exists from error
        except FileNotFoundError as error:
            if not writing and "NoSuchBucket" not in str(error) and "ContainerNotFound" not in str(error):
                raise _Missing from error
            raise JournalError(_no_bucket(self.place)) from error
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise JournalError(_words(self.place / name if name else self.place, error)) from error


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


def _put(client: "ObjectStore", name: str, content: bytes, *, mode: Any) -> None:
    import obstore  # noqa: PLC0415 - an extra

    obstore.put(client, name, content, mode=mode, use_multipart=False)


def _client_of(place: StoreUri, patience: Patience) -> "ObjectStore":
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
    if place.scheme.startswith("s3"):
        if endpoint := _endpoint():  # a server of one's own, without encryption where its URL says so
            more |= {"endpoint": endpoint, "client_options": {**options, "allow_http": endpoint.startswith("http://")}}
        more |= _from_profile(place)
    try:
        return from_url(
            str(place),
            **more,
        )
    except (BaseError, ValueError, OSError) as error:
        raise BadInput(
            f"{place}: what the environment says of this store is not enough: {_said(error)}; see clusters/README.md "
            f"for the variables that each kind of store needs"
        ) from error


def _endpoint() -> str:
    return (
        os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or os.environ.get("AWS_ENDPOINT", "")
    )


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
        raise BadInput(f"{place}: AWS's files (AWS_PROFILE, ~/.aws) cannot be used: {_said(error)}") from error


def _no_bucket(place: StoreUri) -> str:
    return (
        f"{place}: expected a bucket (or container) called {place.bucket}, and the server has none; make it, or give "
        f"another --store (an address of one's own server goes into AWS_ENDPOINT_URL)"
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
    """Returns what a library said: its first line, without queries of URLs and without what the environment holds of
    credentials."""
    text = str(error).strip().split("\n", maxsplit=1)[0]
    text = re.sub(r"\?\S*", "?…", text)
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, "***")
    return plain(shortened(text, 300)) or type(error).__name__
