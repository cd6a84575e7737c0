"""Sign flips: the exact distribution, against enumeration, tables and scipy."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from crowdsweep.metrics.permutation import MOST_EXACT, sign_flip_p, signed_rank_p


def _enumerated(values: np.ndarray, one_sided: bool) -> float:
    sums = np.array(list(product([1.0, -1.0], repeat=len(values)))) @ np.abs(values)
    seen = values.sum()
    far = sums >= seen - 1e-9 if one_sided else np.abs(sums) >= abs(seen) - 1e-9
    return float(far.mean())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [lambda v: v, np.sign, lambda v: np.round(3 * v) / 3], ids=["real", "signs", "thirds"])
def test_every_sign_flip_is_counted(seed: int, make: object) -> None:
    values = make(np.random.default_rng(seed).normal(0.4, 1.0, 9))  # type: ignore[operator] - a function
    assert sign_flip_p(values) == pytest.approx(_enumerated(values, one_sided=False), abs=0.01)
    assert sign_flip_p(values, "greater") == pytest.approx(_enumerated(values, one_sided=True), abs=0.01)


def test_of_items_right_or_wrong_it_is_mcnemars_exact_test() -> None:
    for better, worse in ((1, 0), (4, 1), (12, 3), (0, 6), (5, 5)):
        values = np.array([1.0] * better + [-1.0] * worse + [0.0] * 20)
        assert sign_flip_p(values) == pytest.approx(stats.binomtest(better, better + worse).pvalue)


def test_nothing_differs_nothing_is_told() -> None:
    assert sign_flip_p(np.zeros(5)) == 1.0
    assert signed_rank_p(np.zeros(5)) == 1.0
    assert sign_flip_p(np.array([])) == 1.0


@pytest.mark.parametrize("n", [5, 8])
def test_signed_ranks_are_exact_with_ties_and_zeros(n: int) -> None:
    """As scipy's slow enumeration has it."""
    values = np.array([0.1, 0.3 - 0.2, -0.1, 0.2, 0.0, 0.4, 0.2, 0.6])[:n]
    tied = np.round(values, 6)
    assert signed_rank_p(values) == pytest.approx(stats.wilcoxon(tied).pvalue)
    upper = stats.wilcoxon(tied, alternative="greater", zero_method="zsplit").pvalue
    assert signed_rank_p(values, "greater", rank_zeros=True) == pytest.approx(upper)


def test_of_many_the_normal_form_is_near_the_exact_one() -> None:
    values = np.random.default_rng(1).normal(0.3, 1.0, MOST_EXACT)
    exact = signed_rank_p(values)
    assert exact == pytest.approx(stats.wilcoxon(values, method="exact").pvalue)
    assert signed_rank_p(np.append(values, 1e-3)) == pytest.approx(exact, rel=0.1)
