"""Differences of two models: intervals within what the data allow, exact where few items or seeds are known."""

import numpy as np
import pytest

from crowdsweep.analysis.paired import SeedScores, paired_test
from crowdsweep.metrics.differences import difference, p_of_difference, share_difference_interval


def scores(right: np.ndarray) -> SeedScores:
    """A model with these items right, by seed."""
    return SeedScores(
        by_seed={seed: float(row.mean()) for seed, row in enumerate(right)},
        by_item={seed: row.astype(np.float32) for seed, row in enumerate(right)},
    )


def one_item_of_thirty() -> tuple[np.ndarray, np.ndarray]:
    """The first model has 29 of 30 items right, the second 28 of these."""
    first = (np.arange(30) < 29).astype(np.float64)
    return np.stack([first] * 3), np.stack([(np.arange(30) < 28).astype(np.float64)] * 3)


def test_one_item_of_thirty_is_as_agresti_and_min_have_it() -> None:
    """-11.7 to +5.5 points; the first leaves 3.3 to gain."""
    first, second = one_item_of_thirty()
    assert share_difference_interval((second - first)[:1]) == pytest.approx((-0.117, 0.055), abs=0.005)
    test = paired_test(scores(second), scores(first), 1, metric="test_accuracy")
    assert test.difference is not None
    assert test.difference.low == pytest.approx(-0.12, abs=0.01)
    assert test.difference.high == pytest.approx(1 / 30)
    assert (test.test, test.p, test.is_significant) == ("permutation", 1.0, False)


def test_two_seeds_do_not_reach_beyond_the_range_of_the_metric() -> None:
    """Student's interval of a difference of 10 points is ±76 of them; the better model leaves 4 to gain."""
    found = difference([0.97, 0.95], [0.93, 0.79], metric="test_macro_f1")
    assert (found.mean, found.low) == (pytest.approx(0.10), pytest.approx(0.96 - 1.0))
    swapped = difference([0.93, 0.79], [0.97, 0.95], metric="test_macro_f1")
    assert (swapped.mean, swapped.high) == (pytest.approx(-0.10), pytest.approx(1.0 - 0.96))
    found = difference([0.02, 0.05], [0.03, 0.3], metric="test_kl")  # the first is better, and 0 is as low as it goes
    assert (found.mean, found.high) == (pytest.approx(-0.13), pytest.approx(0.035))
    bare = difference([0.97, 0.95], [0.93, 0.79])
    assert bare.low is not None
    assert bare.low < -0.6


def test_few_items_are_tested_by_flipping_their_signs() -> None:
    """Six of thirty items speak for one model and none against it: 2 / 2⁶, whatever is the variance over items."""
    one = np.ones((3, 30))
    other = np.stack([(np.arange(30) >= 6).astype(np.float64)] * 3)
    assert p_of_difference((one - other).mean(axis=1), comparisons=1, item_differences=one - other) == (
        "permutation",
        pytest.approx(2 / 2**6),
    )


def test_seeds_that_move_all_items_together_are_not_flipped_away() -> None:
    """Each seed has its own luck with all thirty items: three seeds are three numbers, not ninety."""
    rng = np.random.default_rng(0)
    luck = np.array([0.3, 0.0, 0.5])[:, None]
    differences = (rng.random((3, 30)) < luck).astype(np.float64)
    test, p = p_of_difference(differences.mean(axis=1), comparisons=1, item_differences=differences)
    assert test == "paired t"
    assert p > 0.05


def test_flips_find_what_the_variance_of_few_items_hides() -> None:
    """.9 against .8 on thirty items at three seeds: found more than twice as often, and chance not more often."""
    rng = np.random.default_rng(3)

    def found(share: float, runs: int) -> tuple[float, float]:
        hits = np.zeros(2)
        for _ in range(runs):
            right = [(rng.random((3, 30)) < each).astype(np.float64) for each in (0.9, share)]
            apart = right[0] - right[1]
            if not apart.any():
                continue
            known = p_of_difference(apart.mean(axis=1), comparisons=1, item_differences=apart)
            hits += [known[1] < 0.05, known[0] == "permutation"]
        return hits[0] / runs, hits[1] / runs

    power, flipped = found(0.8, 300)
    alarms, _ = found(0.9, 300)
    assert power > 0.25
    assert flipped > 0.7
    assert alarms < 0.08
