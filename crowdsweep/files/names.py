"""Checked conversion of a record's text to a path, for journals, recipes, descriptions and file lists.

Such text may come from somebody else, and its checksum only proves that it was not changed after it was written.
"""

import re
import unicodedata

_DIGEST = re.compile(r"[0-9a-f]{32}")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


def name_of(text: str) -> str:
    """Returns any text as the name of a file, a link or a LaTeX label: lower-case letters, digits and dashes only.

    The name has at most 64 characters. Different texts may get the same name. A text without usable characters becomes
    `unnamed`.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-") or "unnamed"


class NoName(ValueError):
    """A text must not be used as a path."""


def digest_file(folder: str, digest: str, ending: str) -> str:
    """Returns the path, relative to a store, of a file that is named by the digest of its content.

    Args:
        folder: the file's folder; chosen by the code, not read from a record.
        digest: as read from a record.
        ending: of the file name, with the dot; chosen by the code as well.

    Raises:
        NoName: the digest is not 32 hex digits.
    """
    check_digest(digest)
    return f"{folder}/{digest}{ending}"


def check_digest(digest: str) -> None:
    """Checks a digest that was read from a record.

    Raises:
        NoName: the digest is not 32 hex digits.
    """
    if not _DIGEST.fullmatch(digest):
        raise NoName(f"expected a digest of 32 hex digits, got {digest!r:.200}")


def inside(name: str, *, deepest: int = 1) -> tuple[str, ...]:
    """Returns the parts of a relative path that cannot leave its folder; the last part is the file name.

    Args:
        name: the path as read from a record, parts separated by `/`.
        deepest: the largest number of parts allowed.

    Raises:
        NoName: there are too many parts, or one is not 1 to 200 letters, digits, `_`, `.` and `-` without `.` or `-` at
            its start.
    """
    parts = tuple(name.split("/"))
    if len(parts) > deepest or not all(map(_PLAIN.fullmatch, parts)):
        raise NoName(f"expected the name of a file in the same folder, got {name!r:.200}")
    return parts
