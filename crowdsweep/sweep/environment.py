"""Where a sweep runs and on which versions: for the record, so that a number can be traced. Never a secret."""

import platform
import socket
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from crowdsweep.errors import BadInput

LIBRARIES = ("crowdsweep", "numpy", "scipy", "scikit-learn", "torch", "optuna", "ray", "mlflow", "pyarrow")


def environment() -> dict[str, str]:
    """Returns versions of Python and the libraries, the host, and the git commit of the current folder, if any."""
    found = {"platform": platform.platform(), "host": socket.gethostname(), **versions()}
    commit = _git_commit()
    return {**found, "git_commit": commit} if commit else found


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that numbers may depend on."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def check_versions(wanted: Mapping[str, str]) -> None:
    """Checks that a sweep meets the versions here that it was submitted with; builds of one version for another device
    (`2.13.0+cpu`) are one version.

    Raises:
        BadInput: a version differs; the message names each that differs.
    """
    here = versions()
    others = [
        f"{name} {_release(number)}, got {_release(here[name]) if name in here else 'none'}"
        for name, number in sorted(wanted.items())
        if _release(number) != _release(here.get(name, ""))
    ]
    if others:
        raise BadInput(
            f"expected on {socket.gethostname()} the versions that the sweep was submitted with, since numbers may "
            f"differ with them: {'; '.join(others)}. Install the same on the cluster (clusters/Dockerfile has those of "
            f"constraints.txt), or submit it with --any-versions"
        )


def _release(number: str) -> str:
    return number.partition("+")[0]


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
