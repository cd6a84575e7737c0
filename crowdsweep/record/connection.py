"""The client of an object store, which goes with the places of its bucket and is made once for all of them."""

import os
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any


class Connection:
    """Keeps what a bucket is spoken to with: made for the first question, used for the next ones.

    A place that a person names begins one, and what lies in that place or beside it has the same. Nothing of it is
    copied into another process, or shown.
    """

    def __init__(self) -> None:
        self._clients: dict[Hashable, Any] = {}
        self._guard = Lock()

    def client(self, how: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the client for one way of speaking, which is made where there is none; a fork makes its own.

        Args:
            how: what it is made of.
            make: makes it.
        """
        wanted = os.getpid(), how
        with self._guard:
            if wanted not in self._clients:
                self._clients[wanted] = make()
            return self._clients[wanted]

    def __reduce__(self) -> tuple[type["Connection"], tuple[()]]:
        return Connection, ()
