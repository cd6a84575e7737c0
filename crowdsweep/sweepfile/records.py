"""The content of a checked sweep file: frozen records with every default filled in. `read.py` makes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from crowdsweep.data.dataset import Scalar
from crowdsweep.metrics.known import COSTS, by_held_out
from crowdsweep.metrics.wording import goal_of
from crowdsweep.search.contract import Goal, Sampler

Engine = Literal["inline", "ray"]
MOST_OF_EACH = 1_000_000
"""Points of a search, and seeds of a point: a slip of the finger is told before anything is laid out."""


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
class Resources:
    """What one slot is given, and where it may lie.

    Attributes:
        cpu: CPUs of a slot: of one batch at a time.
        gpu: GPUs of a slot, refused up front where torch cannot use them; a half lets two share one.
        gpu_needed: whether a slot must have them; where not, batches run on slots without a GPU as well.
        custom: Ray's custom resources of a slot, by name: `{tpu: 1}`.
        labels: of the nodes on which a slot may lie: `{zone: a}`.
    """

    cpu: Annotated[float, Gt(0)] = 1.0
    gpu: Annotated[float, Ge(0)] = 0.0
    gpu_needed: bool = True
    custom: Mapping[str, Annotated[float, Gt(0)]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        parts = tuple(sorted(self.custom.items())), tuple(sorted(self.labels.items()))
        return hash((self.cpu, self.gpu, self.gpu_needed, *parts))


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One line of `models:`.

    Attributes:
        name: a model, as `crowdsweep models` lists them.
        params: hyper-parameters that stay; all others have their defaults, or are searched.
        space: `default`, a file of spaces, or a range for each hyper-parameter; empty where nothing is searched.
        label: how reports call it, where one model stands in a sweep twice; the name by default.
        datasets: names of those of the sweep's datasets that it runs on; empty for all.
        resources: of the slots that it runs on; the sweep's where it is left out.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    space: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    datasets: Sequence[str] = ()
    resources: Resources | None = None

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What a search optimises; None as the sweep's metric means: chosen by dataset.

    Attributes:
        name: `dev_accuracy`, `dev_kl`, `heldout_loglik`, …; points are selected by it alone.
        goal: which way is better. Each metric has its own; a goal that is not the metric's is refused.
        further: objectives beside it, of which searches look for the best trade-offs: other metrics, `seconds`,
            `memory`. A list of names in place of all this says the same.
    """

    name: str
    goal: Goal
    further: Sequence[str] = ()

    @property
    def objectives(self) -> tuple[str, ...]:
        """The names of all, its own first."""
        return (self.name, *self.further)

    @property
    def held_out(self) -> bool:
        """Whether answers have to be held out of the fit for any of them."""
        return any(map(by_held_out, self.objectives))

    @property
    def costs(self) -> list[str]:
        """Those that are measured of every trial, whatever it is scored by."""
        return [name for name in self.further if name in COSTS]

    @property
    def each(self) -> "list[Metric]":
        """Those that are no costs, one by one."""
        return [Metric(name=one, goal=goal) for one in self.objectives if one not in COSTS and (goal := goal_of(one))]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a sweep; null: no limit.

    Attributes:
        points: how many points, settings of the searched hyper-parameters, each search tries.
        hours: hours of all runs of the sweep together.
        trial_minutes: minutes of one trial; one that runs longer is ended, and fails.
        failed_trials: share of points that may fail before the sweep stops; three may in any case.
    """

    points: Annotated[int, Ge(1), Le(MOST_OF_EACH)] = 20
    hours: Annotated[float, Gt(0)] | None = None
    trial_minutes: Annotated[float, Gt(0)] | None = None
    failed_trials: Annotated[float, Ge(0), Le(1)] = 0.1


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """How many seeds.

    Attributes:
        search: fits of each searched point; its score is their mean.
        report: fits of each reported point, on other seeds.
        rescored: how many of a search's best points are fitted on the report seeds.
    """

    search: Annotated[int, Ge(1), Le(MOST_OF_EACH)] = 3
    report: Annotated[int, Ge(1), Le(MOST_OF_EACH)] = 5
    rescored: Annotated[int, Ge(1), Le(MOST_OF_EACH)] = 1


@dataclass(frozen=True, kw_only=True)
class EarlyStop:
    """Whether points of a search are given up early.

    Attributes:
        kind: `median` ends fits whose best score so far is worse than what earlier points had at the same step;
            `wilcoxon` stops points that lose to the best one on their first seeds, and takes six search seeds or more.
        quantile: of `median`: which quantile of the earlier scores a fit has to reach; a lower one stops fewer.
        grace: of `median`: share of the usual length of a fit before which none is stopped.
    """

    kind: Literal["none", "median", "wilcoxon"] = "none"
    quantile: Annotated[float, Gt(0), Lt(1)] = 0.5
    grace: Annotated[float, Ge(0), Lt(1)] = 0.3


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Where MLflow runs go.

    Attributes:
        experiment: MLflow's experiment; the sweep's name where it is empty.
        enabled: whether runs go to MLflow.
        uri: where runs go; null means MLFLOW_TRACKING_URI, else a database beside the record.
        register: name in MLflow's model registry. When the sweep has ended, the model that its report recommends is
            fitted to everything, as `crowdsweep label` does, and its classifier becomes a version of that name.
    """

    experiment: str = ""
    enabled: bool = True
    uri: str | None = None
    register: str = ""


@dataclass(frozen=True, kw_only=True)
class Notify:
    """Who is told when a sweep ends, well or not.

    Attributes:
        url: gets a POST of JSON with the sweep's name, state, counts and best models; its host is said before the sweep
            begins. Commands are taken from the command line alone.
    """

    url: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishedValue:
    """One printed number: a cell's metric as the paper gives it, in the metric's own units (accuracy 0.8169).

    Attributes:
        model, dataset: by which name it stands in the sweep file, a model by its label where it has one.
        dataset_params: the subset of dataset parameters that tells the cell apart (`scenario: global`).
        metric: such as `test_accuracy`, a column of the results.
        value: as published, in the metric's own units (0.83 for 83 %).
    """

    model: str
    dataset: str
    metric: str
    value: float
    dataset_params: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Published:
    """Printed numbers for the report.

    Attributes:
        table: of which paper, to be cited in the report.
        values: numbers of that table, in the metrics' own units.
    """

    table: str = ""
    values: tuple[PublishedValue, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StudyEntry:
    """A study template and its knobs.

    Attributes:
        template: which question: `redundancy` asks how many labels an item needs, `sparsity` what happens as annotators
            grow; plug-ins may add others.
        knobs: its settings, which stand beside `template`.
    """

    template: str
    knobs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Heldout:
    """Held-out answers.

    Attributes:
        fraction: share of the annotations that search trials give up when the metric is `heldout_loglik`, and report
            trials where a dataset has nothing else to be scored by: no gold, and no dev or test items.
    """

    fraction: Annotated[float, Gt(0), Lt(1)] = 0.1


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """One sweep file.

    Attributes:
        name: what the sweep, its folder and its MLflow experiment are called.
        datasets: what the models run on; a list of values in an entry is an axis.
        models: what is fitted: at one point, or searched.
        metric: what searches optimise; chosen by dataset where it is left out.
        budget: limits of points, time and failures.
        seeds: how many fits each point has.
        sampler: how points are proposed.
        early_stop: whether points of a search are given up early, and how.
        resources: what one slot is given.
        engine: `ray`: Ray actors, on all cores or a cluster; `inline`: one process on this machine, without Ray.
        tracking: where MLflow runs go.
        notify: who is told when the sweep ends.
        study: one question, asked along an axis such as labels per item, with a section of its own in the report.
        published: values of a paper, which the report sets beside ours.
        protocol: given to every model that has such a parameter, unless its own params say otherwise.
        heldout: which share of the answers is held out where `heldout_loglik` ranks.
        pack: at most so many trials are fitted together, as one batch.
        report_every: epochs or EM steps from one score on dev data to the next while fits go on.
        checkpoint_minutes: from one checkpoint of a fit to the next, where its model has them; null for none.
        source: the file's path, for messages; empty where there is none.
    """

    name: str
    datasets: Sequence[DatasetEntry]
    models: Sequence[ModelEntry]
    metric: Metric | None = None
    budget: Budget = Budget()
    seeds: Seeds = Seeds()
    sampler: Sampler = field(default_factory=Sampler)
    early_stop: EarlyStop = EarlyStop()
    resources: Resources = Resources()
    engine: Engine = "ray"
    tracking: Tracking = Tracking()
    notify: Notify = Notify()
    study: StudyEntry | None = None
    published: Published = Published()
    protocol: Literal["until_trained", "paper", "equal_budget"] | None = None
    heldout: Heldout = Heldout()
    pack: Annotated[int, Ge(1)] = 20
    report_every: Annotated[int, Ge(1)] = 10
    checkpoint_minutes: Annotated[float, Gt(0)] | None = 10.0
    source: str = ""
