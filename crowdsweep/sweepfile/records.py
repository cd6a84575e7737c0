"""The content of a checked sweep file: frozen records with every default filled in. `read.py` makes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from crowdsweep.data.dataset import Scalar
from crowdsweep.metrics.metric_table import COSTS, by_held_out
from crowdsweep.metrics.wording import goal_of
from crowdsweep.resources import Resources
from crowdsweep.search.contract import Goal, Sampler
from crowdsweep.search.space import Space

Engine = Literal["inline", "ray"]
MOST_OF_EACH = 1_000_000
"""Most points of a search, and most seeds of a point: a typing error is reported before anything is planned."""


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """One entry of `datasets:`, with one value for each axis (lists are expanded when the file is read).

    Attributes:
        name: catalogue name or folder path.
        params: dataset parameters as given; common ones are `scenario`, `training`, `redundancy`, `features`.
        place: file and line of the entry, for messages; empty where it comes from no file.
    """

    name: str
    params: Mapping[str, Scalar] = field(default_factory=dict)
    place: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One entry of `models:`.

    Attributes:
        name: name of a model, as `crowdsweep models` lists them.
        params: fixed hyper-parameters; all others have their defaults, or are searched.
        space: `default`, a file of spaces, or a range for each hyper-parameter; empty where nothing is searched.
        label: name of the entry in reports, needed where one model is in a sweep twice; the model's name by default.
        datasets: names of the sweep's datasets that the model runs on; empty for all.
        resources: resources of the slots that the model runs on; the sweep's where left out.
        place: file and line of the entry, for messages; empty where it comes from no file.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    space: Space = field(default_factory=lambda: Space({}))
    label: str = ""
    datasets: Sequence[str] = ()
    resources: Resources | None = None
    place: str = field(default="", compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.label:
            object.__setattr__(self, "label", self.name)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """Objectives of a search; where a sweep has None, they are chosen by dataset.

    Attributes:
        name: `dev_accuracy`, `dev_kl`, `heldout_loglik`, …; points are selected by this metric alone.
        goal: which direction is better; a goal that is not the metric's own is refused.
        further: objectives beside `name`: other metrics, `seconds`, `memory`. Searches look for the best trade-offs
            among all of them. A list of names in place of this mapping means the same.
    """

    name: str
    goal: Goal
    further: Sequence[str] = ()

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of all objectives, `name` first."""
        return (self.name, *self.further)

    @property
    def held_out(self) -> bool:
        """Whether any objective needs labels that are held out of the fit."""
        return any(map(by_held_out, self.objectives))

    @property
    def costs(self) -> list[str]:
        """The objectives that are measured for every trial, whatever metric scores it."""
        return [name for name in self.further if name in COSTS]

    @property
    def each(self) -> "list[Metric]":
        """The objectives that are no costs, each as a `Metric`."""
        return [Metric(name=one, goal=goal) for one in self.objectives if one not in COSTS and (goal := goal_of(one))]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits of a sweep; null: no limit.

    Attributes:
        points: how many points, settings of the searched hyper-parameters, each search tries.
        hours: hours of all runs of the sweep together.
        trial_minutes: minutes of one trial; a trial that runs longer is ended, and fails.
        failed_trials: share of points that may fail before the sweep stops; three points may always fail.
    """

    points: Annotated[int, Ge(1), Le(MOST_OF_EACH)] = 20
    hours: Annotated[float, Gt(0)] | None = None
    trial_minutes: Annotated[float, Gt(0)] | None = None
    failed_trials: Annotated[float, Ge(0), Le(1)] = 0.1


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Numbers of seeds.

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
    """Early stopping of the points of a search.

    Attributes:
        kind: `median` ends fits whose best score so far is worse than that of earlier points at the same step;
            `wilcoxon` stops points that lose to the best one on their first seeds, and needs six search seeds or more.
        quantile: for `median`: quantile of the earlier scores that a fit has to reach; a lower one stops fewer fits.
        grace: for `median`: share of the usual length of a fit before which no fit is stopped.
    """

    kind: Literal["none", "median", "wilcoxon"] = "none"
    quantile: Annotated[float, Gt(0), Lt(1)] = 0.5
    grace: Annotated[float, Ge(0), Lt(1)] = 0.3


@dataclass(frozen=True, kw_only=True)
class Tracking:
    """Settings of MLflow.

    Attributes:
        experiment: name of the MLflow experiment; the sweep's name where empty.
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
        url: receives a POST of JSON with the sweep's name, state, counts and best models; its host is shown before the
            sweep begins. Commands to run at the end are accepted on the command line only.
    """

    url: str = ""


@dataclass(frozen=True, kw_only=True)
class PublishedValue:
    """One published value: a cell's metric as the paper gives it, in the metric's own units (accuracy 0.8169).

    Attributes:
        model, dataset: names in the sweep file; for a model its label where it has one.
        dataset_params: the dataset parameters that identify the cell (`scenario: global`).
        metric: name of a metric, such as `test_accuracy`; a column of the results.
        value: as published, in the metric's own units (0.83 for 83 %).
    """

    model: str
    dataset: str
    metric: str
    value: float
    dataset_params: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Published:
    """Published values for the report.

    Attributes:
        table: the paper or table that the values are from, cited in the report.
        values: values of that table, in the metrics' own units.
    """

    table: str = ""
    values: tuple[PublishedValue, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StudyEntry:
    """A study template and its settings.

    Attributes:
        template: the question: `redundancy` asks how many labels an item needs, `sparsity` what happens as annotators
            grow; plug-ins may add others.
        knobs: settings of the template, which are given beside `template`.
        place: file and line of the section, for messages; empty where it comes from no file.
    """

    template: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    place: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Heldout:
    """Held-out annotations.

    Attributes:
        fraction: share of the annotations that is held out of search trials when the metric is `heldout_loglik`, and of
            report trials where a dataset has nothing else to score with: no gold, and no dev or test items.
    """

    fraction: Annotated[float, Gt(0), Lt(1)] = 0.1


@dataclass(frozen=True, kw_only=True)
class SweepConfig:
    """One sweep file.

    Attributes:
        name: name of the sweep, its folder and its MLflow experiment.
        datasets: datasets that the models run on; a list of values in an entry is an axis.
        models: models that are fitted, at one point or searched.
        metric: objectives of searches; chosen by dataset where left out.
        budget: limits of points, time and failures.
        seeds: how many fits each point has.
        sampler: how points are proposed.
        early_stop: whether and how points of a search are stopped early.
        resources: resources of one slot.
        engine: `ray`: Ray actors, on all cores or a cluster; `inline`: one process on this machine, without Ray.
        tracking: settings of MLflow: whether runs go there, and where.
        notify: who is told when the sweep ends.
        study: one question, asked along an axis such as labels per item, with a section of its own in the report.
        published: published values of a paper, which the report shows beside those of the sweep.
        protocol: given to every model that has such a hyper-parameter, unless the model's own params set it.
        heldout: share of the annotations that is held out where `heldout_loglik` ranks.
        pack: most trials that are fitted together, as one batch: seeds of a point and, of models that can, points.
        report_every: epochs or EM steps between two scores on dev data during a fit.
        checkpoint_minutes: minutes between two checkpoints of a fit, where its model has checkpoints; null for none.
        source: path of the file, for messages; empty where there is none.
    """

    name: str
    datasets: Sequence[DatasetEntry]
    models: Sequence[ModelEntry]
    metric: Metric | None = None
    budget: Budget = Budget()
    seeds: Seeds = Seeds()
    sampler: Sampler = field(default_factory=Sampler)
    early_stop: EarlyStop = EarlyStop()
    resources: Resources = field(default_factory=Resources)
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
