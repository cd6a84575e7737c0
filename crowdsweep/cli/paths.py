"""Paths as arguments: one that this system cannot have is refused like any other input."""

from pathlib import Path
from typing import Any

import click

from crowdsweep.paths import check_path


class _Path(click.ParamType):
    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002 - of click
        """Returns a path.

        Raises:
            BadInput: it can be none.
        """
        check_path(value, "a file or folder")
        return Path(value)


PATH = _Path()
