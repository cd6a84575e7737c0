"""Paths and stores as arguments of commands; a path that is not valid on this system is an input error."""

from pathlib import Path
from typing import Any

import click

from crowdsweep.record.store_uri import Store, path_named, store_named


class _Path(click.ParamType):
    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002 - of click
        """Returns the path.

        Raises:
            BadInput: the value cannot be a path.
        """
        return path_named(value)


class _Store(click.ParamType):
    name = "store"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Store:  # noqa: ARG002 - of click
        """Returns the store of a record.

        Raises:
            BadInput: the value can be neither a path nor a URI.
        """
        return store_named(value)


PATH = _Path()
STORE = _Store()
"""A folder, or a prefix in an object store."""
