"""beartype, whose work on a function waits until types are first compared in a call of it.

Each worker of a suite imports the whole package, and most of what it imports is called where nothing is compared.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from beartype import beartype


def checked_when_called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with its types compared, as `beartype` does."""
    checked: Callable[..., Any] | None = None

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal checked
        if checked is None:
            checked = beartype(function)
        return checked(*args, **kwargs)

    return call
