"""The scores of single items in a trial, kept for the report.

Scores of several seeds do not show how much a score depends on the choice of items: another test set would give another
score even of a model that is the same at every seed.

Kept are the scores of the items of the split that ranks models (`metrics.ranking`), by every metric of items that can
rank (`ItemMetric.by_item`). So the ranking metric can be changed later. The scores become one artifact, and the items'
numbers another, which is the same for all trials of most datasets and therefore stored once.
"""

from collections.abc import Mapping

import numpy as np
from scipy.special import softmax

from crowdsweep.data.dataset import TrialData
from crowdsweep.metrics.metric_table import ITEM_METRICS, SPLITS, ScoredItems
from crowdsweep.metrics.ranking import ranking_metric
from crowdsweep.metrics.soft_labels import kurtosis_of
from crowdsweep.record.array_names import kurtosis_name, names_of


def item_scores(
    metrics: Mapping[str, float], items: Mapping[tuple[str, str], ScoredItems], trial: TrialData
) -> dict[str, np.ndarray]:
    """Returns the artifacts with the scores of single items, by name; empty where no metric of items ranks.

    The first has the scores of the items of the split that ranks (a float32 column for each metric and use). The second
    has the items' numbers in the dataset (int32). Where these items have votes besides gold, a third has the kurtosis
    of their soft labels (float32).

    Args:
        items: what `scoring.scored_items` returned for the trial.
    """
    gold = {split: bool(part.has_gold.any()) for split, part in trial.evaluation.items()}
    metric, _ = ranking_metric(list(metrics), gold=gold)
    split = metric.partition("_")[0]
    if split not in SPLITS:
        return {}
    columns = {
        f"{info.name}{use}": info.by_item(scored)
        for (place, use), scored in items.items()
        for info in ITEM_METRICS
        if place == split and info.by_item is not None and info.applies(scored.scale, scored.unit, scored.class_names)
    }
    code = items[split, ""].code
    if code is None:
        return {}
    table = np.empty(len(code), dtype=[(name, "<f4") for name in columns])
    for name, column in columns.items():
        table[name] = column
    scores, _, numbers = names_of(metric)
    return {scores: table, numbers: code, **_kurtosis(split, trial)}


def _kurtosis(split: str, trial: TrialData) -> dict[str, np.ndarray]:
    """Returns the kurtosis of the softmax of each gold item's vote counts, NaN for an item without votes.

    Empty without votes, for two classes (where it says nothing) and for multi-label data.
    """
    part = trial.evaluation[split]
    if part.answers is None or part.answers.n_classes < 3 or trial.training.scale == "multilabel":
        return {}
    counts = part.answers.counts.toarray()[part.has_gold]
    if not counts.any():
        return {}
    return {kurtosis_name(split): kurtosis_of(softmax(counts, axis=1)).astype(np.float32)}
