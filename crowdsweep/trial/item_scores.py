"""The scores of the single items that a trial's mean is made of, kept for the report.

Seeds say nothing of the choice of items: another test set would give another mean, even of a model that is the same at
every seed. The array of the metric that ranks (`metrics.ranking`) is enough to tell; it becomes an artifact, as does
the list of the items, which is the same for all trials of most datasets and so is kept once.
"""

from collections.abc import Mapping

import numpy as np

from crowdsweep.data.dataset import TrialData
from crowdsweep.metrics.known import ItemMetric, ScoredItems, info_of
from crowdsweep.metrics.ranking import ranking_metric
from crowdsweep.metrics.wording import goal_of

_SCORES, _ITEMS = "item_scores", "items_scored"


def names_of(metric: str) -> tuple[str, str]:
    """Returns the names of the artifacts of a metric's scores (float32 [scored]) and of the items (int32 [scored])."""
    return f"{_SCORES}.{metric}", f"{_ITEMS}.{metric.partition('_')[0]}"


def is_item_scores(artifact: str) -> bool:
    """Whether an artifact is one of these."""
    return artifact.partition(".")[0] in (_SCORES, _ITEMS)


def item_scores(
    metrics: Mapping[str, float], items: Mapping[tuple[str, str], ScoredItems], trial: TrialData, wanted: str
) -> dict[str, np.ndarray]:
    """Returns the scores of the items by the metric that ranks a trial, and which items they are; nothing where that
    metric is no mean over items.

    Args:
        metrics: what the trial has.
        items: `scoring.scored_items` of it.
        trial: its data.
        wanted: the metric that the sweep file names; empty where it names none.
    """
    goal = goal_of(wanted)
    gold = {split: bool(part.has_gold.any()) for split, part in trial.evaluation.items()}
    metric, _ = ranking_metric(list(metrics), None if goal is None else (wanted, goal), gold)
    info = info_of(metric)
    if not isinstance(info, ItemMetric) or info.by_item is None:
        return {}
    name, _, use = metric.partition(".")
    scored = items[name.partition("_")[0], f".{use}" if use else ""]
    if scored.code is None:
        return {}
    scores, codes = names_of(metric)
    of_items = info.by_item(*scored.rows).reshape(len(scored.reference), -1).mean(axis=1)
    return {scores: of_items.astype(np.float32), codes: scored.code}
