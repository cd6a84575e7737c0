"""Paths and stores as arguments of commands; a path that is not valid on this system is an input error."""

from collections.abc import Callable
from typing import Any

import click

from crowdsweep.record.store_uri import path_named, store_named


class _Named(click.ParamType):
    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002 - of click
        """Returns the path or the store; raises `BadInput` where the value cannot be one."""
        return self._read(value)


PATH = _Named("path", path_named)
STORE = _Named("store", store_named)
"""A folder, or a prefix in an object store."""
