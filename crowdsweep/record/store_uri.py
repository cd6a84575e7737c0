"""The address of a store: a local folder, or a place in an object store (`s3://bucket/prefix`)."""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from crowdsweep.errors import BadInput, plain, shortened
from crowdsweep.paths import check_path, expand_home
from crowdsweep.record.connection import Connection

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss")
"""URI schemes of the object stores that can keep a record."""

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
    """A place (bucket and prefix) in an object store; as text, its URI.

    It holds no credentials: these come from the environment.

    Attributes:
        scheme: one of `SCHEMES`.
        bucket: name of the bucket; for abfs and abfss, `container@account`.
        parts: of the prefix.
        connection: to the bucket, shared with all places that are derived from this one.

    Raises:
        BadInput: the scheme is unknown, or the name of the bucket is not valid.
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
        """Returns the place of a name below this one."""
        return replace(self, parts=(*self.parts, *name.split("/")))

    @property
    def name(self) -> str:
        """The last part of the prefix; the bucket if there is no prefix."""
        return self.parts[-1] if self.parts else self.bucket

    @property
    def parent(self) -> "StoreUri":
        """The place that contains this one; for a whole bucket, the bucket itself."""
        return replace(self, parts=self.parts[:-1])

    def with_name(self, name: str) -> "StoreUri":
        """Returns the place with the same parent and another name."""
        return self.parent / name


Store = Path | StoreUri
"""Location of a record, or of files derived from it."""


def store_named(given: str | Path | StoreUri) -> Store:
    """Returns the store that a user named: a folder, `file://` with its path, or the URI of an object store.

    A `~` at the start is the home folder, also where the shell leaves it as it is (`--out=~/labels`).

    Raises:
        BadInput: the text is no URI of a supported store, may contain a secret, or is no valid path.
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
            f"{scheme}:…: expected a folder, or the URI of a store as text ({_EXAMPLES}), got neither: a URI "
            f"has two slashes after its colon (a path made of a URI loses one); a folder needs another name"
        )
    check_path(text, "a file or folder")
    return expand_home(text) if text == given else Path(text)


def path_named(given: str | Path) -> Path:
    """Returns the file or folder of this machine that a user named.

    Raises:
        BadInput: the text is a URI, which `Path` would turn into a folder called `s3:`, or is no valid path.
    """
    named = store_named(given)
    if isinstance(named, StoreUri):
        raise BadInput(f"{named}: expected a file or folder of this machine, got a place in an object store")
    return named


def near(store: Store) -> Path:
    """Returns the path from which to look for a sweep's data: its folder, or a path here for an object store."""
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
