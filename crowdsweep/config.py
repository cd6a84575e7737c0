"""A sweep file, checked: frozen records with every default filled in.

`load_sweep` reads YAML and `--set` overrides through one validator; what comes out can be run as it stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crowdsweep.data.dataset import Scalar

Engine = Literal["inline", "ray"]
Goal = Literal["maximize", "minimize"]


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """One line of `datasets:`, one value for each axis (lists are expanded when the file is read).

    Attributes:
        name: catalogue name or folder path.
        params: dataset parameters as given; common ones are `scenario`, `training`, `redundancy`, `features`.
    """

    name: str
    params: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One line of `models:`.

    Attributes:
        name: registered model.
        params: fixed hyper-parameters as given (not yet filled with defaults).
        space: the search space, checked; empty where nothing is searched.
        label: how reports call it, where one model stands in a sweep twice; the name by default.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a search optimises; None as the sweep's metric means: chosen by dataset."""

    name: str
    goal: Goal


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a sweep: points a study, hours in all (None: no limit), share of failed trials before it stops."""

    points: int = 20
    hours: float | None = None
    failed_trials: float = 0.1


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Number of seeds for each searched point, for each reported point, and how many best points are re-scored."""

    search: int = 3
    report: int = 5
    rescored: int = 1


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """How points are proposed; `seed` makes it repeatable."""

    kind: Literal["tpe", "gp", "random", "grid"] = "tpe"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one slot is given."""

    cpu: float = 1
    gpu: float = 0


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Where MLflow runs go; `enabled: false` leaves MLflow out. `uri` None: the environment, else beside the journal."""

    experiment: str = ""
    enabled: bool = True
    uri: str | None = None


@dataclass(frozen=True, kw_only=True)
class PublishedValue:
    """One printed number: a cell's metric as the paper gives it, in the metric's own units (accuracy .8169).

    Attributes:
        model, dataset: as in the sweep file (a model's label where it has one).
        dataset_params: the subset of dataset parameters that tells the cell apart (`scenario: global`).
        metric: column of the results.
        value: as printed.
    """

    model: str
    dataset: str
    metric: str
    value: float
    dataset_params: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Published:
    """Printed numbers for the report, and the table they stand in."""

    table: str = ""
    values: Sequence[PublishedValue] = ()


@dataclass(frozen=True, kw_only=True)
class StudyEntry:
    """A study template and its knobs."""

    template: str
    knobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Heldout:
    """Share of the annotations that search trials give up when the metric is `heldout_loglik`."""

    fraction: float = 0.1


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """One sweep file.

    Attributes:
        protocol: given to every model that has such a parameter, unless its own params say otherwise.
        pack: most trials in one batch.
        source: the file's path, for messages; empty where there is none.
    """

    name: str
    datasets: Sequence[DatasetEntry]
    models: Sequence[ModelEntry]
    metric: Metric | None = None
    budget: Budget = Budget()
    seeds: Seeds = Seeds()
    sampler: Sampler = Sampler()
    early_stop: Literal["none", "wilcoxon"] = "none"
    resources: Resources = Resources()
    engine: Engine = "ray"
    tracking: Tracking = Tracking()
    study: StudyEntry | None = None
    published: Published = Published()
    protocol: Literal["paper", "equal_budget"] | None = None
    heldout: Heldout = Heldout()
    pack: int = 20
    source: str = ""
