"""The plan of a sweep, as kept in its journal.

Together with the other rows, it determines which trials belong to the sweep and what each is called (`record.shown`),
without loading datasets or models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from crowdsweep.files.typed import Many, Number, Truth, Whole
from crowdsweep.record.result import WHERE_ANY
from crowdsweep.record.spec import OnDataset, Params, Settings


@dataclass(frozen=True, kw_only=True)
class DatasetRecord(OnDataset):
    """One entry of `datasets:` in the sweep file, at one value of each axis.

    Attributes:
        dataset, dataset_params: as in `TrialSpec`.
        gold: split with items to score → whether any of its items has gold; otherwise its items are scored by their own
            votes. A split that is not listed counts as scored by gold.
        heldout: share of the annotations that report trials hold out.
        class_names: names of the classes, if they are few enough to be shown in a table.
    """

    dataset: str
    dataset_params: Settings = field(default_factory=dict)
    gold: Mapping[str, Truth] = field(default_factory=dict)
    heldout: Number = 0.0
    class_names: Many[str] = field(default=(), metadata=WHERE_ANY)

    @property
    def only_own_votes(self) -> bool:
        """Whether only training items are scored, and only by the votes that the models were trained on."""
        return self.gold.get("train") is False and not self.gold.keys() & {"dev", "test"}


@dataclass(frozen=True, kw_only=True)
class CellRecord(OnDataset):
    """A cell of the sweep: a model on a dataset, at a fixed point or with a search over points.

    Attributes:
        key: for a fixed point, the `cell_key` of its trials; for a search, the key of the search.
        label: the sweep file's name for the model.
        model, dataset, dataset_params: as in `TrialSpec`.
        params: the fixed hyper-parameters, as given.
        sees_gold: whether the model needs gold by definition; it is an upper bound, not a competitor.
        metric, goal: what a search optimises, and what is scored while trials train.
        further: objectives of a search beside the metric, each with its own goal.
        points: limit on the number of points that a search tries; 0 for a fixed point.
        sampler: proposes the points (tpe, gp, nsga2, random, grid); empty for a fixed point.
        n_trials: limit on the number of trials.
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
class RefusedRecord(OnDataset):
    """A search in the sweep file that cannot be run.

    Attributes:
        label: the sweep file's name for the model.
        dataset, dataset_params: as in `TrialSpec`.
        reason: why the search cannot be run, and what to do.
    """

    label: str
    dataset: str
    dataset_params: Settings = field(default_factory=dict)
    reason: str


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """Everything that a sweep asks for.

    Attributes:
        datasets: in the order of the sweep file.
        cells: the cells at fixed points, run with the report seeds.
        searches: the cells with searches, in the same order.
        report_seeds: number of seeds of a reported point: 0 … `report_seeds` - 1.
        n_trials: limit on the number of trials; a trial shared by several cells counts once for each.
        refused: searches that are left out because nothing could score them.
    """

    datasets: Many[DatasetRecord] = ()
    cells: Many[CellRecord] = ()
    searches: Many[CellRecord] = ()
    report_seeds: Whole = 0
    n_trials: Whole = 0
    refused: Many[RefusedRecord] = ()
