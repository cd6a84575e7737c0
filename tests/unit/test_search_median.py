"""The median rule: what a fit has to reach is made of earlier fits alone, and what ends it is its best score so far."""

from collections.abc import Sequence
from typing import Any

import pytest

from crowdsweep.record.bar import TIE, Bar
from crowdsweep.record.result import Status, StoppedEarly, TrialResult
from crowdsweep.search.median import FEWEST_RIVALS, MedianRule

RULE = MedianRule(quantile=0.5, grace=0.3)
EVERY = 10


def fit(*scores: float, every: int = EVERY, **changes: Any) -> TrialResult:
    facts: dict[str, Any] = {"status": Status.OK, "watched": "dev_accuracy", "iterations": every * len(scores)}
    curve = [(every * (place + 1), score) for place, score in enumerate(scores)]
    return TrialResult(key="0" * 16, curve=curve, **{**facts, **changes})


def curve(*scores: float) -> list[tuple[int, float]]:
    return [(EVERY * (place + 1), score) for place, score in enumerate(scores)]


def bar_of(fits: Sequence[TrialResult], rule: MedianRule = RULE, goal: Any = "maximize") -> Bar | None:
    return rule.bar(fits, "dev_accuracy", goal)


def stops_at(bar: Bar | None, *scores: float) -> int | None:
    """The step at which a fit with these scores ends; None where it goes to its end."""
    assert bar is not None
    for n in range(1, len(scores) + 1):
        if (stop := bar.stop(curve(*scores[:n]))) is not None:
            return stop.step
    return None


THREE = [fit(0.1, 0.2, 0.3, 0.4, 0.5), fit(0.2, 0.3, 0.4, 0.5, 0.6), fit(0.3, 0.4, 0.5, 0.6, 0.7)]


def test_a_fit_is_held_against_the_median_at_the_same_step() -> None:
    bar = bar_of(THREE)
    assert bar == Bar(steps=[15, 20, 30, 40], values=[0.2, 0.3, 0.4, 0.5], end=50, higher_is_better=True, n_rivals=3)
    assert stops_at(bar, 0.0, 0.29) == 20
    assert stops_at(bar, 0.0, 0.3, 0.39, 0.9) == 30
    assert stops_at(bar, 0.0, 0.3, 0.4, 0.5, 0.5) is None


def test_its_best_score_counts_and_not_its_latest() -> None:
    assert stops_at(bar_of(THREE), 0.5, 0.1, 0.1, 0.1, 0.1) is None
    bar = bar_of(THREE)
    assert bar is not None
    assert bar.stop(curve(0.1, 0.2)) == StoppedEarly(step=20, best=0.2, bar=0.3, n_rivals=3)


def test_less_is_better_where_the_metric_says_so() -> None:
    losses = [fit(*(1 - score for _, score in one.curve)) for one in THREE]
    bar, mirrored = bar_of(losses, goal="minimize"), bar_of(THREE)
    assert bar is not None
    assert mirrored is not None
    assert list(bar.values) == pytest.approx([1 - value for value in mirrored.values])
    assert stops_at(bar, 1.0, 0.71) == 20
    assert stops_at(bar, 0.5, 0.9, 0.9, 0.9, 0.9) is None
    low, high = (bar_of(losses, MedianRule(quantile=q, grace=0.3), "minimize") for q in (0.1, 0.9))
    assert low is not None
    assert high is not None
    assert all(lenient > strict for lenient, strict in zip(low.values, high.values, strict=True))


@pytest.mark.parametrize(("grace", "first"), [(0.0, 10), (0.3, 20), (0.4, 20), (0.41, 30)])
def test_the_grace_is_a_share_of_the_usual_length(grace: float, first: int) -> None:
    """Its usual length is 50 steps, whatever one fit of 500 does."""
    long = fit(*[0.3] * 50)
    bar = bar_of([*THREE, long], MedianRule(quantile=0.5, grace=grace))
    assert stops_at(bar, *[0.0] * 10) == first


def test_no_fit_is_stopped_where_nothing_is_left_to_save() -> None:
    """At the last score of the longest earlier fit, and beyond."""
    assert stops_at(bar_of(THREE), 0.3, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5) is None
    assert bar_of([fit(0.5), fit(0.6), fit(0.7)]) is None


def test_the_last_score_of_a_fit_that_ended_by_itself_stands_for_what_follows() -> None:
    bar = bar_of([fit(0.5), fit(0.5), fit(0.1, 0.2, 0.3, 0.4)])
    assert bar == Bar(steps=[10], values=[0.5], end=40, higher_is_better=True, n_rivals=3)


@pytest.mark.parametrize(
    "left_out",
    [
        fit(0.9, 0.9, 0.9, status=Status.STOPPED),
        fit(0.9, 0.9, 0.9, watched="dev_kl"),
        fit(0.9, float("nan"), 0.9),
        fit(watched=""),
    ],
)
def test_only_whole_fits_with_a_curve_of_the_metric_count(left_out: TrialResult) -> None:
    assert bar_of([*THREE, left_out]) == bar_of(THREE)
    assert bar_of([*THREE[: FEWEST_RIVALS - 1], left_out]) is None


def test_the_order_of_the_earlier_fits_does_not_matter() -> None:
    assert bar_of(THREE[::-1]) == bar_of(THREE)


def test_scores_that_differ_by_rounding_are_equal() -> None:
    same = [fit(*[0.5] * 5)] * 3
    assert stops_at(bar_of(same), *[0.5 * (1 - TIE / 2)] * 5) is None
    assert stops_at(bar_of(same), *[0.5 * (1 - 2 * TIE)] * 5) == 20


def test_a_fit_without_a_finite_score_goes_on() -> None:
    """Its end will say that it failed."""
    bar = bar_of(THREE)
    assert stops_at(bar, float("nan"), float("nan"), float("nan")) is None
    assert stops_at(bar, 0.0, float("nan"), 0.1) == 20


def test_thinned_curves_are_read_at_their_latest_step() -> None:
    """Curves of long fits keep a hundred points: those between have the score before."""
    thin = [fit(0.1, 0.5, every=30), fit(0.2, 0.6, every=30), fit(0.3, 0.7, every=30)]
    bar = bar_of(thin, MedianRule(quantile=0.5, grace=0.0))
    assert bar == Bar(steps=[30], values=[0.2], end=60, higher_is_better=True, n_rivals=3)
    assert stops_at(bar, 0.0, 0.0, 0.1, 0.1) == 30


def test_a_result_that_was_stopped_early_says_that_it_was_stopped() -> None:
    stop = StoppedEarly(step=1, best=0.0, bar=1.0, n_rivals=3)
    with pytest.raises(ValueError, match=r"expected trial 0+ to be stopped"):
        fit(0.1, stopped_early=stop)
