"""A URI as it may be shown and journalled: without what could be a secret."""

import re
from urllib.parse import unquote

HIDDEN = "***"
"""Stands in a URI that is shown for what could be a secret."""

_SHORTEST_SECRET = 3
_BETWEEN = re.compile("[?#;&]|=|%3[bd]|%26", re.IGNORECASE)
_SECRET = re.compile("password|passwd|pwd|secret|token|key|=|[A-Za-z0-9_-]{32,}", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z\d+.-]*")
_DATABASE_NAME = re.compile(r"[A-Za-z_][\w.-]{0,62}")
_PARTS_OF_SERVERS = frozenset({"", HIDDEN, "api", "ml", "mlflow", "mlruns", "proxy", "server", "tracking", "ui"})
"""Parts of a server's path that are known to be names: whatever else stands there may be what lets one in."""
_FILES = ("sqlite", "file")
DATABASES = ("postgresql", "postgres", "mysql", "mssql")
"""Kinds of databases on a server."""


def without_credentials(uri: str) -> str:
    """Returns a tracking URI that may be shown and journalled: its scheme, its host, and what is known to be a name: a
    path of this machine, a database, the usual parts of a server's path. `***` stands for other parts of a path; names
    and passwords before an `@`, queries, fragments and parameters are left out.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _bare(uri)
    if not _SCHEME.fullmatch(scheme):
        scheme = HIDDEN
    kind = scheme.partition("+")[0].lower()
    if kind in _FILES:
        place = rest.partition("?")[0] if kind == "sqlite" else _before_marks(rest)  # a # is a letter of sqlite's path
        return f"{scheme}://{place if place.startswith('/') else place.rpartition('@')[2]}"
    host, slash, path = _before_marks(rest.rpartition("@")[2]).partition("/")
    parts = path.split("/")
    if kind in DATABASES:
        named = _DATABASE_NAME.fullmatch(parts[0]) and not _SECRET.search(parts[0])
        shown = [parts[0] if named or parts[0] in ("", HIDDEN) else HIDDEN, *(HIDDEN for _ in parts[1:])]
    else:
        shown = [part if part in _PARTS_OF_SERVERS else HIDDEN for part in parts]
    return f"{scheme}://{_host(host)}{slash}{'/'.join(shown)}"


def _bare(uri: str) -> str:
    """As `without_credentials`, of what has no `://`: a path, a word that MLflow knows, or a mistake."""
    text = _before_marks(uri.rpartition("@")[2])
    scheme, colon, path = text.partition(":")
    if colon and not (scheme in _FILES and path.startswith("/")):
        return _host(text)
    name, equals, _ = text.partition("=")
    return f"{name}={HIDDEN}" if equals else text


def _host(text: str) -> str:
    """Returns a host and its port; what stands where a port should is none that may be shown."""
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or port.isdigit():
        return text
    return f"{name.partition(':')[0]}:{HIDDEN}"


def _before_marks(text: str) -> str:
    return re.split("[?#;]", text, maxsplit=1)[0]


def redacted(words: str, uri: str) -> str:
    """Returns what a library said of a tracking URI, without the secrets that may stand in it."""
    public = without_credentials(uri)
    if public == uri:
        return words
    words = words.replace(uri, public)
    for secret in sorted(_secrets(uri, public), key=len, reverse=True):
        words = words.replace(secret, "***")
    return words


def _secrets(uri: str, public: str) -> set[str]:
    """Returns every part of a URI that is not shown, as it stands and as servers decode it."""
    scheme, _, rest = uri.partition("://")
    if not rest or not _SCHEME.fullmatch(scheme):
        rest = uri
    parts: set[str] = set()
    for form in (rest, unquote(rest)):
        parts |= {form.rpartition("@")[0], *_BETWEEN.split(form)[1:], *form.split("/")}
    parts |= {part for text in tuple(parts) for part in (text.partition(":")[2], text.partition("=")[2])}
    parts |= {text.removesuffix(":") for text in tuple(parts)}  # a token in the place of a name
    parts |= {unquote(part) for part in parts}
    return {part for part in parts if len(part) >= _SHORTEST_SECRET and part not in public}
