"""The statistics of the report against numbers printed elsewhere."""

import numpy as np
import pytest

from crowdsweep.analysis.paired import SeedScores, holm, paired_test
from crowdsweep.analysis.ranks import mean_ranks
from crowdsweep.metrics.rank_tests import critical_difference

# Student (1908): extra hours of sleep of ten patients under two drugs; R prints t = -4.0621, df = 9, p = 0.002833 and
# the interval (-2.4598858, -0.7001142) for first minus second.
_SLEEP_1 = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
_SLEEP_2 = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)

# Hollander and Wolfe (1973), p. 29: Hamilton depression scale of nine patients at two visits; V = 40, p = 0.03906.
_DEPRESSION_1 = (1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30)
_DEPRESSION_2 = (0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29)

# Hollander and Wolfe (1973), p. 140: 22 players' times to round first base by three methods; chi² = 11.143,
# df = 2, p = 0.003805.
_ROUNDING = (
    "5.40 5.50 5.55  5.85 5.70 5.75  5.20 5.60 5.50  5.55 5.50 5.40  5.90 5.85 5.70  5.45 5.55 5.60  5.40 5.40 5.35 "
    "5.45 5.50 5.35  5.25 5.15 5.00  5.85 5.80 5.70  5.25 5.20 5.10  5.65 5.55 5.45  5.60 5.35 5.45  5.05 5.00 4.95 "
    "5.50 5.50 5.40  5.45 5.55 5.50  5.55 5.55 5.35  5.45 5.50 5.55  5.50 5.45 5.25  5.65 5.60 5.40  5.70 5.65 5.55 "
    "6.30 6.30 6.25"
)


def _by_seed(values: tuple[float, ...]) -> SeedScores:
    return SeedScores(by_seed=dict(enumerate(values)))


def test_paired_t_and_its_interval_are_students() -> None:
    # With 10 seeds Wilcoxon would be used for up to 25 comparisons; with more it cannot reject, and t is used.
    test = paired_test(_by_seed(_SLEEP_2), _by_seed(_SLEEP_1), comparisons=30)
    assert test.test == "paired t"
    assert test.p == pytest.approx(0.002833, abs=5e-7)
    assert test.difference is not None
    assert test.difference.mean == pytest.approx(1.58)
    assert test.difference.low == pytest.approx(0.7001142, abs=5e-8)
    assert test.difference.high == pytest.approx(2.4598858, abs=5e-8)


def test_wilcoxon_is_hollander_and_wolfes() -> None:
    test = paired_test(_by_seed(_DEPRESSION_1), _by_seed(_DEPRESSION_2), comparisons=1)
    assert test.test == "Wilcoxon"
    assert test.p == pytest.approx(0.0390625, abs=1e-12)


def test_friedman_is_hollander_and_wolfes() -> None:
    methods = ("round out", "narrow", "wide")
    times = np.array(_ROUNDING.split(), dtype=float).reshape(22, 3)
    ranks = mean_ranks([(f"player {n}", dict(zip(methods, own, strict=True))) for n, own in enumerate(times.tolist())])
    assert ranks is not None
    assert ranks.friedman is not None
    assert ranks.friedman.chi2 == pytest.approx(11.143, abs=5e-4)
    assert ranks.friedman.freedom == (2, 42)
    assert ranks.friedman.f == pytest.approx(21 * 11.143 / (44 - 11.143), abs=5e-4)
    assert list(ranks.ranks) == ["wide", "narrow", "round out"]


# Demšar (2006), Table 6: AUC of four variants of C4.5 on 14 datasets, with the ranks that the paper prints (its scores
# have more digits than it prints: two that look alike on voting are not).
_C45 = ("C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf")
_C45_RANKS = (
    "4 3 2 1  1 2 3 4  4 1 2 3  4 1 3 2  4 2 3 1  1 2.5 4 2.5  3 2 4 1  2.5 2.5 4 1  4 3 2 1  2.5 2.5 2.5 2.5  "
    "4 2.5 1 2.5  3 2 4 1  4 1 2 3  3 1 4 2"
)


def test_ranks_and_their_critical_difference_are_demsars() -> None:
    rows = np.array(_C45_RANKS.split(), dtype=float).reshape(14, 4)
    ranks = mean_ranks([(f"set {n}", dict(zip(_C45, own, strict=True))) for n, own in enumerate(rows.tolist())])
    assert ranks is not None
    assert ranks.friedman is not None
    assert ranks.critical is not None
    printed = {"C4.5+m+cf": 1.964, "C4.5+m": 2.000, "C4.5+cf": 2.893, "C4.5": 3.143}
    assert ranks.ranks == pytest.approx(printed, abs=5e-4)
    assert list(ranks.ranks) == list(printed)
    # The paper's χ² = 9.28 and F = 3.69 are without the correction for ties, which divides χ² by what they leave.
    ties = 3 * (2**3 - 2) + (4**3 - 4)
    uncorrected = ranks.friedman.chi2 * (1 - ties / (14 * (4**3 - 4)))
    assert uncorrected == pytest.approx(9.28, abs=5e-3)
    assert 13 * uncorrected / (42 - uncorrected) == pytest.approx(3.69, abs=5e-3)
    assert ranks.friedman.freedom == (3, 39)
    assert ranks.friedman.f == pytest.approx(13 * ranks.friedman.chi2 / (42 - ranks.friedman.chi2))
    assert ranks.critical.difference == pytest.approx(1.25, abs=5e-3)
    assert ranks.critical.joined == [(0, 3)], "the paper: Nemenyi's test finds none that differ, at 5 %"


def test_critical_values_are_those_of_demsars_table_5() -> None:
    """The table's q of two to ten models, cut after three digits."""
    printed = (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164)
    found = [critical_difference(k, 6) * 6 / (k * (k + 1)) ** 0.5 for k in range(2, 11)]
    assert found == pytest.approx(printed, abs=1.1e-3)


def test_holm_is_the_textbooks() -> None:
    # Four hypotheses, by hand: .005 × 4, .01 × 3, then .03 × 2 = .06 carries over .04 × 1.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
