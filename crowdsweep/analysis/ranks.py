"""Models over several datasets: mean ranks, whether they differ at all, and which models differ."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from crowdsweep.metrics.rank_tests import (
    FEWEST_DATASETS,
    FEWEST_MODELS,
    FriedmanTest,
    critical_difference,
    friedman_test,
    not_different,
)

_FEWEST_TO_TEST = 3  # datasets
_ROUNDING = 12  # decimals: scores that should tie may differ in their last bits


@dataclass(frozen=True, kw_only=True)
class CriticalDifference:
    """Result of Nemenyi's test at 5 %: which mean ranks differ significantly.

    Attributes:
        difference: two models differ if their mean ranks are at least this far apart.
        joined: first and last index of each maximal group of models that do not differ, among the models best first.
    """

    difference: float
    joined: Sequence[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class MeanRanks:
    """Mean ranks of the models that are ranked on every dataset.

    Attributes:
        ranks: model → mean rank (tied models share the average rank), best first.
        each: model → its rank on each dataset.
        friedman: Friedman's test of all models together; None where it does not apply.
        critical: which models differ; None where there is no Friedman test, or there are too few datasets.
        reason: a sentence on why `friedman` or `critical` is None; empty where neither is.
    """

    ranks: Mapping[str, float]
    each: Mapping[str, Sequence[float]]
    n_datasets: int
    friedman: FriedmanTest | None = None
    critical: CriticalDifference | None = None
    reason: str = ""


def mean_ranks(datasets: Sequence[tuple[str, Mapping[str, float]]]) -> MeanRanks | None:
    """Returns mean ranks and their tests; None where fewer than two datasets or models can be compared.

    Only models that are ranked on every dataset take part. One dataset under several parameters counts as several
    datasets for the ranks, but rules out the tests, which need independent datasets.

    Args:
        datasets: (name, model → loss) of each dataset on which some model is ranked.
    """
    if len(datasets) < 2:
        return None
    models = sorted(set.intersection(*(set(losses) for _, losses in datasets)))
    if len(models) < 2:
        return None
    losses = np.array([[own[model] for model in models] for _, own in datasets])
    ranks = stats.rankdata(np.round(losses, _ROUNDING), axis=1)
    means: list[float] = ranks.mean(axis=0).tolist()
    by_model = {model: mean for mean, model in sorted(zip(means, models, strict=True))}
    each: dict[str, list[float]] = dict(zip(models, ranks.T.tolist(), strict=True))
    result = MeanRanks(ranks=by_model, each={model: each[model] for model in by_model}, n_datasets=len(datasets))
    if len(datasets) < _FEWEST_TO_TEST or len(models) < FEWEST_MODELS:
        return replace(result, reason="Friedman's test needs at least three datasets and three models")
    if len({name for name, _ in datasets}) < len(datasets):
        return replace(result, reason="No Friedman test: one dataset under several parameters is not independent data")
    if not np.ptp(ranks):
        return replace(result, reason="No Friedman test: all models tie everywhere")
    result = replace(result, friedman=friedman_test(ranks))
    if len(datasets) < FEWEST_DATASETS:
        few = f"No critical difference of ranks: it takes at least five datasets, these are {len(datasets)}"
        return replace(result, reason=few)
    difference = critical_difference(len(models), len(datasets))
    joined = not_different(list(by_model.values()), difference)
    return replace(result, critical=CriticalDifference(difference=difference, joined=joined))
