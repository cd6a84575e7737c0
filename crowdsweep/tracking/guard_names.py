"""Names that `ui` shares with the server that it starts."""

APP = "crowdsweep"
"""Name of the server's application: its entry point in pyproject.toml."""
TOKEN = "CROWDSWEEP_UI_TOKEN"  # noqa: S105 - a name, not a token
"""Environment variable that passes the token to the server."""
ARTIFACTS = "CROWDSWEEP_UI_ARTIFACTS"
"""Environment variable that names the one folder whose files the server may read and write."""
REMOTE = "CROWDSWEEP_UI_REMOTE"
"""Environment variable that, unless empty, lets the server serve artifacts in object stores too."""
PARAMETER = "token"
"""Query parameter of the link that holds the token."""
