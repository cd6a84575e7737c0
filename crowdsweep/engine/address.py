"""The address of a Ray cluster: which forms it may have, and whether a cluster answers there.

The check is made here since Ray itself waits for minutes where nothing listens, or where another service does.
"""

import os
import re
import socket
import time

from crowdsweep.errors import BadInput, plain

ANSWERS_IN_S = 10.0
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:/@\[\]]+):(\d{1,5})")
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # an empty SETTINGS frame, the first that each side of HTTP/2 sends
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS


def wanted_address(address: str | None) -> str:
    """Returns the address of the cluster to use: `auto`, `local` (a new cluster) or `host:port`.

    Args:
        address: as `--address` gives it; where it is None, the value of RAY_ADDRESS, else `local`.

    Raises:
        BadInput: the address has another form.
    """
    wanted = address or os.environ.get("RAY_ADDRESS") or "local"
    if wanted in ("auto", "local") or _HOST_PORT.fullmatch(wanted):
        return wanted
    hints = {
        "ray://": ": Ray Client is not supported, run crowdsweep on a machine of the cluster",
        "http": ": this is a dashboard's, which takes jobs: `crowdsweep submit` sends it the sweep",
    }
    hint = next((words for form, words in hints.items() if wanted.startswith(form)), "")
    raise BadInput(
        f"{'--address' if address else 'RAY_ADDRESS'} {plain(wanted)!r}: expected host:port of a cluster's head, such "
        f"as 10.0.0.5:6379, or auto for the cluster that runs on this machine{hint}"
    )


def on_loopback(target: str, place: str) -> str:
    """Returns the loopback address (`127.0.0.1:port`) of a cluster that listens on loopback alone, else "".

    Args:
        target: the address as the user gave it.
        place: `host:port` where Ray would look for the cluster; Ray replaces a loopback host by this machine's outer
            address.
    """
    host, _, port = place.rpartition(":")
    given = target.rpartition(":")[0].strip("[]").lower()
    if not (target == "auto" or given == "localhost" or given.startswith("127.") or given == "::1"):
        return ""
    inside = f"127.0.0.1:{port}"
    return inside if not _listens(host.strip("[]"), port) and _listens("127.0.0.1", port) else ""


def _listens(host: str, port: str) -> bool:
    try:
        socket.create_connection((host, int(port)), timeout=ANSWERS_IN_S).close()
    except (OSError, OverflowError):
        return False
    return True


def check_answers(target: str, place: str) -> None:
    """Checks that a Ray cluster may be there: that a service listens and speaks HTTP/2, as Ray does.

    With RAY_USE_TLS set, only that a service listens is checked.

    Args:
        target: the address as the user gave it, for the message.
        place: `host:port` where Ray will look for the cluster.

    Raises:
        BadInput: nothing listens there, or another kind of service.
    """
    host, _, port = place.rpartition(":")
    until = time.monotonic() + ANSWERS_IN_S
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWERS_IN_S) as asked:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return
            asked.sendall(_GREETING)
            heard = b""
            while len(heard) < len(_SETTINGS):
                asked.settimeout(max(0.01, until - time.monotonic()))
                more = asked.recv(64)
                if not more:
                    break
                heard += more
    except (OSError, OverflowError) as error:
        raise no_cluster(target, f"nothing answers at {place} ({error})") from error
    if heard[3:4] != _SETTINGS[3:4]:
        raise no_cluster(target, f"what answers at {place} is no Ray cluster")


def no_cluster(target: str, reason: str) -> BadInput:
    """Returns the error which says why a cluster cannot be joined, and what to do."""
    return BadInput(
        f"no Ray cluster can be joined at {target!r}: {reason}. Start one (clusters/local.yaml says how), or leave "
        f"--address out: then one is started on this machine"
    )
