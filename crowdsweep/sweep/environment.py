"""Where a sweep runs and on which versions: for the record, so that a number can be traced. Never a secret."""

import platform
import socket
import subprocess
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("crowdsweep", "numpy", "scipy", "scikit-learn", "torch", "optuna", "ray", "mlflow", "pyarrow")


def environment() -> dict[str, str]:
    """Returns versions of Python and the libraries, the host, and the git commit of the current folder, if any."""
    found = {"python": platform.python_version(), "platform": platform.platform(), "host": socket.gethostname()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    commit = _git_commit()
    return {**found, "git_commit": commit} if commit else found


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
