"""Tracking URIs that are safe to show and to journal: without possible secrets."""

import re
from urllib.parse import unquote

HIDDEN = "***"
"""Replaces a possible secret in a shown URI."""

_SHORTEST_SECRET = 3
_BETWEEN = re.compile("[?#;&]|=|%3[bd]|%26", re.IGNORECASE)
_SECRET = re.compile("password|passwd|pwd|secret|token|key|=|[A-Za-z0-9_-]{32,}", re.IGNORECASE)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z\d+.-]*")
_DATABASE_NAME = re.compile(r"[A-Za-z_][\w.-]{0,62}")
_PARTS_OF_SERVERS = frozenset({"", HIDDEN, "api", "ml", "mlflow", "mlruns", "proxy", "server", "tracking", "ui"})
"""Parts of a server's path that are known to be harmless names; any other part may be a secret."""
_FILES = ("sqlite", "file")
DATABASES = ("postgresql", "postgres", "mysql", "mssql")
"""URI schemes of databases on a server."""


def without_credentials(uri: str) -> str:
    """Returns a tracking URI without possible secrets, safe to show and to journal.

    It keeps the scheme, the host, and known names: a path of this machine, a database, the usual parts of a server's
    path. `***` replaces other parts of a path. User names and passwords before an `@`, queries, fragments and
    parameters are left out.
    """
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return _bare(uri)
    if not _SCHEME.fullmatch(scheme):
        scheme = HIDDEN
    kind = scheme.partition("+")[0].lower()
    if kind in _FILES:
        place = rest.partition("?")[0] if kind == "sqlite" else _before_marks(rest)  # a sqlite path may contain #
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
    """Like `without_credentials`, for text without `://`: a path, a keyword of MLflow, or a mistake."""
    text = _before_marks(uri.rpartition("@")[2])
    scheme, colon, path = text.partition(":")
    if colon and not (scheme in _FILES and path.startswith("/")):
        return _host(text)
    name, equals, _ = text.partition("=")
    return f"{name}={HIDDEN}" if equals else text


def _host(text: str) -> str:
    """Returns a host and its port; a port that is no number is hidden."""
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or port.isdigit():
        return text
    return f"{name.partition(':')[0]}:{HIDDEN}"


def _before_marks(text: str) -> str:
    return re.split("[?#;]", text, maxsplit=1)[0]


def redacted(words: str, uri: str) -> str:
    """Returns a library's message about a tracking URI, without possible secrets of the URI."""
    public = without_credentials(uri)
    if public == uri:
        return words
    words = words.replace(uri, public)
    for secret in sorted(_secrets(uri, public), key=len, reverse=True):
        words = words.replace(secret, "***")
    return words


def _secrets(uri: str, public: str) -> set[str]:
    """Returns every part of a URI that is not in its public form, both as written and percent-decoded."""
    scheme, _, rest = uri.partition("://")
    if not rest or not _SCHEME.fullmatch(scheme):
        rest = uri
    parts: set[str] = set()
    for form in (rest, unquote(rest)):
        parts |= {form.rpartition("@")[0], *_BETWEEN.split(form)[1:], *form.split("/")}
    parts |= {part for text in tuple(parts) for part in (text.partition(":")[2], text.partition("=")[2])}
    parts |= {text.removesuffix(":") for text in tuple(parts)}  # a token in place of a user name
    parts |= {unquote(part) for part in parts}
    return {part for part in parts if len(part) >= _SHORTEST_SECRET and part not in public}
