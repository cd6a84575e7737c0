"""Paired tests of a dataset's models against the best one, with Holm's correction over all pairs of models.

Every pair is tested and corrected for, although only the pairs with the best model are reported. A correction over
those pairs alone would ignore that the best model was selected by its score, and so is best partly by luck.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from jaxtyping import Float

from crowdsweep.metrics.differences import SIGNIFICANCE, difference, p_of_difference
from crowdsweep.metrics.intervals import Estimate, Varies


@dataclass(frozen=True, kw_only=True)
class SeedScores:
    """Scores of one model on a dataset, by the metric that ranks.

    Attributes:
        by_item: seed → scores of the single items, of which the seed's score is the mean. They are known for every seed
            or for none, and for the same items in the same order at every seed and for every model.
    """

    by_seed: Mapping[int, float]
    by_item: Mapping[int, Float[np.ndarray, " items"]] = field(default_factory=dict[int, np.ndarray])


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """Paired test of one model against the best, on their common seeds.

    Attributes:
        test: `permutation`, `Wilcoxon`, `paired t`, or `none` where nothing varies or fewer than two seeds are common.
        difference: best minus this model, in the metric's own units, over the common seeds; None without such seeds.
        p: two-sided p value; None where there is no test.
        p_holm: p after Holm's correction over all pairs of models on this dataset.
        reason: why there is no test; empty where there is one.
    """

    test: str
    difference: Estimate | None
    p: float | None = None
    p_holm: float | None = None
    reason: str = ""

    @property
    def is_significant(self) -> bool:
        """Whether the difference is significant at 5 % after correction."""
        return self.p_holm is not None and self.p_holm < SIGNIFICANCE

    @property
    def varies(self) -> Varies:
        """What the difference varies over."""
        return "seeds" if self.difference is None else self.difference.varies


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """Comparison of two predictions.

    Attributes:
        first, second: mean score of each over its seeds.
        test: uncorrected test of the first minus the second, on their common seeds.
    """

    metric: str
    first: float
    second: float
    test: PairedTest


def side_by_side(first: SeedScores, second: SeedScores, comparisons: int, metric: str) -> SideBySide:
    """Compares two predictions, each with at least one seed; arguments are as for `paired_test`."""
    one, other = (float(np.mean(list(scores.by_seed.values()))) for scores in (first, second))
    return SideBySide(
        metric=metric, first=one, second=other, test=paired_test(first, second, comparisons, metric=metric)
    )


def against_best(models: Sequence[SeedScores], heldout: float, metric: str = "") -> list[PairedTest]:
    """Returns the test of each model against the first one, which is the best, with Holm's correction over all pairs.

    Args:
        models: scores of the models, best first.
        heldout, metric: as for `paired_test`.
    """
    pairs = list(combinations(range(len(models)), 2))
    tests = [paired_test(models[one], models[other], len(pairs), heldout, metric) for one, other in pairs]
    tested = [place for place, test in enumerate(tests) if test.p is not None]
    corrected = holm([p for test in tests if (p := test.p) is not None])
    for place, p_holm in zip(tested, corrected, strict=True):
        tests[place] = replace(tests[place], p_holm=p_holm)
    return tests[: max(0, len(models) - 1)]


def paired_test(
    best: SeedScores, other: SeedScores, comparisons: int, heldout: float = 0.0, metric: str = ""
) -> PairedTest:
    """Tests two models on their common seeds, without correction (`metrics.differences`).

    Where the differences do not vary there is no test, and `PairedTest.reason` says why.

    Args:
        comparisons: number of pairs that are tested on this dataset.
        heldout: share of the annotations that each seed holds out anew, where these are scored; else 0.
    """
    seeds = sorted(best.by_seed.keys() & other.by_seed.keys())
    if not seeds:
        return PairedTest(test="none", difference=None, reason="no seed in common")
    one, two = ([model.by_seed[seed] for seed in seeds] for model in (best, other))
    items = None
    if not heldout and all(seed in best.by_item and seed in other.by_item for seed in seeds):
        items = np.stack([best.by_item[s].astype(np.float64) - other.by_item[s] for s in seeds])
    found = difference(one, two, metric=metric, heldout=heldout, item_differences=items)
    if found.low is None or (items is not None and not items.any()):
        return _no_test(replace(found, low=None, high=None), items is not None)
    test, p = p_of_difference(np.subtract(one, two), comparisons=comparisons, heldout=heldout, item_differences=items)
    return PairedTest(test=test, difference=found, p=p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Returns p values adjusted by Holm's step-down procedure, in the order given."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for step, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - step) * p_values[index]))
        adjusted[index] = running
    return adjusted


def _no_test(difference: Estimate, by_item: bool) -> PairedTest:
    same = abs(difference.mean) <= 1e-12
    if same:
        difference = replace(difference, mean=0.0)
    if by_item:
        reason = "the same on every item"
    elif difference.n < 2:
        reason = "one seed only"
    else:
        reason = "the same at every seed" if same else "the same difference at every seed"
    return PairedTest(test="none", difference=difference, reason=reason)
