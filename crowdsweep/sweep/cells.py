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
from crowdsweep.search.median import MedianRule
from crowdsweep.search.searchers import Chosen
from crowdsweep.search.space import Space
from crowdsweep.sweep.requirements import DatasetFacts
from crowdsweep.sweepfile.records import Metric, Resources


@dataclass(frozen=True, kw_only=True)
class PlannedDataset:
    """One line of `datasets:` with its base dataset, which lines of equal base share.

    Attributes:
        heldout: share of the annotations that is taken out where held-out annotations score.
        among: all datasets of the sweep.
    """

    name: str
    params: Mapping[str, Scalar]
    base: CrowdDataset
    offer: DatasetFacts
    heldout: float
    among: frozenset[str] = frozenset()

    @cached_property
    def holds_out(self) -> bool:
        """Whether any annotation can be taken out; costs as much as preparing a trial."""
        taken = prepare(self.base, self.params, 0, self.heldout).heldout
        return taken is not None and len(taken) > 0

    @property
    def report_heldout(self) -> float:
        """Share of the annotations that report trials give up: none, but where there is nothing else to score them
        by."""
        return self.heldout if self.offer.only_own_votes and self.holds_out else 0.0

    @property
    def unscored(self) -> bool:
        """Whether nothing at all can score a model."""
        return self.offer.only_own_votes and not self.holds_out

    def __str__(self) -> str:
        return dataset_words(self.name, self.params, self.among)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A model × dataset with fixed hyper-parameters, or the part of a search that does not move.

    Attributes:
        info: the model.
        label: what the sweep file calls it.
        dataset: that it is fitted to.
        fixed: hyper-parameters as given, the sweep's protocol among them.
        metric: what is scored while it trains, and what it is searched for.
        needs: of the data, at these hyper-parameters and any that are searched.
        resources: of the slots that it runs on.
    """

    info: ModelInfo
    label: str
    dataset: PlannedDataset
    fixed: Mapping[str, Any]
    metric: Metric
    needs: frozenset[Need]
    resources: Resources

    @property
    def key(self) -> str:
        """The `cell_key` of its report trials, where the point does not move."""
        return self.report_specs([0])[0].cell_key

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

    def report_specs(self, seeds: Sequence[int], point: Mapping[str, Any] | None = None) -> list[TrialSpec]:
        """Returns the report trials of one point, one for each seed."""
        return self.specs(seeds, "report", point, self.dataset.report_heldout)


@dataclass(frozen=True, kw_only=True)
class Search:
    """A search: a cell whose point moves in a space.

    Attributes:
        cell: what does not move.
        space: what is searched.
        limit: number of points.
        heldout: share of the annotations that search trials give up.
        chosen: which sampler proposes its points, and why that one.
        early_stop: ends fits of its points that are worse than earlier ones; None where every fit goes to its end.
        raced: number of seeds after which a point may be pruned; None where every point gets all seeds.
        key: hash of everything that decides what is proposed and how it is scored, but for the number of points: a
            larger budget goes on with the same search.
        instead: why it is not searched by held-out annotations, where these would be usual; else empty.
        told: points of earlier sweeps that its sampler is told first; they are none of its own.
    """

    cell: Cell
    space: Space
    limit: int
    heldout: float
    chosen: Chosen
    raced: int | None
    key: str
    early_stop: MedianRule | None = None
    instead: str = ""
    told: tuple[ToldPoint, ...] = ()

    @property
    def metric(self) -> Metric:
        """What it is searched for."""
        return self.cell.metric


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A search that cannot be made, since nothing could score its points; others go on.

    Attributes:
        label: what the sweep file calls the model.
        dataset: that it would be fitted to.
        reason: why, and what to do.
    """

    label: str
    dataset: PlannedDataset
    reason: str

    def __str__(self) -> str:
        return f"{self.label} on {self.dataset} is not searched: {self.reason}"
