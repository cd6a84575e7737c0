"""MLflow's page of a whole sweep: one top run, and the names of its cells once they are ranked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

from crowdsweep.record.events import SweepStarted
from crowdsweep.tracking.run_records import PREFIX

ORDER = PREFIX + "order"
"""Tag that sorts a list of runs: the sweep's top run, then its ranked cells, best first, then the others."""
FIRST, RANKED, POINT, LAST = "0", "1", "2", "9"
"""Beginnings of the values of `ORDER`: the top run, ranked cells, points of searches, and the rest."""
SCORE, LOW, HIGH, RANK = "Score", "Score_low", "Score_high", "Score_rank"
"""Metrics of a ranked cell. Capitals sort first, and MLflow's pages begin with the metric that sorts first."""
SEARCHED = "Score_searched"
"""Metric of a point of a search: the score by which the search chose, on other data and seeds than `Score`."""
NOT_RANKED = 0.0
"""Rank of a cell that had one and lost it, because MLflow cannot delete a metric."""

VIEW = "crowdsweep"
KIND_OF_EXPERIMENT = {"mlflow.experimentKind": "custom_model_development"}
"""Tag by which MLflow 3 distinguishes experiments with training runs from those with prompts and traces."""
_TRAINING = "workflowType=machine_learning"
DESCRIPTION = "mlflow.note.content"
VIEW_TAG = f"mlflow.sharedViewState.{VIEW}"
_MOST_COLUMNS = 8
_MOST_COMPARED = 20


@dataclass(frozen=True, kw_only=True)
class CellShown:
    """How a cell's run is shown.

    Attributes:
        name: name of the run; with a rank `1 · dl-em · labelme individual · 83.7 %`.
        order: sort key, compared as text.
        metrics: metrics that a list of runs begins with, such as `Score`; empty where the cell has none.
    """

    name: str
    order: str = LAST
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, kw_only=True)
class SweepPage:
    """Content of a sweep's top run, and how its cells are shown.

    Attributes:
        sweep, store: name of the sweep, and id of its store.
        description: paragraphs of Markdown that say what the sweep found.
        tags: facts about the sweep, such as numbers of trials.
        metrics: metrics of the best cell, where there is one dataset.
        cells: every cell that the sweep ever had, by key.
        compared: title of a comparison → keys of its cells, best first.
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
    """Returns an id that distinguishes a store's runs from those of another store whose sweep has the same name. It is
    a hash of when and where the first driver began, so a moved store keeps its id."""
    return blake2b(f"{first.time!r} {first.environment.get('host', '')}".encode(), digest_size=8).hexdigest()


def compare_link(runs: Sequence[str], experiment: str) -> str:
    """Returns the link within MLflow's pages that compares runs, at most the first `_MOST_COMPARED`: hyper-parameters
    that differ, against the metric that sorts first."""
    run_list = json.dumps(list(runs)[:_MOST_COMPARED], separators=(",", ":"))
    return f"#/compare-runs?runs={quote(run_list)}&experiments={quote(json.dumps([experiment]))}&{_TRAINING}"


def file_link(run: str, experiment: str, name: str) -> str:
    """Returns the link within MLflow's pages that shows a file of a run."""
    return f"#/experiments/{experiment}/runs/{run}/artifacts/{quote(name)}?{_TRAINING}"


def runs_link(experiment: str, *, viewed: bool) -> str:
    """Returns the link within MLflow's pages that lists the runs of a sweep.

    Without a workflow type in the link, MLflow 3 opens its pages for prompts and traces.

    Args:
        viewed: whether the experiment has the tag of `view`; a link to a missing view is an error.
    """
    return f"#/experiments/{experiment}/runs?{_TRAINING}" + (f"&viewStateShareKey={VIEW}" if viewed else "")


def experiments_link() -> str:
    """Returns the link within MLflow's pages that lists experiments."""
    return f"#/experiments?{_TRAINING}"


def view(params: Sequence[str]) -> dict[str, str]:
    """Returns the experiment tag that sets the initial view of its list of runs: filter, order and columns."""
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
