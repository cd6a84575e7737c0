"""The versions of Python and the libraries in this process, and how they differ from those of another process."""

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("crowdsweep", "numpy", "scipy", "scikit-learn", "torch", "optuna", "ray", "mlflow", "pyarrow")
OF_TRIALS = LIBRARIES[:5]
"""The libraries that compute a trial's numbers."""


def versions() -> dict[str, str]:
    """Returns the versions of Python and of those of `LIBRARIES` that are installed."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def versions_of_trials() -> dict[str, str]:
    """Returns the versions of the libraries that compute a trial's numbers: a slot must have the driver's."""
    return {name: number for name, number in versions().items() if name in OF_TRIALS}


def differences(wanted: Mapping[str, str]) -> list[str]:
    """Returns a text with the expected and the found version for each library whose versions differ.

    Builds of one version for different devices (`2.13.0+cpu`) count as the same version.
    """
    here = versions()
    return [
        f"{name} {_release(number)}, got {_release(here[name]) if name in here else 'none'}"
        for name, number in sorted(wanted.items())
        if _release(number) != _release(here.get(name, ""))
    ]


def _release(number: str) -> str:
    return number.partition("+")[0]
