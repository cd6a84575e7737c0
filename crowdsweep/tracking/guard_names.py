"""Names that `ui` and the server that it starts share."""

APP = "crowdsweep"
"""The server's application, as the entry point in pyproject.toml names it."""
TOKEN = "CROWDSWEEP_UI_TOKEN"  # noqa: S105 - a name, not a token
"""The variable that hands the token to the server."""
ARTIFACTS = "CROWDSWEEP_UI_ARTIFACTS"
"""The variable that names the one folder whose files the server may read and write."""
REMOTE = "CROWDSWEEP_UI_REMOTE"
"""The variable that says, by being more than empty, that artifacts in object stores are served too."""
PARAMETER = "token"
"""The part of the link that has it."""
