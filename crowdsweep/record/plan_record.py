"""The plan of a sweep, as its journal keeps it.

It says enough to tell, with neither datasets nor models at hand, which trials belong to the sweep and what each of them
is called (`record.shown`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from crowdsweep.files.typed import Many, Number, Truth, Whole
from crowdsweep.record.result import WHERE_ANY
from crowdsweep.record.spec import Params, Settings


@dataclass(frozen=True, kw_only=True)
class DatasetRecord:
    """One line of `datasets:` at one value of each axis.

    Attributes:
        dataset, dataset_params: as in `TrialSpec`.
        gold: split with items to score → whether any of them has gold; else they are scored by their own votes. A split
            that is not named counts as scored by gold.
        heldout: share of the annotations that report trials give up.
        class_names: what the classes are called, where they are few enough for a table of them.
    """

    dataset: str
    dataset_params: Settings = field(default_factory=dict)
    gold: Mapping[str, Truth] = field(default_factory=dict)
    heldout: Number = 0.0
    class_names: Many[str] = field(default=(), metadata=WHERE_ANY)

    @property
    def only_own_votes(self) -> bool:
        """Whether nothing but the votes that trained says what training items are, and nothing else is scored."""
        return self.gold.get("train") is False and not self.gold.keys() & {"dev", "test"}


@dataclass(frozen=True, kw_only=True)
class CellRecord:
    """A model on a dataset: at a fixed point, or with a point that a search moves.

    Attributes:
        key: of a fixed point, the `cell_key` of its trials; of a search, its own.
        label: what the sweep file calls the model.
        model, dataset, dataset_params: as in `TrialSpec`.
        params: the fixed hyper-parameters, as given.
        sees_gold: the model needs gold by definition: an upper bound, not a competitor.
        metric, goal: what a search is for, and what is scored while trials train.
        further: objectives of a search beside the metric, each with a goal of its own.
        points: how many points a search may try; 0 where the point is fixed.
        sampler: which proposes them (tpe, gp, nsga2, random, grid); empty where the point is fixed.
        n_trials: at most.
    """

    key: str
    label: str
    model: str = ""
    dataset: str = ""
    dataset_params: Settings = field(default_factory=dict)
    params: Params = field(default_factory=dict)
    sees_gold: Truth = False
    metric: str
    goal: Literal["maximize", "minimize"]
    further: Many[str] = field(default=(), metadata=WHERE_ANY)
    points: Whole = 0
    sampler: str = ""
    n_trials: Whole = 0


@dataclass(frozen=True, kw_only=True)
class RefusedRecord:
    """A search that the sweep file asks for and that cannot be made.

    Attributes:
        label: what the sweep file calls the model.
        dataset, dataset_params: as in `TrialSpec`.
        reason: why, and what to do.
    """

    label: str
    dataset: str
    dataset_params: Settings = field(default_factory=dict)
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """All that one sweep asks for.

    Attributes:
        datasets: in the order of the sweep file.
        cells: fixed points, run on the report seeds.
        searches: in the same order.
        report_seeds: a reported point has the seeds 0 … `report_seeds` - 1.
        n_trials: at most; a trial that answers for several cells counts once for each.
        refused: searches that are left out, since nothing could score them.
    """

    datasets: Many[DatasetRecord] = ()
    cells: Many[CellRecord] = ()
    searches: Many[CellRecord] = ()
    report_seeds: Whole = 0
    n_trials: Whole = 0
    refused: Many[RefusedRecord] = ()
