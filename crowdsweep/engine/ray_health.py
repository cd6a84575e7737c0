"""Detects that a Ray cluster is gone, before Ray ends this process with messages of its own."""

import atexit
import errno
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

import ray
from ray._private import worker as ray_worker

LOOK_EVERY_S = 1.0
_SOCKETS = Path("/proc/net/unix")
SILENT_S = 20.0
"""Seconds for which the head of a cluster may not answer, as while it restarts."""


@dataclass(kw_only=True)
class HeartbeatMonitor:
    """Check of the two processes that this one depends on: the raylet on this machine and the cluster's head.

    Attributes:
        is_final: whether one of them was found to be lost.
    """

    is_final: bool = False
    _looked: float = 0.0
    _heard: float = field(default_factory=time.monotonic)

    def is_due(self) -> bool:
        """Whether the next check is due (one each `LOOK_EVERY_S` while Ray is connected); notes it as made if so."""
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S or not ray.is_initialized():
            return False
        self._looked = now
        return True

    def look(self) -> str:
        """Returns which part of the cluster is lost; empty while none is, or its head may still come back."""
        node = ray_worker.global_worker.node
        if node is None:
            return ""
        raylet, head = str(node.raylet_socket_name), str(node.gcs_address)
        if not _is_listened_to(raylet):
            self.is_final = True
            return "its process on this machine (the raylet) has died"
        host, _, port = head.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK_EVERY_S).close()
        except OSError:
            if time.monotonic() - self._heard < SILENT_S:
                return ""
            self.is_final = True
            return f"its head at {head} has not answered for {SILENT_S:g} s"
        self._heard = time.monotonic()
        return ""


def _is_listened_to(path: str) -> bool:
    """Whether a process listens on this Unix socket; on Linux without connecting, which the raylet would log."""
    try:
        return any(line.endswith(f" {path}") for line in _SOCKETS.read_text().splitlines())
    except OSError:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(LOOK_EVERY_S)
            return asked.connect_ex(path) not in (errno.ECONNREFUSED, errno.ENOENT)


def end_own_processes() -> None:
    """Kills the cluster's processes that this one started, and unregisters Ray's own shutdown at exit."""
    atexit.unregister(ray_worker.shutdown)
    node = ray_worker._global_node  # pyright: ignore[reportPrivateUsage]: there is no public way to it
    if node is not None:
        node.kill_all_processes(check_alive=False, allow_graceful=False)
