"""How many seeds or items would settle a comparison, against the power that so many have."""

from math import inf

import numpy as np
import pytest

from crowdsweep.analysis.more_needed import more_needed
from crowdsweep.analysis.paired import PairedTest, SeedScores, paired_test
from crowdsweep.metrics.differences import SIGNIFICANCE
from crowdsweep.metrics.intervals import Estimate

TYPICAL = np.random.default_rng(0).standard_normal(50)
TYPICAL = (TYPICAL - TYPICAL.mean()) / TYPICAL.std(ddof=1)


def paired(differences: np.ndarray) -> PairedTest:
    scores = dict(enumerate(differences.tolist()))
    return paired_test(SeedScores(by_seed=scores), SeedScores(by_seed=dict.fromkeys(scores, 0.0)), 1)


def test_as_many_seeds_as_the_textbook_says() -> None:
    """Of a paired difference of 0.2 standard deviations: ((1.96 + 0.84) / 0.2)² pairs for a power of 80 %."""
    needed = more_needed(paired(0.2 + TYPICAL), 1)
    assert needed is not None
    assert (needed.varies, needed.now, needed.number) == ("seeds", 50, 200)
    corrected = more_needed(paired(0.2 + TYPICAL), 10)
    assert corrected is not None
    assert corrected.number > needed.number


def test_so_many_seeds_find_it_in_four_of_five_repetitions() -> None:
    needed = more_needed(paired(0.2 + TYPICAL), 1)
    assert needed is not None
    draws = 0.2 + np.random.default_rng(1).standard_normal((400, needed.number))
    found = np.mean([(p := paired(row).p) is not None and p < SIGNIFICANCE for row in draws])
    assert 0.74 < found < 0.88


def test_items_are_counted_where_the_difference_varies_over_them() -> None:
    found = Estimate(n=1, mean=0.02, low=-0.02, high=0.06, varies="items", n_items=400)
    needed = more_needed(PairedTest(test="permutation", difference=found, p=0.3, p_holm=0.3), 1)
    assert needed is not None
    assert needed.number == pytest.approx(400 * (2.8016 / (0.02 / (0.04 / 1.96))) ** 2, rel=0.05)


@pytest.mark.parametrize(
    "test",
    [
        PairedTest(test="none", difference=None, reason="no seed in common"),
        PairedTest(test="paired t", difference=Estimate(n=5, mean=1.0, low=0.5, high=1.5), p=0.001, p_holm=0.01),
        PairedTest(
            test="paired t",
            difference=Estimate(n=5, mean=1.0, low=-0.5, high=2.5, varies="held-out splits"),
            p=0.2,
            p_holm=0.2,
        ),
    ],
    ids=["not tested", "settled", "held-out splits"],
)
def test_nothing_is_told_where_no_number_would_settle_it(test: PairedTest) -> None:
    assert more_needed(test, 1) is None


@pytest.mark.parametrize("mean", [0.0, 0.001])
def test_a_tie_is_told_as_one(mean: float) -> None:
    needed = more_needed(paired(mean + TYPICAL), 1)
    assert needed is not None
    assert needed.times == inf
