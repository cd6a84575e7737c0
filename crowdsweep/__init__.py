"""Hyper-parameter sweeps for models that learn from crowd annotations.

    import crowdsweep as cs

    data = cs.load("pets")                        a dataset folder, a catalogue name, or a table of annotators' labels
    fit = cs.fit("hierarchical-dawid-skene", data)
    fit.labels.to_pandas()                        Arrow tables; .probabilities, .annotators, .next_items
    cs.add("pets", answers)                       adds annotators' new labels to the folder
    found = cs.run("sweep.yaml")                  .table, .recommended(), .label(); cs.sweeps() are bundled

Each name is imported on first use, so that `import crowdsweep` is fast. Errors are those of `crowdsweep.errors`;
unusable input raises `BadInput`, which is a `ValueError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crowdsweep.api.about import doctor, explain, sweeps
    from crowdsweep.api.adding import add
    from crowdsweep.api.estimator import CrowdClassifier
    from crowdsweep.api.fits import Fit, fit
    from crowdsweep.api.loading import Data, load
    from crowdsweep.api.sweeps import Results, results, run

    __version__: str

    def models() -> dict[str, str]: ...


__all__ = [
    "CrowdClassifier",
    "Data",
    "Fit",
    "Results",
    "__version__",
    "add",
    "doctor",
    "explain",
    "fit",
    "load",
    "models",
    "results",
    "run",
    "sweeps",
]

_HOMES = {
    "CrowdClassifier": "crowdsweep.api.estimator",
    "Data": "crowdsweep.api.loading",
    "Fit": "crowdsweep.api.fits",
    "Results": "crowdsweep.api.sweeps",
    "add": "crowdsweep.api.adding",
    "doctor": "crowdsweep.api.about",
    "explain": "crowdsweep.api.about",
    "fit": "crowdsweep.api.fits",
    "load": "crowdsweep.api.loading",
    "results": "crowdsweep.api.sweeps",
    "run": "crowdsweep.api.sweeps",
    "sweeps": "crowdsweep.api.about",
}


def __getattr__(name: str) -> Any:
    """Imports a public name on first use and stores it in this module."""
    if name == "models":  # a callable package; Python stores it in this module when any model is imported
        return import_module("crowdsweep.models")
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("crowdsweep")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'crowdsweep' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
