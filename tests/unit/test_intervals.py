"""Means with their uncertainty: over seeds, over seeds and items, over held-out splits that overlap."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from crowdsweep.metrics.intervals import (
    StandardError,
    collapsed,
    crossed_standard_error,
    estimate,
    few_seeds_interval,
    interval,
    p_value,
    seed_standard_error,
    share_interval,
    split_standard_error,
)
from crowdsweep.metrics.metric_table import Goal


def test_the_interval_of_differences_is_scipys() -> None:
    values = [0.81, 0.83, 0.80, 0.86, 0.82]
    found = estimate(values)
    low, high = stats.t.interval(0.95, 4, loc=found.mean, scale=stats.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.sd == pytest.approx(0.0230217, abs=1e-6)  # by hand: √(.00212 / 4)
    assert found.varies == "seeds"


def test_one_seed_has_no_interval_and_equal_seeds_say_so() -> None:
    one, equal = estimate([0.5]), estimate([0.5] * 4)
    assert (one.low, one.high, one.sd, one.constant) == (None, None, None, False)
    assert (equal.low, equal.high, equal.sd, equal.constant) == (None, None, 0.0, True)


@pytest.mark.parametrize("values", [[], [0.1, float("nan")], [float("inf")]])
def test_no_estimate_of_nothing_or_of_what_is_not_finite(values: list[float]) -> None:
    with pytest.raises(ValueError, match="expected at least one value"):
        estimate(values)


@pytest.mark.parametrize(
    ("metric", "values", "low", "high"),
    [
        ("test_accuracy", [0.99, 0.999, 0.90], 0.0, 1.0),
        ("heldout_loglik", [-0.1, -0.9, -2.6], -np.inf, 0.0),
        ("test_kl", [0.01, 0.9, 0.02], 0.0, np.inf),
        ("js_annotators", [0.01, 0.3, 0.02], 0.0, 1.0),
        ("test_brier", [1.99, 1.2, 1.98], 0.0, 2.0),
    ],
)
def test_no_interval_leaves_the_range_of_its_metric(metric: str, values: list[float], low: float, high: float) -> None:
    bare, bounded = estimate(values), estimate(values, metric=metric)
    assert bare.low is not None and bare.high is not None  # noqa: PT018 - one thing: there is an interval
    assert bare.low < low or bare.high > high
    assert bounded.low is not None and bounded.high is not None  # noqa: PT018 - one thing: there is an interval
    assert low <= bounded.low <= max(bare.low, low)
    assert min(bare.high, high) <= bounded.high <= high


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize(
    ("metric", "draw", "low", "high"),
    [
        ("test_kl", lambda rng, shape: rng.exponential(0.1, shape), 0.0, np.inf),
        ("heldout_loglik", lambda rng, shape: -rng.exponential(1.0, shape), -np.inf, 0.0),
        ("test_macro_f1", lambda rng, shape: rng.beta(8, 1.5, shape), 0.0, 1.0),
        ("test_macro_f1", lambda rng, shape: rng.normal(0.8, 0.02, shape), 0.0, 1.0),
    ],
)
def test_of_three_seeds_the_range_of_the_metric_says_where_the_tail_is(
    n: int, metric: str, draw: Callable[..., np.ndarray], low: float, high: float
) -> None:
    """Student's alone covers 88 % of exponential scores; where nothing is skewed it is Student's."""
    rng = np.random.default_rng(n)
    values, true = draw(rng, (20_000, n)), float(draw(np.random.default_rng(9), (1_000_000,)).mean())
    below, above = few_seeds_interval(values, low, high)
    assert 0.925 < ((below <= true) & (true <= above)).mean() < 0.97
    one = estimate(values[0].tolist(), metric=metric)
    assert (one.low, one.high) == (pytest.approx(max(below[0], low)), pytest.approx(min(above[0], high)))


def test_of_seeds_on_a_bound_an_interval_stays_within_twice_students() -> None:
    values = [1.0, 1.0, 0.99]
    found, half = estimate(values, metric="test_macro_f1"), stats.t.ppf(0.975, 2) * stats.sem(values)
    assert (found.low, found.high) == (pytest.approx(np.mean(values) - 2 * half), 1.0)


def test_hall_transforms_as_its_paper_says() -> None:
    """The ends of Hall's interval, put through his transformation g(t) = t + a t² / 3 + a² t³ / 27 + a / 6, are the
    quantiles of t; the interval has the farther of them and Student's."""
    values = np.array([0.1, 0.2, 0.15, 0.12, 0.9, 0.3])
    n, mean, error = len(values), values.mean(), stats.sem(values)
    third = np.sum((values - mean) ** 3) * n / ((n - 1) * (n - 2))
    a = third / values.std(ddof=1) ** 3 / np.sqrt(n)
    student = stats.t.ppf(0.975, n - 1)
    low, high = (float(end[0]) for end in interval(values.mean(keepdims=True), seed_standard_error(values[None])))
    assert low == pytest.approx(mean - student * error)  # the long tail is above: Hall's lower end is nearer
    t = (mean - high) / error
    assert t < -student
    assert t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6 == pytest.approx(-student)


def test_with_four_seeds_a_skewness_is_not_believed() -> None:
    values = np.array([[0.1, 0.2, 0.15, 0.9]])
    assert seed_standard_error(values).skewness[0] == 0
    assert seed_standard_error(np.append(values, [[0.12]], axis=1)).skewness[0] > 0


def test_overlapping_splits_widen_the_interval_by_nadeau_and_bengio() -> None:
    values = [-0.6, -0.62, -0.55, -0.58, -0.66, -0.6, -0.59, -0.63, -0.61, -0.57]
    plain = estimate(values)
    wide = estimate(values, metric="heldout_loglik", heldout=0.1)
    assert plain.low is not None and wide.low is not None  # noqa: PT018 - one thing: there are intervals
    assert (wide.mean - wide.low) / (plain.mean - plain.low) == pytest.approx((1 + 10 * 0.1 / 0.9) ** 0.5)
    assert wide.varies == "held-out splits"
    assert split_standard_error(np.array([values]), 0.1).freedom[0] == 9


def _naive_crossed_variance(scores: np.ndarray) -> float:
    """Variance of the grand mean with seeds and items random, from the mean squares of a two-way layout."""
    n_seeds, n_items = scores.shape
    grand = scores.mean()
    seeds = sum((scores[s].mean() - grand) ** 2 for s in range(n_seeds)) * n_items / (n_seeds - 1)
    items = sum((scores[:, i].mean() - grand) ** 2 for i in range(n_items)) * n_seeds / (n_items - 1)
    rest = sum(
        (scores[s, i] - scores[s].mean() - scores[:, i].mean() + grand) ** 2
        for s in range(n_seeds)
        for i in range(n_items)
    ) / ((n_seeds - 1) * (n_items - 1))
    return (seeds + items - rest) / (n_seeds * n_items)


def test_seeds_and_items_are_a_two_way_layout() -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(size=(4, 1)) + rng.normal(size=(1, 7)) + 0.3 * rng.normal(size=(4, 7))
    error = crossed_standard_error(scores[None])
    assert error.variance[0] == pytest.approx(_naive_crossed_variance(scores))
    found = estimate(scores.mean(axis=1).tolist(), item_scores=scores)
    assert (found.varies, found.n_items) == ("seeds and items", 7)


def test_where_seeds_change_nothing_the_items_alone_vary() -> None:
    right = np.repeat(np.arange(20)[None] < 15, 3, axis=0).astype(np.float32)
    found = estimate([0.75] * 3, metric="test_accuracy", item_scores=right)
    assert (found.varies, found.constant) == ("items", True)
    assert found.low is not None and found.high is not None  # noqa: PT018 - one thing: there is an interval
    assert 0.4 < found.low < 0.6 < 0.85 < found.high < 0.99
    assert crossed_standard_error(right[None, :1]).variance == pytest.approx(
        crossed_standard_error(right[None]).variance
    )


@pytest.mark.parametrize("n_items", [100, 800])
def test_few_items_that_differ_are_little_evidence_as_in_mcnemars_exact_test(n_items: int) -> None:
    """For every split of up to 30 items on which two models differ, both tests say nearly the same."""
    for differing in range(1, 31):
        for against in range(differing // 2 + 1):
            scores = np.zeros((1, 1, n_items))
            scores[0, 0, :differing] = 1
            scores[0, 0, :against] = -1
            p = float(p_value(scores.mean(axis=(1, 2)), crossed_standard_error(scores))[0])
            exact = stats.binomtest(against, differing).pvalue
            assert 0.65 * min(exact, 0.3) < p, f"{against} of {differing}"
            assert (p < 0.05) == (exact < 0.05) or 0.03 < exact < 0.07, f"{against} of {differing}"


def test_nothing_varies_nothing_is_told() -> None:
    error = crossed_standard_error(np.ones((1, 3, 10)))
    assert p_value(np.array([0.0]), error)[0] == 1
    assert estimate([1.0] * 3, item_scores=np.ones((3, 10))).low is None


@pytest.mark.parametrize(("right", "n_items"), [(60, 60), (57, 60), (39, 40), (0, 12), (1, 12), (650, 800)])
def test_of_items_right_or_wrong_it_is_wilsons_with_students_quantile(right: int, n_items: int) -> None:
    scores = (np.arange(n_items) < right).astype(np.float64)
    found = estimate([scores.mean()] * 2, metric="test_accuracy", item_scores=np.stack([scores] * 2))
    assert found.low is not None and found.high is not None  # noqa: PT018 - one thing: there is an interval
    assert found.low <= found.mean <= found.high
    quantile = stats.t.ppf(0.975, n_items - 1)
    for end in (found.low, found.high):  # its ends are the shares from which what was seen is so far off
        if 1e-9 < end < 1 - 1e-9:
            deviation = np.sqrt(end * (1 - end) / (n_items if right in (0, n_items) else n_items - 1))
            assert abs(scores.mean() - end) / deviation == pytest.approx(quantile)
    exact = stats.binomtest(right, n_items).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.06)


@pytest.mark.parametrize(
    ("share", "n_items"),
    [
        *((0.9, 60), (0.99, 30)),
        *(
            pytest.param(share, n_items, marks=pytest.mark.long)
            for share in (0.6, 0.9, 0.95, 0.99)
            for n_items in (30, 60, 200)
        ),
    ],
)
def test_the_interval_of_a_share_covers_and_is_no_wider_than_it_must_be(share: float, n_items: int) -> None:
    rng = np.random.default_rng(n_items)
    right = (rng.random((2000, 1, n_items)) < share).astype(np.float64)
    ends = np.array([share_interval(one) for one in right])
    assert ((ends[:, 0] <= share) & (share <= ends[:, 1])).mean() > 0.93
    exact = np.array([tuple(stats.binomtest(int(one.sum()), n_items).proportion_ci()) for one in right[:200]])
    assert (ends[:200, 1] - ends[:200, 0]).mean() < 1.1 * (exact[:, 1] - exact[:, 0]).mean()


def test_an_item_that_is_right_in_part_is_as_good_as_items() -> None:
    scores = np.append(np.ones(57), [0.5, 0.0, 0.0])
    tied = estimate([scores.mean()] * 2, metric="test_accuracy", item_scores=np.stack([scores] * 2))
    assert tied.low is not None and tied.high is not None  # noqa: PT018 - one thing: there is an interval
    low, high = stats.binomtest(57, 60).proportion_ci()
    assert low < tied.low < tied.mean < tied.high < 1.0
    assert tied.high - tied.low < high - low


def test_seeds_that_differ_widen_the_interval_of_a_share() -> None:
    rng = np.random.default_rng(0)
    steady = rng.random((1, 200)) < 0.8
    same, moving = np.repeat(steady, 4, axis=0), rng.random((4, 200)) < np.array([[0.95], [0.65], [0.85], [0.75]])
    widths = [np.diff(share_interval(scores.astype(np.float64)))[0] for scores in (same, moving)]
    assert widths[1] > 2 * widths[0]


@pytest.mark.parametrize(
    ("values", "goal", "expected"),
    [
        ([0.93, 0.94, 0.92, 0.24, 0.95], "maximize", 1),
        ([0.93, 0.94, 0.92, 0.24, 0.41, 0.95], "maximize", 2),
        ([0.93, 0.24, 0.25, 0.24, 0.26], "maximize", 4),  # most collapsed, and one did not
        ([0.75, 0.783, 0.90, 0.783, 0.767], "maximize", 0),  # one was lucky
        ([0.93, 0.94, 0.92, 0.88, 0.95], "maximize", 0),  # worse, but by less than a tenth of the range
        ([0.95, 0.80, 0.65, 0.50, 0.35], "maximize", 0),  # bad everywhere, and no gap
        ([0.93, 0.24, 0.94], "maximize", 0),  # two seeds are no group
        ([0.93, 0.93, 0.24, 0.93], "maximize", 1),
        ([0.9] * 5, "maximize", 0),
        ([0.07, 0.06, 0.75, 0.06, 0.07], "minimize", 1),
        ([0.5], "maximize", 0),
    ],
)
def test_seeds_that_collapsed_are_counted(values: list[float], goal: Goal, expected: int) -> None:
    assert collapsed(np.array([values]), goal, 0.0, 1.0).tolist() == [expected]


def test_without_a_range_half_of_the_median_is_far() -> None:
    near, far = [-0.58, -0.59, -0.6, -0.8, -0.58], [-0.58, -0.59, -0.6, -1.4, -0.58]
    assert collapsed(np.array([near, far]), "maximize", -np.inf, 0.0).tolist() == [0, 1]
    assert estimate(far, metric="heldout_loglik").collapsed == 1


@pytest.mark.parametrize("n", [5, 10, 20])
@pytest.mark.parametrize(
    ("draw", "most"),
    [
        (lambda rng, size: rng.normal(0.9, 0.03, size), 0.001),
        (lambda rng, size: 1 - rng.gamma(2, 0.02, size), 0.02),
        (lambda rng, size: rng.beta(8, 1.5, size), 0.15),
    ],
    ids=["normal", "skewed", "beta"],
)
def test_a_collapse_is_seldom_seen_where_there_is_none(
    n: int, draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray], most: float
) -> None:
    found = collapsed(draw(np.random.default_rng(n), (4000, n)), "maximize", 0.0, 1.0)
    assert (found > 0).mean() <= most


def test_rows_are_computed_as_each_alone() -> None:
    scores = np.random.default_rng(2).normal(size=(3, 5, 8))
    together = crossed_standard_error(scores)
    for row in range(3):
        alone: StandardError = crossed_standard_error(scores[row : row + 1])
        found = [together.variance[row], together.freedom[row], together.skewness[row]]
        assert found == pytest.approx([alone.variance[0], alone.freedom[0], alone.skewness[0]])
