"""What a store is called: a folder of a disk, or a place in an object store (`s3://bucket/prefix`)."""

import re
from dataclasses import dataclass
from pathlib import Path

from crowdsweep.errors import BadInput, plain, shortened
from crowdsweep.paths import check_path

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")
"""Of the object stores that a record can be kept in."""

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9][A-Za-z0-9.-]*)?")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*")
_EXAMPLES = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"


@dataclass(frozen=True, order=True)
class StoreUri:
    """A place in an object store; as text, its URI. It holds no credentials: these come from the environment.

    Attributes:
        scheme: of `SCHEMES`.
        bucket: of that store; of abfs and abfss with the account behind an `@`.
        parts: of the prefix.
    """

    scheme: str
    bucket: str
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scheme}://{'/'.join((self.bucket, *self.parts))}"

    def __truediv__(self, name: str) -> "StoreUri":
        """Returns the place of something in this one."""
        return StoreUri(self.scheme, self.bucket, (*self.parts, *name.split("/")))

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1] if self.parts else self.bucket

    @property
    def parent(self) -> "StoreUri":
        """The place that this one is in; of a bucket, itself."""
        return StoreUri(self.scheme, self.bucket, self.parts[:-1])

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
    elif isinstance(given, Path) and given.parts and given.parts[0] in {f"{scheme}:" for scheme in SCHEMES}:
        raise BadInput(f"{given}: expected the URI of a store as text, got it as a path, which has lost a slash")
    check_path(text, "a file or folder")
    return Path(text)


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
    is_account = scheme.startswith("abfs")  # container@account, and no secret
    if ("@" in bucket and not is_account) or ":" in bucket or any(mark in rest for mark in "?#;"):
        raise BadInput(
            f"{scheme}://…: expected {_EXAMPLES} without credentials or options; they come from the environment or "
            f"from the files of the cloud's own tools, and nothing of them is written down"
        )
    parts = tuple(part for part in prefix.split("/") if part)
    if not _BUCKET.fullmatch(bucket) or not all(map(_PART.fullmatch, parts)):
        raise BadInput(
            f"{plain(shortened(f'{scheme}://{rest}'))}: expected {_EXAMPLES}; names have letters, digits and any of "
            f"`_.=+-`, no dot first"
        )
    return StoreUri(scheme, bucket, parts)
