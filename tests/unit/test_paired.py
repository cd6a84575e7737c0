"""Paired tests: which one, over what, and corrected for how many."""

import numpy as np
import pytest
from scipy import stats

from crowdsweep.analysis.paired import PairedTest, SeedScores, against_best, holm, paired_test


def _same_everywhere(right: np.ndarray, n_seeds: int = 3) -> SeedScores:
    """A model that gives the same answers at every seed."""
    seeds = range(n_seeds)
    return SeedScores(
        by_seed={s: float(right.mean()) for s in seeds}, by_item={s: right.astype(np.float32) for s in seeds}
    )


@pytest.mark.parametrize(
    ("n_seeds", "comparisons", "expected"),
    [(5, 1, "paired t"), (6, 1, "Wilcoxon"), (6, 2, "paired t"), (7, 3, "Wilcoxon"), (7, 4, "paired t")],
)
def test_wilcoxon_only_where_it_could_reject(n_seeds: int, comparisons: int, expected: str) -> None:
    # 2 / 2⁵ = .0625 can never be significant; 2 / 2⁶ = .031 can, but not after doubling; 2 / 2⁷ = .0156, × 3 = .047.
    best = SeedScores(by_seed={seed: 0.9 + 0.001 * seed**2 for seed in range(n_seeds)})
    test = paired_test(best, SeedScores(by_seed=dict.fromkeys(range(n_seeds), 0.8)), comparisons)
    assert test.test == expected
    if expected == "Wilcoxon":
        assert test.p == pytest.approx(2 * 0.5**n_seeds)  # all differences of one sign


def test_only_common_seeds_are_paired() -> None:
    test = paired_test(SeedScores(by_seed={0: 0.9, 1: 0.8, 2: 0.7}), SeedScores(by_seed={1: 0.6, 2: 0.6, 3: 0.0}), 1)
    assert test.difference is not None
    assert test.difference.n == 2
    assert test.difference.mean == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({0: 0.9, 1: 0.8}, "the same at every seed"),
        ({0: 0.8, 1: 0.7}, "the same difference at every seed"),
        ({0: 0.8}, "one seed only"),
        ({7: 0.8}, "no seed in common"),
    ],
)
def test_no_test_and_nothing_told_apart_where_nothing_varies(other: dict[int, float], reason: str) -> None:
    test = paired_test(SeedScores(by_seed={0: 0.9, 1: 0.8}), SeedScores(by_seed=other), 1)
    assert (test.test, test.p, test.reason, test.is_significant) == ("none", None, reason, False)


@pytest.mark.parametrize(("differing", "told"), [(4, False), (40, True)])
def test_models_that_are_the_same_at_every_seed_are_compared_over_items(differing: int, told: bool) -> None:
    """4 items of 800 are no evidence, whatever the seeds say: McNemar's exact p is .125."""
    better = np.ones(800)
    worse = np.where(np.arange(800) < differing, 0.0, 1.0)
    (test,) = against_best([_same_everywhere(better), _same_everywhere(worse)], 0.0)
    expected = "paired t" if told else "permutation"  # of many that differ the variance is known well enough
    assert (test.test, test.varies, test.is_significant) == (expected, "items", told)
    assert test.p is not None
    assert test.p == pytest.approx(stats.binomtest(0, differing).pvalue, abs=0.02 if told else 1e-9)


def test_a_model_against_its_twin_is_not_tested() -> None:
    right = np.arange(50) % 3 > 0
    (test,) = against_best([_same_everywhere(right), _same_everywhere(right)], 0.0)
    assert (test.test, test.reason, test.is_significant) == ("none", "the same on every item", False)


def test_scores_of_items_that_only_one_model_has_are_not_used() -> None:
    seen = _same_everywhere(np.arange(10) < 8)
    unseen = SeedScores(by_seed={seed: 0.5 + 0.01 * seed for seed in range(3)})
    test = paired_test(seen, unseen, 1)
    assert (test.test, test.varies) == ("paired t", "seeds")


def test_overlapping_splits_are_tested_with_their_variance_and_never_by_rank() -> None:
    best = SeedScores(by_seed=dict(enumerate([0.9, 0.92, 0.91, 0.95, 0.93, 0.9, 0.94, 0.92])))
    other = SeedScores(by_seed=dict(enumerate([0.88, 0.91, 0.86, 0.93, 0.9, 0.89, 0.93, 0.88])))
    plain, split = paired_test(best, other, 1), paired_test(best, other, 1, heldout=0.2)
    assert (plain.test, split.test, split.varies) == ("Wilcoxon", "paired t", "held-out splits")
    differences = np.array([best.by_seed[s] - other.by_seed[s] for s in range(8)])
    t = differences.mean() / (differences.std(ddof=1) * (1 / 8 + 0.2 / 0.8) ** 0.5)
    assert split.p == pytest.approx(2 * stats.t.sf(t, 7))


def test_holm_runs_over_every_pair_of_models() -> None:
    rng = np.random.default_rng(0)
    values = [rng.normal(mean, 1.0, 5) for mean in (3.0, 0.2, 0.1, 0.0)]
    models = [SeedScores(by_seed=dict(enumerate(v))) for v in sorted(values, key=np.mean, reverse=True)]
    tests = against_best(models, 0.0)
    everything: list[PairedTest] = [paired_test(models[i], models[j], 6) for i in range(4) for j in range(i + 1, 4)]
    adjusted = holm([test.p for test in everything if test.p is not None])
    assert [test.p_holm for test in tests] == pytest.approx(adjusted[:3])
    assert tests[0].p_holm != pytest.approx(holm([test.p for test in tests if test.p is not None])[0])


def test_holm_keeps_order_and_stays_below_one() -> None:
    assert holm([0.9, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


def test_one_model_is_compared_with_nobody() -> None:
    assert against_best([_same_everywhere(np.arange(4) < 2)], 0.0) == []
    assert against_best([], 0.0) == []
