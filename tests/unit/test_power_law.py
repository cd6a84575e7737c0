"""Learning curves beyond what was tried: what made the data comes back, and what does not determine a law says so."""

from dataclasses import replace

import numpy as np
import pytest

from crowdsweep.metrics.power_law import FARTHEST, PowerLaw, fit
from crowdsweep.metrics.resampling import resampled_means

LABELS = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0)


def law(labels: np.ndarray, top: float = 0.95, drop: float = 0.25, rate: float = 1.0) -> np.ndarray:
    return top - drop * labels**-rate


def drawn(means: np.ndarray, noise: float, draws: int = 200) -> np.ndarray:
    return means + np.random.default_rng(0).normal(0.0, noise, (draws, len(means)))


def fitted(means: np.ndarray, noise: float = 0.002, highest: float = 1.0) -> PowerLaw:
    found = fit(LABELS[: len(means)], means, drawn(means, noise), highest)
    assert isinstance(found, PowerLaw), found
    return found


def test_a_law_without_noise_is_found_again_and_read_beyond() -> None:
    found = fitted(law(np.array(LABELS)))
    gain = found.gain(20.0)
    assert gain.value == pytest.approx(0.25 * (1 / 10 - 1 / 20), rel=0.1)  # read off by hand: 95 - 25/r
    assert gain.low < 0.0125 < gain.high
    assert gain.high - gain.low < 0.02
    assert found.law[0] == pytest.approx(0.95, abs=0.003)
    needed = found.labels_for(0.9375)  # .25 / .0125 = 20
    assert needed.value == pytest.approx(20, rel=0.15)
    assert needed.low < 20 < needed.high


def test_no_prediction_goes_farther_than_its_bound() -> None:
    found = fitted(law(np.array(LABELS)))
    assert "more than 2 times" in found.gain(FARTHEST * 10 + 1).refused
    assert "not within 2 times" in found.labels_for(0.949).refused
    assert found.labels_for(0.8).value < 10


@pytest.mark.parametrize(
    ("means", "noise", "why"),
    [
        (law(np.array(LABELS[:3])), 0.001, "fewer than 4 numbers of labels"),
        (np.full(6, 0.9), 0.01, "no rise"),
        (0.9 - 0.01 * np.arange(6), 0.001, "no rise"),
        (0.5 + 0.05 * np.log(np.array(LABELS)), 0.0005, "does not bend"),
        (np.array([0.6, 0.8, 0.6, 0.85, 0.65, 0.8]), 0.001, "do not follow a power law"),
    ],
)
def test_what_does_not_determine_a_law_is_refused(means: np.ndarray, noise: float, why: str) -> None:
    found = fit(LABELS[: len(means)], means, drawn(means, noise), np.inf)
    assert isinstance(found, str)
    assert why in found


def test_a_prediction_as_uncertain_as_all_that_was_seen_is_refused() -> None:
    found = replace(fitted(law(np.array(LABELS), drop=0.05)), miss=0.02)  # 1.96 × 1.4 points each way, of a rise of 4.5
    assert "wider than all of the rise" in found.gain(20.0).refused
    assert not replace(found, miss=0.01).gain(20.0).refused


def test_more_labels_add_to_the_last_mean_what_the_law_adds() -> None:
    """Where votes of an even number of labels tie, the last mean lies beside the law: that is no gain of more labels,
    and the target is as far from that mean as the law says."""
    found = fitted(law(np.array(LABELS)) + np.array([0, 0, 0, 0, 0, -0.01]))
    at_ten, at_twenty = (float(found.law[0] - found.law[1] * r ** -found.law[2]) for r in (10.0, 20.0))
    gain = found.gain(20.0)
    assert gain.value == pytest.approx(at_twenty - at_ten)
    assert at_ten > found.last + 0.003
    assert found.labels_for(found.last + gain.value).value == pytest.approx(20.0)


def test_what_is_reached_already_needs_no_more_than_was_tried_and_an_end_too_far_is_none() -> None:
    found = fitted(law(np.array(LABELS)) + np.array([0, 0, 0, 0, 0, 0.003]))
    assert found.labels_for(found.last).value <= 10.0
    needed = found.labels_for(found.last + 0.009)
    assert 10.0 < needed.value < 20.0
    assert needed.high == np.inf  # 24 labels or none, where nothing tells farther than 20


def test_four_numbers_of_labels_have_to_be_wide_apart() -> None:
    for labels, known in (((1.0, 2.0, 3.0, 4.0), False), ((1.0, 3.0, 5.0, 7.0), True)):
        means = law(np.array(labels))
        found = fit(labels, means, drawn(means, 0.001), 1.0)
        assert isinstance(found, PowerLaw) is known
        assert known or found == "4 numbers of labels within a factor of 4 are too close together"


def test_a_share_never_ends_above_all() -> None:
    found = fitted(law(np.array(LABELS), top=1.02, drop=0.3, rate=0.8))
    assert found.law[0] <= 1.0
    assert found.draws[:, 0].max() <= 1.0


def test_no_gain_goes_beyond_what_is_left() -> None:
    found = replace(fitted(law(np.array(LABELS), top=0.995, drop=0.25)), miss=0.05)
    gain = found.gain(20.0)
    assert gain.high == pytest.approx(1.0 - found.last)  # 97 % are right: three points are left
    assert gain.low < gain.value < gain.high


def test_what_the_law_missed_widens_what_it_predicts() -> None:
    smooth, bumpy = law(np.array(LABELS)), law(np.array(LABELS)) + np.array([0, 0, 0, 0, 0, 0.01])
    narrow, wide = (fitted(one).gain(20.0) for one in (smooth, bumpy))
    assert wide.high - wide.value > 1.5 * (narrow.high - narrow.value)


def test_bootstrap_means_vary_as_means_over_seeds_and_items_do() -> None:
    rng = np.random.default_rng(1)
    n_seeds, n_items = 4, 200
    sums = np.zeros(3)
    for _ in range(30):
        item, seed = rng.normal(0, 1, n_items), rng.normal(0, 0.05, n_seeds)
        noise = rng.normal(0, 0.5, (2, n_seeds, n_items))
        scores = item + seed[:, None] + noise + np.array([0.0, 0.3])[:, None, None]
        draws = resampled_means(scores, 200, rng)
        assert draws.mean(axis=0) == pytest.approx(scores.mean(axis=(1, 2)), abs=0.06)
        sums += [draws[:, 0].var(), (draws[:, 1] - draws[:, 0]).var(), 1]
    one, difference = sums[:2] / sums[2]
    true = 1 / n_items + 0.05**2 / n_seeds + 0.25 / n_seeds / n_items
    assert true < one < 1.4 * true
    shared = 2 * 0.25 / n_seeds / n_items  # what settings have in common is gone
    assert 0.9 * shared < difference < 3.5 * shared  # the interaction counts up to three times: rather too wide


def test_many_items_are_weighted_in_groups_that_change_no_mean() -> None:
    scores = (np.random.default_rng(2).random((2, 1, 12_345)) < 0.8).astype(np.float64)
    draws = resampled_means(scores, 300, np.random.default_rng(3))
    assert draws.mean(axis=0) == pytest.approx(scores.mean(axis=(1, 2)), abs=0.001)
    assert draws.std(axis=0) == pytest.approx(np.full(2, (0.16 / 12_345) ** 0.5), rel=0.2)


def test_items_that_are_all_alike_are_not_certain() -> None:
    right = np.ones((2, 3, 40))
    assert resampled_means(right, 50, np.random.default_rng(0)).std() < 1e-12
    spread = resampled_means(right, 2000, np.random.default_rng(0), rights=True)
    assert (spread[:, 0] - spread[:, 1]).std() == pytest.approx(1 / 42, rel=0.1)  # Agresti and Min's


def test_held_out_splits_overlap_and_vary_more() -> None:
    scores = np.random.default_rng(4).normal(0, 1, (1, 10, 1))
    plain, overlapping = (
        resampled_means(scores, 4000, np.random.default_rng(5), heldout=share).std() for share in (0.0, 0.2)
    )
    assert overlapping / plain == pytest.approx((1 + 10 * 0.25) ** 0.5, rel=0.05)
