"""Baselines that need no fit, for datasets whose models are ranked against label distributions.

The baselines are the crowd's mean distribution, the uniform distribution, and each training item's own label
distribution. Trials store their scores (`trial.baselines`), so they are shown whatever models the sweep file names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.analysis.counted_trials import counted_results
from crowdsweep.metrics.metric_table import ACCURACY, SPLITS, metric_kind
from crowdsweep.record.array_names import BASELINES, HISTOGRAM, MARGINAL, UNIFORM
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.kept_arrays import arrays_of
from crowdsweep.record.rows import Rows
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Place
from crowdsweep.record.state import JournalState

MetricValues = Mapping[tuple[str, str], float]
"""(baseline, metric) → mean over the seeds."""
_NAMES = (MARGINAL, UNIFORM, HISTOGRAM)


def baseline_values(state: JournalState, trials: Iterable[ShownTrial], rows: Rows) -> dict[Place, MetricValues]:
    """Returns (dataset, parameters) → baseline scores, for datasets whose trials stored any."""
    kept: dict[Place, dict[int, Artifact]] = {}
    for trial, result in counted_results(state, trials):
        if BASELINES in result.kept:
            kept.setdefault(trial.spec.place, {}).setdefault(trial.spec.seed, result.kept[BASELINES])
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
    """Scores of the baselines on one dataset, by the metrics that rank its models.

    Attributes:
        metrics: the ranking metric on each split where the baselines have it, and accuracy on the ranking split.
        values: baseline → value of each metric, None where it has none.
        ranking: baseline → (ranking metric on the baseline's split, its value), for baselines that have one. The split
            is that of the ranking metric; for the items' own distributions it is the training items.
    """

    metrics: Sequence[str]
    values: Mapping[str, Sequence[float | None]]
    ranking: Mapping[str, tuple[str, float]]


def baselines_beside(block: DatasetComparison, values: MetricValues) -> Baselines | None:
    """Returns the baselines of a dataset.

    None where its models are not ranked against label distributions, or no baseline score is known.
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
    """Whether the ranking metric compares predictions with label distributions, and the baselines have it."""
    name = block.metric.partition(".")[0]
    return not block.references.gold.get(name.partition("_")[0], True) and (MARGINAL, name) in values
