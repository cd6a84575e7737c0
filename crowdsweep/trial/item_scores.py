"""What the single items are to a trial's scores, kept for the report.

Seeds say nothing of the choice of items: another test set would give another score, even of a model that is the same at
every seed. What is kept are the items of the split that ranks (`metrics.ranking`), with every metric of items that can
rank (`ItemMetric.by_item`): somebody may want to rank by another one later. It becomes an artifact, as does the list of
the items, which is the same for all trials of most datasets and so is kept once.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from crowdsweep.data.dataset import TrialData
from crowdsweep.metrics.known import ITEM_METRICS, SPLITS, ScoredItems, metric_kind
from crowdsweep.metrics.ranking import ranking_metric
from crowdsweep.metrics.soft_labels import kurtosis_of

ItemScores = Callable[[Sequence[str], str], Mapping[str, Float[np.ndarray, " items"]]]
"""(keys of trials, metric) → key → the scores of the items that the metric is the mean of, for all of these trials, of
the same items in the same order; empty where that is not to be had."""
_SCORES, _ITEMS, _KURTOSIS = "item_scores", "items_scored", "votes_kurtosis"


def no_item_scores(keys: Sequence[str], metric: str) -> Mapping[str, Float[np.ndarray, " items"]]:  # noqa: ARG001
    """None are known."""
    return {}


def names_of(metric: str) -> tuple[str, str, str]:
    """Returns where the scores of items by a metric (`test_kl.snap`) are found: the name of the artifact, of the column
    in it, and of the artifact that says which items they are."""
    name, dot, use = metric.partition(".")
    split = name.partition("_")[0]
    return f"{_SCORES}.{split}", f"{metric_kind(metric)}{dot}{use}", f"{_ITEMS}.{split}"


def kurtosis_name(split: str) -> str:
    """Returns the name of the artifact that says how peaked the votes are for the items of a split."""
    return f"{_KURTOSIS}.{split}"


def is_item_scores(artifact: str) -> bool:
    """Whether an artifact is one of these."""
    return artifact.partition(".")[0] in (_SCORES, _ITEMS, _KURTOSIS)


def item_scores(
    metrics: Mapping[str, float], items: Mapping[tuple[str, str], ScoredItems], trial: TrialData
) -> dict[str, np.ndarray]:
    """Returns the scores of the items of the split that ranks (a float32 column for each metric and use), the items'
    numbers in the dataset (int32), and, where they have votes beside gold, the kurtosis of their soft labels (float32);
    nothing where no metric of items ranks.

    Args:
        metrics: what the trial has.
        items: `scoring.scored_items` of it.
        trial: its data.
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
    """Returns the kurtosis of the softmax of the counts of votes, NaN where an item has none: it says nothing of two
    classes, and nothing is returned."""
    part = trial.evaluation[split]
    if part.answers is None or part.answers.n_classes < 3 or trial.training.scale == "multilabel":
        return {}
    counts = part.answers.counts.toarray()[part.has_gold]
    if not counts.any():
        return {}
    return {kurtosis_name(split): kurtosis_of(softmax(counts, axis=1)).astype(np.float32)}
