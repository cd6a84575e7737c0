"""The name of a store: a folder of a disk, or a place in an object store (`s3://bucket/prefix`)."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from crowdsweep.errors import BadInput, plain, shortened
from crowdsweep.paths import check_path
from crowdsweep.record.connection import Connection

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")
"""Of the object stores that a record can be kept in."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_BUCKET_OF_ACCOUNT = re.compile(rf"({_BUCKET.pattern})@[A-Za-z0-9][A-Za-z0-9.-]*")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*")
_SECRET = re.compile(r"(sig|signature|token|secret|password|passwd|pwd|credentials?)=", re.IGNORECASE)
_EXAMPLES = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
_NAMES = "names have letters, digits and any of `_.=+-`, no dot first"
_WITH_ACCOUNT = ("abfs", "abfss")  # container@account


@dataclass(frozen=True, order=True)
class StoreUri:
    """A place in an object store; as text, its URI. It holds no credentials: these come from the environment.

    Attributes:
        scheme: of `SCHEMES`.
        bucket: of that store; of abfs and abfss with the account behind an `@`.
        parts: of the prefix.
        connection: to the bucket, which places that are made of this one share.

    Raises:
        BadInput: there is no such kind of store, or the name of its bucket is not valid.
    """

    scheme: str
    bucket: str
    parts: tuple[str, ...] = ()
    connection: Connection = field(default_factory=Connection, compare=False, repr=False)

    def __post_init__(self) -> None:
        has_account = self.scheme in _WITH_ACCOUNT and _BUCKET_OF_ACCOUNT.fullmatch(self.bucket)
        if self.scheme not in SCHEMES or not (has_account or _BUCKET.fullmatch(self.bucket)):
            raise BadInput(f"expected the place of an object store ({_EXAMPLES}), got another one; {_NAMES}")

    def __str__(self) -> str:
        return f"{self.scheme}://{'/'.join((self.bucket, *self.parts))}"

    def __truediv__(self, name: str) -> "StoreUri":
        """Returns the place of something in this one."""
        return replace(self, parts=(*self.parts, *name.split("/")))

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1] if self.parts else self.bucket

    @property
    def parent(self) -> "StoreUri":
        """The place that this one is in; of a bucket, itself."""
        return replace(self, parts=self.parts[:-1])

    def with_name(self, name: str) -> "StoreUri":
        """Returns the place of that name beside this one."""
        return self.parent / name


Store = Path | StoreUri
"""Where a record is kept, or something that is made of it."""


def store_named(given: str | Path | StoreUri) -> Store:
    """Returns the store that a person names: a folder, `file://` with its path, or the URI of an object store.

    Raises:
        BadInput: it is a URI that no store can have, or holds what could be a secret; or it can be no path.
    """
    if isinstance(given, StoreUri):
        return given
    text = str(given)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    elif found := _URI.fullmatch(text):
        return _uri(found[1].lower(), found[2])
    elif (scheme := text.partition(":")[0].lower()) in SCHEMES and ":" in text:
        raise BadInput(
            f"{scheme}:…: expected a folder, or the URI of a store as text ({_EXAMPLES}), got something between the "
            f"two: a URI has two slashes behind its colon, and has lost a slash where a path was made of it; call a "
            f"folder otherwise"
        )
    check_path(text, "a file or folder")
    return Path(text)


def path_named(given: str | Path) -> Path:
    """Returns the file or folder of this machine that a person names.

    Raises:
        BadInput: it is a URI, of which a path would make a folder called `s3:`; or it can be no path.
    """
    named = store_named(given)
    if isinstance(named, StoreUri):
        raise BadInput(f"{named}: expected a file or folder of this machine, got a place in an object store")
    return named


def near(store: Store) -> Path:
    """Returns a path near which the data of a sweep are looked for: its folder; of one in an object store, one here."""
    return store if isinstance(store, Path) else Path.cwd() / store.name


def _uri(scheme: str, rest: str) -> StoreUri:
    if scheme not in SCHEMES:
        raise BadInput(
            f"{plain(shortened(scheme))}://…: expected a folder, or a store in an object store ({_EXAMPLES}), got "
            f"another kind of URI"
        )
    bucket, _, prefix = rest.partition("/")
    parts = tuple(part for part in prefix.split("/") if part)
    has_user = "@" in (prefix if scheme in _WITH_ACCOUNT else rest)
    if has_user or any(mark in rest for mark in ":?#;&%") or any(map(_SECRET.search, (bucket, *parts))):
        raise BadInput(
            f"{scheme}://…: expected {_EXAMPLES} without credentials or options; they come from the environment or "
            f"from the files of the cloud's own tools, and nothing of them is written down"
        )
    is_named = _BUCKET_OF_ACCOUNT if "@" in bucket else _BUCKET
    if not is_named.fullmatch(bucket) or not all(map(_PART.fullmatch, parts)):
        raise BadInput(f"{plain(shortened(f'{scheme}://{rest}'))}: expected {_EXAMPLES}; {_NAMES}")
    return StoreUri(scheme, bucket, parts)
