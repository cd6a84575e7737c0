"""Predictions that take no fit, beside the models of every dataset whose label distributions are compared.

Trials keep their scores (`trial.baselines`): the crowd's mean distribution, the uniform one, and each training item's
own. They stand there whatever models the sweep file names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.counted import Place, counted
from crowdsweep.metrics.known import ACCURACY, SPLITS, metric_kind
from crowdsweep.record.array_names import BASELINES, HISTOGRAM, MARGINAL, UNIFORM
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.kept_arrays import arrays_of
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState

MetricValues = Mapping[tuple[str, str], float]
"""(baseline, metric) → mean over the seeds."""
_NAMES = (MARGINAL, UNIFORM, HISTOGRAM)


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


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Predictions that take no fit beside a dataset's models, by the metrics that rank these.

    Attributes:
        metrics: the one that ranks on every split that is scored against distributions, and accuracy.
        values: baseline → the value of each metric, None where it has none.
        ranking: baseline → the metric of its split that ranks, and the value: the items' own answers by that of the
            training items. Of those that have one.
    """

    metrics: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    ranking: Mapping[str, tuple[str, float]]


def baselines_beside(block: DatasetComparison, values: MetricValues) -> Baselines | None:
    """Returns the baselines of a dataset; None where its models are not ranked against distributions, or no baseline is
    known.
    """
    split, kind = block.metric.partition("_")[0], metric_kind(block.metric)
    if not _compares_distributions(block, values):
        return None
    wanted = [f"{part}_{kind}" for part in SPLITS] + ([f"{split}_{ACCURACY}"] if kind != ACCURACY else [])
    metrics = [metric for metric in wanted if (MARGINAL, metric) in values]
    ranks = {name: f"train_{kind}" if name == HISTOGRAM else block.metric.partition(".")[0] for name in _NAMES}
    return Baselines(
        metrics=metrics,
        values={name: [values.get((name, metric)) for metric in metrics] for name in _NAMES},
        ranking={name: (metric, values[name, metric]) for name, metric in ranks.items() if (name, metric) in values},
    )


def _compares_distributions(block: DatasetComparison, values: MetricValues) -> bool:
    """Whether the metric that ranks compares predictions with label distributions, and is known of the baselines."""
    name = block.metric.partition(".")[0]
    return not block.references.gold.get(name.partition("_")[0], True) and (MARGINAL, name) in values
