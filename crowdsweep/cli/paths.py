"""Paths as arguments: one that this system cannot have is refused like any other input."""

from pathlib import Path
from typing import Any

import click

from crowdsweep.record.store_uri import Store, path_named, store_named


class _Path(click.ParamType):
    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002 - of click
        """Returns a path.

        Raises:
            BadInput: it can be none.
        """
        return path_named(value)


class _Store(click.ParamType):
    name = "store"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Store:  # noqa: ARG002 - of click
        """Returns the place of a record.

        Raises:
            BadInput: it can be none.
        """
        return store_named(value)


PATH = _Path()
STORE = _Store()
"""A folder, or a place in an object store."""
