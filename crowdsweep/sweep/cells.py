"""The parts of a plan: datasets, cells and searches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from crowdsweep.data.dataset import CrowdDataset, Scalar
from crowdsweep.data.splits import data_version, prepare
from crowdsweep.models import registered
from crowdsweep.models.contract import ModelInfo, Need
from crowdsweep.record.events import ToldPoint
from crowdsweep.record.naming import dataset_words
from crowdsweep.record.spec import Phase, TrialSpec
from crowdsweep.resources import Resources
from crowdsweep.search.contract import Sampler
from crowdsweep.search.median import MedianRule
from crowdsweep.search.space import Space
from crowdsweep.sweep.requirements import DatasetFacts
from crowdsweep.sweepfile.records import Metric


@dataclass(frozen=True, kw_only=True)
class PlannedDataset:
    """One line of `datasets:` with its base dataset; lines with the same base share one object.

    Attributes:
        heldout: share of the annotations that is held out where held-out annotations score a model.
        among: names of all datasets of the sweep.
    """

    name: str
    params: Mapping[str, Scalar]
    base: CrowdDataset
    offer: DatasetFacts
    heldout: float
    among: frozenset[str] = frozenset()

    @cached_property
    def holds_out(self) -> bool:
        """Whether any annotation can be held out. The first access costs as much as preparing a trial."""
        taken = prepare(self.base, self.params, 0, self.heldout).heldout
        return taken is not None and len(taken) > 0

    @property
    def report_heldout(self) -> float:
        """Share of the annotations that report trials hold out: 0 unless nothing else can score these trials."""
        return self.heldout if self.offer.only_own_votes and self.holds_out else 0.0

    @property
    def unscored(self) -> bool:
        """Whether nothing at all can score a model on this dataset."""
        return self.offer.only_own_votes and not self.holds_out

    def __str__(self) -> str:
        return dataset_words(self.name, self.params, self.among)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A model and a dataset with fixed hyper-parameters: a point of its own, or the part of a search that stays fixed.

    Attributes:
        label: the model's name in the sweep file.
        fixed: the hyper-parameters that the sweep file gives, its protocol among them.
        metric: the metric that is scored during training, and that a search optimises.
        needs: what the model needs of the data, at these hyper-parameters and at all that are searched.
        resources: resources of the slots that run the cell's trials.
        report_seeds: seeds of every reported point.
    """

    info: ModelInfo
    label: str
    dataset: PlannedDataset
    fixed: Mapping[str, Any]
    metric: Metric
    needs: frozenset[Need]
    resources: Resources
    report_seeds: range

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """All hyper-parameters, those that are not fixed at their defaults."""
        return registered.full_params(self.info.name, self.fixed)

    @property
    def key(self) -> str:
        """The `cell_key` of the report trials, for a cell that is not searched."""
        return self.report_specs()[0].cell_key

    def specs(
        self, seeds: Sequence[int], phase: Phase, point: Mapping[str, Any] | None = None, heldout: float = 0.0
    ) -> list[TrialSpec]:
        """Returns the trials of one point, one for each seed."""
        point = point or {}
        params = registered.full_params(self.info.name, {**self.fixed, **point})
        version = data_version(self.dataset.base, self.dataset.params, heldout)
        return [
            TrialSpec(
                model=self.info.name,
                params=params,
                model_version=self.info.version,
                dataset=self.dataset.name,
                dataset_params=self.dataset.params,
                fingerprint=self.dataset.base.fingerprint,
                seed=seed,
                heldout_fraction=heldout,
                data_version=version,
                phase=phase,
                point=point,
            )
            for seed in seeds
        ]

    def report_specs(self, point: Mapping[str, Any] | None = None) -> list[TrialSpec]:
        """Returns the report trials of one point, one for each seed."""
        return self.specs(self.report_seeds, "report", point, self.dataset.report_heldout)


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search: a cell and the space in which its other hyper-parameters are searched.

    Attributes:
        cell: the part that stays fixed.
        limit: largest number of points.
        seeds: seeds of every searched point; none of them is a report seed.
        rescored: number of points, the best ones, that are reported; at most `limit`.
        heldout: share of the annotations that search trials hold out.
        sampler: settings of the sampler that proposes points, of the kind that was chosen for this search.
        because: why that kind was chosen; empty where the sweep file names it.
        early_stop: rule that ends fits that are worse than those of earlier points; None where every fit runs to its
            end.
        raced: number of seeds after which a point may be pruned; None where every point gets all seeds.
        key: hash of everything that decides which points are proposed and how they are scored, except the number of
            points: a larger budget continues the same search.
        instead: why held-out annotations do not score the search where they usually would; else empty.
        told: points of earlier sweeps that the sampler is told first; they do not count among the search's own points.
    """

    cell: Cell
    space: Space
    limit: int
    seeds: range
    rescored: int
    heldout: float
    sampler: Sampler
    because: str
    raced: int | None
    key: str
    early_stop: MedianRule | None = None
    instead: str = ""
    told: tuple[ToldPoint, ...] = ()

    @property
    def metric(self) -> Metric:
        """The metric that the search optimises."""
        return self.cell.metric

    @property
    def n_search(self) -> int:
        """Number of its search trials, at most."""
        return self.limit * len(self.seeds)

    @property
    def n_report(self) -> int:
        """Number of its report trials, at most."""
        return self.rescored * len(self.cell.report_seeds)


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A search that cannot be made because nothing could score its points; the other searches run.

    Attributes:
        label: the model's name in the sweep file.
        reason: why it cannot be made, and what to do.
    """

    label: str
    dataset: PlannedDataset
    reason: str

    def __str__(self) -> str:
        return f"{self.label} on {self.dataset} is not searched: {self.reason}"
