"""The versions of Python and the libraries in this process, and which of them are not those that another one has."""

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

LIBRARIES = ("crowdsweep", "numpy", "scipy", "scikit-learn", "torch", "optuna", "ray", "mlflow", "pyarrow")
OF_TRIALS = LIBRARIES[:5]
"""Those that compute a trial's numbers."""


def versions() -> dict[str, str]:
    """Returns the versions of Python and of the libraries that numbers may depend on."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def versions_of_trials() -> dict[str, str]:
    """Returns those of `versions` that a process which runs trials has to share with the driver."""
    return {name: number for name, number in versions().items() if name in OF_TRIALS}


def differences(wanted: Mapping[str, str]) -> list[str]:
    """Returns what is expected and what is here, for each version that differs; builds of one version for another
    device (`2.13.0+cpu`) are one version."""
    here = versions()
    return [
        f"{name} {_release(number)}, got {_release(here[name]) if name in here else 'none'}"
        for name, number in sorted(wanted.items())
        if _release(number) != _release(here.get(name, ""))
    ]


def _release(number: str) -> str:
    return number.partition("+")[0]
