"""MLflow's page of a whole sweep: one run on top, and the names of its cells once they are ranked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from crowdsweep.record.events import SweepStarted
from crowdsweep.tracking.run_records import PREFIX

ORDER = PREFIX + "order"
"""Tag by which a list of runs is sorted: the sweep, then its ranked cells, best first, then the others."""
FIRST, RANKED, POINT, LAST = "0", "1", "2", "9"
"""Beginnings of its values."""
SCORE, LOW, HIGH, RANK = "Score", "Score_low", "Score_high", "Score_rank"
"""Metrics of a ranked cell. Capitals sort first, and MLflow's pages begin with what sorts first."""
SEARCHED = "Score_searched"
"""Metric of a point of a search: what chose among them, on other data and seeds than `Score`."""
NOT_RANKED = 0.0
"""Rank of a cell that had one: MLflow keeps a metric for good."""

VIEW = "crowdsweep"
KIND_OF_EXPERIMENT = {"mlflow.experimentKind": "custom_model_development"}
"""Tag by which MLflow 3 tells experiments with training runs from those with prompts and traces."""
_TRAINING = "workflowType=machine_learning"
DESCRIPTION = "mlflow.note.content"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
_MOST_COLUMNS = 8
_MOST_COMPARED = 20


@dataclass(frozen=True, kw_only=True)
class CellShown:
    """How a cell's run is shown.

    Attributes:
        name: of the run; with a rank `1 · dl-em · labelme individual · 83.7 %`.
        order: sorts, as text.
        metrics: what a list of runs begins with, `Score` and its like; empty where it has none.
    """

    name: str
    order: str = LAST
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, kw_only=True)
class SweepPage:
    """The run on top of a sweep.

    Attributes:
        sweep, store: its name, and the id of its store.
        description: paragraphs of Markdown: what the sweep found.
        tags: facts of it, such as numbers of trials.
        metrics: of the best cell, where there is one dataset.
        files: artifacts by name.
        cells: by key, every cell that ever was.
        compared: what the comparison is of → keys of cells, best first.
        params: hyper-parameters to show beside the scores.
    """

    sweep: str
    store: str
    description: Sequence[str]
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    files: Mapping[str, bytes]
    cells: Mapping[str, CellShown]
    compared: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    params: Sequence[str] = ()


def store_id(first: SweepStarted) -> str:
    """Returns what tells the runs of one store from those of another whose sweep has the same name: when and where its
    first driver began. A store that is moved keeps it."""
    return blake2b(f"{first.time!r} {first.environment.get('host', '')}".encode(), digest_size=8).hexdigest()


def compare_link(runs: Sequence[str], experiment: str) -> str:
    """Returns where MLflow's pages compare runs, the first of them at least, as a link between them: hyper-parameters
    that differ against the metric that sorts first."""
    told = json.dumps(list(runs)[:_MOST_COMPARED], separators=(",", ":"))
    return f"#/compare-runs?runs={quote(told)}&experiments={quote(json.dumps([experiment]))}&{_TRAINING}"


def file_link(run: str, experiment: str, name: str) -> str:
    """Returns where MLflow's pages show a file of a run, as a link between them."""
    return f"#/experiments/{experiment}/runs/{run}/artifacts/{quote(name)}?{_TRAINING}"


def runs_link(experiment: str, *, viewed: bool) -> str:
    """Returns where MLflow's pages list the runs of a sweep, as a link between them.

    Without the kind of work MLflow 3 opens its pages for prompts and traces.

    Args:
        experiment: its id.
        viewed: whether the experiment has the tag of `view`; a link to a view that is missing is an error.
    """
    return f"#/experiments/{experiment}/runs?{_TRAINING}" + (f"&viewStateShareKey={VIEW}" if viewed else "")


def experiments_link() -> str:
    """Returns where MLflow's pages list experiments, as a link between them."""
    return f"#/experiments?{_TRAINING}"


def view(params: Sequence[str]) -> dict[str, str]:
    """Returns the tag of an experiment that says how its list of runs looks at first: which runs, in which order, with
    which columns.

    Args:
        params: hyper-parameters to show.
    """
    shown = list(params)[:_MOST_COLUMNS]
    columns = [*(("metrics", name) for name in (SCORE, LOW, HIGH, RANK, SEARCHED)), ("params", "model")]
    columns += [("params", name) for name in shown]
    state: dict[str, Any] = {
        "searchFilter": f"tags.`{PREFIX}kind` != 'trial'",
        "orderByKey": f"tags.`{ORDER}`",
        "orderByAsc": True,
        "selectedColumns": [f"{kind}.`{name}`" for kind, name in columns],
    }
    return {VIEW_TAG: json.dumps(state)}
