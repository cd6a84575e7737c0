"""The file list of a folder: the files that crowdsweep wrote there, with their digests. It owns no other files.

The list, `.crowdsweep.json`, holds a format, a version, the kind of folder, the files, and a digest of all that. During
a replacement, the list has both the old and the new digest of each file: a killed writer leaves no unlisted file.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from crowdsweep.errors import ForeignFile
from crowdsweep.files.inside import content_of, mode_of
from crowdsweep.files.names import check_digest, inside

LIST_FILE = ".crowdsweep.json"
_FORMAT, _VERSION = "crowdsweep-files", 1
_MOST = 1 << 24
_DEEPEST = 2


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The file list of a folder.

    Attributes:
        kind: of folder.
        files: file name (`classifier/fit-0.safetensors`) → the digests that its content may have.
    """

    kind: str
    files: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def content(self) -> bytes:
        """Returns the content of the list's file."""
        files = {name: sorted(digests) for name, digests in sorted(self.files.items())}
        data = {"format": _FORMAT, "version": _VERSION, "kind": self.kind, "files": files}
        return json.dumps({**data, "check": _check(data)}, indent=1).encode() + b"\n"


def read_manifest(folder: int, kind: str, may_write: Callable[[str], bool], where: str) -> Manifest | None:
    """Returns the file list of an opened folder; None if it has none.

    Args:
        folder: the opened folder's descriptor.
        kind: the expected kind of folder.
        may_write: whether crowdsweep may write a file of this name into such a folder; the list may contain no other.
        where: the folder's path, for messages.

    Raises:
        ForeignFile: the file of that name is no file list, is damaged, or belongs to another kind of folder.
        OSError: the list cannot be read.
    """
    if mode_of(folder, LIST_FILE) is None:
        return None
    try:
        return parsed_manifest(content_of(folder, LIST_FILE, _MOST), kind, may_write)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ForeignFile(
            f"{where}/{LIST_FILE}: expected the list of files that crowdsweep wrote there ({kind}), got something else "
            f"({error}), so it cannot be known which of them are yours. Nothing was touched: give another folder, or "
            f"move out of this one what you want to keep and delete it"
        ) from error


def parsed_manifest(content: bytes | None, kind: str, may_write: Callable[[str], bool]) -> Manifest:
    """Returns a file list, parsed from its file's content.

    Args:
        content: of the file; None if it is no regular file or too large, which is an error.
        kind, may_write: as for `read_manifest`.

    Raises:
        ValueError, TypeError, LookupError, AttributeError, RecursionError: the content is no file list, is damaged, or
            belongs to another kind of folder.
    """
    if content is None:
        raise ValueError("no file, or too large a one")
    data: dict[str, Any] = json.loads(content)
    check = data.pop("check")
    if data["format"] != _FORMAT or data["version"] != _VERSION:
        raise ValueError(f"format {data['format']!r:.60}, version {data['version']!r:.20}")
    if check != _check(data):
        raise ValueError("it was changed after it was written")
    if data["kind"] != kind:
        raise ValueError(f"the list of a folder of {data['kind']!r:.60}")
    for name, digests in data["files"].items():
        inside(name, deepest=_DEEPEST)
        if not may_write(name):
            raise ValueError(f"{name!r:.60} is never written there")
        for digest in digests:
            check_digest(digest)
    return Manifest(kind=kind, files={name: frozenset(digests) for name, digests in data["files"].items()})


def _check(data: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()
