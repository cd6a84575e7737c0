"""Names of the artifacts (arrays) of a trial, shared by their writers and readers."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Float

from crowdsweep.metrics.metric_table import metric_kind

BASELINES, CLASSES = "baselines", "class_names"
MARGINAL, UNIFORM, HISTOGRAM = "marginal", "uniform", "histogram"
"""The predictions in the artifact `BASELINES`, which need no fit."""

ItemScores = Callable[[Sequence[str], str], Mapping[str, Float[np.ndarray, " items"]]]
"""(keys of trials, metric) → {key: scores of the items, whose mean is the metric}.

All trials have scores of the same items in the same order; the mapping is empty if such scores are not available."""
_SCORES, _ITEMS, _KURTOSIS = "item_scores", "items_scored", "votes_kurtosis"


def no_item_scores(keys: Sequence[str], metric: str) -> Mapping[str, Float[np.ndarray, " items"]]:  # noqa: ARG001
    """Returns no scores: an `ItemScores` for records without them."""
    return {}


def names_of(metric: str) -> tuple[str, str, str]:
    """Returns where the item scores of a metric (`test_kl.snap`) are stored.

    Returns:
        The name of the artifact, the column in it, and the artifact that says which items were scored.
    """
    name, dot, use = metric.partition(".")
    split = name.partition("_")[0]
    return f"{_SCORES}.{split}", f"{metric_kind(metric)}{dot}{use}", f"{_ITEMS}.{split}"


def kurtosis_name(split: str) -> str:
    """Returns the name of the artifact with the kurtosis of the votes (how peaked they are) of a split's items."""
    return f"{_KURTOSIS}.{split}"


def is_item_scores(artifact: str) -> bool:
    """Whether an artifact has item scores, the scored items, or the kurtosis of their votes."""
    return artifact.partition(".")[0] in (_SCORES, _ITEMS, _KURTOSIS)
