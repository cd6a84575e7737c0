"""Names of the arrays that a trial keeps beside its numbers, for their writers and readers."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from crowdsweep.metrics.known import metric_kind

BASELINES, CLASSES = "baselines", "class_names"
MARGINAL, UNIFORM, HISTOGRAM = "marginal", "uniform", "histogram"
"""The predictions in `BASELINES`, which take no fit."""

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
