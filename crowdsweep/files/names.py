"""The one way from text of a record to a path: a journal, a recipe, a description or a list may name nothing else.

Such text may come from somebody else, and its checksum says only that it is as it was written.
"""

import re
import unicodedata

_DIGEST = re.compile(r"[0-9a-f]{32}")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


def name_of(text: str) -> str:
    """Returns any text as the name of a file, a link or a LaTeX label: small letters, digits and dashes alone. Texts
    that differ may have the same; one without any such letter is `unnamed`.
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:64].strip("-") or "unnamed"


class NoName(ValueError):
    """Text that may not become a path."""


def digest_file(folder: str, digest: str, ending: str) -> str:
    """Returns the path, below a store, of a file that is named by the digest of its content.

    Args:
        folder: it lies in; our own word.
        digest: as a record has it.
        ending: of the name, with the dot; our own word.

    Raises:
        NoName: the digest is not 32 hex digits.
    """
    check_digest(digest)
    return f"{folder}/{digest}{ending}"


def check_digest(digest: str) -> None:
    """Checks what a record calls a digest.

    Raises:
        NoName: it is not 32 hex digits.
    """
    if not _DIGEST.fullmatch(digest):
        raise NoName(f"expected a digest of 32 hex digits, got {digest!r:.200}")


def inside(name: str, *, deepest: int = 1) -> tuple[str, ...]:
    """Returns the parts of a path that stays where it begins: plain names, the last one the file's.

    Args:
        name: as a record has it, parts separated by `/`.
        deepest: number of parts that it may have.

    Raises:
        NoName: a part is no plain name (letters, digits, `_`, `.` and `-`, no dot before them), or there are too many.
    """
    parts = tuple(name.split("/"))
    if len(parts) > deepest or not all(map(_PLAIN.fullmatch, parts)):
        raise NoName(f"expected the name of a file in the same folder, got {name!r:.200}")
    return parts
