"""Cache of the clients of an object store, shared by all places of a bucket."""

import os
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any


class Connection:
    """The clients of a bucket, each created on first use.

    A store that a user names gets a new connection, which all places derived from it share. A pickled connection is
    empty in the other process, and its repr shows nothing of the clients.
    """

    def __init__(self) -> None:
        self._clients: dict[Hashable, Any] = {}
        self._guard = Lock()

    def client(self, how: Hashable, make: Callable[[], Any]) -> Any:
        """Returns the client for a configuration, created if there is none; a forked process creates its own."""
        wanted = os.getpid(), how
        with self._guard:
            if wanted not in self._clients:
                self._clients[wanted] = make()
            return self._clients[wanted]

    def __reduce__(self) -> tuple[type["Connection"], tuple[()]]:
        return Connection, ()
