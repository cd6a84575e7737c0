"""Models over datasets: mean ranks, whether these differ at all, and which of them do."""

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
_ROUNDING = 12  # digits behind the point: scores that should tie differ in their last bits


@dataclass(frozen=True, kw_only=True)
class CriticalDifference:
    """Which mean ranks differ significantly, by Nemenyi's test at 5 %.

    Attributes:
        difference: two models differ whose mean ranks are at least so far apart.
        joined: the first and last place, of the models best first, of each longest run in which none differ.
    """

    difference: float
    joined: Sequence[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class MeanRanks:
    """Ranks averaged over the datasets on which every one of these models is ranked.

    Attributes:
        ranks: model → mean rank (ties share), best first.
        each: model → its rank on each of these datasets.
        n_datasets: how many they are averaged over.
        friedman: the test of all models together; None where it does not apply.
        critical: which models differ; None where there is no such test, or the datasets are too few for this.
        reason: why one of them is missing, a sentence; empty where neither is.
    """

    ranks: Mapping[str, float]
    each: Mapping[str, Sequence[float]]
    n_datasets: int
    friedman: FriedmanTest | None = None
    critical: CriticalDifference | None = None
    reason: str = ""


def mean_ranks(datasets: Sequence[tuple[str, Mapping[str, float]]]) -> MeanRanks | None:
    """Returns mean ranks and their tests; None where fewer than two datasets or models can be compared.

    Only models ranked on every dataset take part. One dataset under several parameters counts as several for the
    ranks, but not for tests, which need independent datasets.

    Args:
        datasets: name, and model → loss, of each on which some model is ranked.
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
