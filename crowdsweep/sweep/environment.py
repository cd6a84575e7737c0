"""The environment of a sweep, host and versions, recorded so that a number can be traced. Contains no secrets."""

import platform
import socket
import subprocess
from collections.abc import Mapping

from crowdsweep.engine.versions import differences, versions
from crowdsweep.errors import BadInput


def environment() -> dict[str, str]:
    """Returns the platform, the host, the versions of Python and the libraries, and the folder's git commit, if any."""
    found = {"platform": platform.platform(), "host": socket.gethostname(), **versions()}
    commit = _git_commit()
    return {**found, "git_commit": commit} if commit else found


def check_versions(wanted: Mapping[str, str]) -> None:
    """Checks that the versions here are those that a sweep was submitted with.

    Builds of one version for different devices (`2.13.0+cpu`) count as one version.

    Raises:
        BadInput: a version differs; the message names each that differs.
    """
    others = differences(wanted)
    if others:
        raise BadInput(
            f"expected on {socket.gethostname()} the versions that the sweep was submitted with, since numbers may "
            f"differ with them: {'; '.join(others)}. Install the same on the cluster (clusters/Dockerfile has those of "
            f"constraints.txt), or submit it with --any-versions"
        )


def _git_commit() -> str:
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - whichever git the person uses
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""
