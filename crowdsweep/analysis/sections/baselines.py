"""Predictions that take no fit, beside the models of every dataset whose label distributions are compared.

Trials keep their scores (`trial.baselines`): the crowd's mean distribution, the uniform one, and each training item's
own. They stand there whatever models the sweep file names.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.counted import Place, counted
from crowdsweep.metrics.known import ACCURACY, SPLITS, metric_kind
from crowdsweep.metrics.shown import show_number
from crowdsweep.metrics.wording import readable
from crowdsweep.record.array_names import BASELINES, HISTOGRAM, MARGINAL, UNIFORM
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.kept_arrays import arrays_of
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState
from crowdsweep.studies.contract import StudyTable

MetricValues = Mapping[tuple[str, str], float]
"""(baseline, metric) → mean over the seeds."""
_NAMES = (MARGINAL, UNIFORM, HISTOGRAM)
NOTE = (
    "Computed from the training answers, without a fit. marginal: the crowd's mean distribution for every item; "
    "uniform: every class alike; histogram: each training item's own answers, of those that trained, of which dev and "
    "test items have none (0 by construction where all that is known of an item trained)."
)


def baseline_values(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, MetricValues]:
    """Returns the scores by dataset and its parameters, of those whose trials kept any."""
    kept: dict[Place, dict[int, Artifact]] = {}
    for one in counted(state, trials):
        if BASELINES in one.result.kept:
            kept.setdefault(one.place, {}).setdefault(one.spec.seed, one.result.kept[BASELINES])
    arrays = arrays_of(rows, (one for seeds in kept.values() for one in seeds.values()))
    found: dict[Place, MetricValues] = {}
    for place, seeds in kept.items():
        values: dict[tuple[str, str], list[float]] = {}
        for artifact in seeds.values():
            scores = arrays.get(artifact.digest)
            for baseline, metric, value in [] if scores is None else scores.tolist():
                values.setdefault((baseline, metric), []).append(value)
        found[place] = {name: float(np.mean(of_seeds)) for name, of_seeds in values.items()}
    return found


def baseline_table(block: DatasetComparison, values: MetricValues) -> StudyTable | None:
    """Returns the table that stands beside a dataset's models: the metric that ranks on every split that is scored
    against distributions, and accuracy; None where what ranks is not scored so, or nothing is known."""
    split, kind = block.metric.partition("_")[0], metric_kind(block.metric)
    if not _compares_distributions(block, values):
        return None
    wanted = [f"{part}_{kind}" for part in SPLITS] + ([f"{split}_{ACCURACY}"] if kind != ACCURACY else [])
    metrics = [metric for metric in wanted if (MARGINAL, metric) in values]
    return StudyTable(
        title="",
        columns=("without a fit", *map(readable, metrics)),
        rows=[
            (name, *(show_number(values.get((name, metric)), metric) or "–" for metric in metrics)) for name in _NAMES
        ],
        note=NOTE,
    )


def baseline_lines(block: DatasetComparison, values: MetricValues) -> list[dict[str, str]]:
    """Returns the same for the table as text, a line each, by the metric that ranks; the items' own answers by that of
    the training items."""
    kind = metric_kind(block.metric)
    if not _compares_distributions(block, values):
        return []
    found: list[dict[str, str]] = []
    for name in _NAMES:
        metric = f"train_{kind}" if name == HISTOGRAM else block.metric.partition(".")[0]
        if (name, metric) in values:
            value = show_number(values[name, metric], metric)
            found.append({"dataset": block.title, "without a fit": name, "metric": readable(metric), "value": value})
    return found


def _compares_distributions(block: DatasetComparison, values: MetricValues) -> bool:
    """Whether the metric that ranks compares predictions with label distributions, and is known of the baselines."""
    name = block.metric.partition(".")[0]
    return not block.references.gold.get(name.partition("_")[0], True) and (MARGINAL, name) in values
