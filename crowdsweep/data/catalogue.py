"""Finds a dataset by name or folder, and makes it.

A built-in name (a file of `data/sources/`) wins over a folder of that name on the search path `CROWDSWEEP_DATA`; a
folder can always be given by its path. A built-in source is a module with a constant `SOURCE = Source(...)`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.seeds import SeedStream


@dataclass(frozen=True, kw_only=True)
class Source:
    """A built-in dataset.

    Attributes:
        name: what a sweep file says.
        title: one line.
        defaults: its own dataset parameters with their defaults (`{"annotators": 100, "feature_seed": 0}`); the
            common ones (`scenario`, `training`, `redundancy`) need not be listed.
        base: makes the part that no trial's seed changes (features, gold, splits) from the full parameters. Done once,
            in the driver.
        draw: adds what depends on the trial's seed (a simulated crowd) to that base; None where nothing does. Done in
            the actor, from `SeedStream(trial seed).child("crowd")`, so every model meets the same crowd.
        version: raised when the same parameters give other numbers; part of the fingerprint through
            `CrowdDataset.params`.
    """

    name: str
    title: str
    defaults: Mapping[str, Scalar]
    base: Callable[[Mapping[str, Scalar]], CrowdDataset]
    draw: Callable[[CrowdDataset, SeedStream], CrowdDataset] | None = None
    version: int = 1
