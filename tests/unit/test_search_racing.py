"""Early stop over seeds: the signed-rank test's smallest p-values are known by counting signs."""

import pytest

from crowdsweep.search.racing import is_hopeless


def by_seed(*scores: float) -> dict[int, float]:
    return dict(enumerate(scores))


BEST = by_seed(0.90, 0.91, 0.92, 0.93, 0.94)
WORSE = by_seed(0.80, 0.82, 0.84, 0.86, 0.88)


def test_a_point_that_loses_on_every_seed_is_hopeless_from_the_fourth_on() -> None:
    # n losses in a row have p = 1 / 2**n: 1/8 at three seeds, 1/16 at four.
    for n, hopeless in [(1, False), (2, False), (3, False), (4, True), (5, True)]:
        first = dict(list(WORSE.items())[:n])
        assert is_hopeless(first, BEST) is hopeless
    assert not is_hopeless(dict(list(WORSE.items())[:4]), BEST, p=1 / 16)
    assert is_hopeless(dict(list(WORSE.items())[:3]), BEST, p=0.13)


def test_the_goal_turns_it_round() -> None:
    assert is_hopeless(BEST, WORSE, goal="minimize")
    assert not is_hopeless(WORSE, BEST, goal="minimize")
    assert not is_hopeless(BEST, WORSE)


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({}, BEST),
        (WORSE, {}),
        ({10: 0.1, 11: 0.1, 12: 0.1, 13: 0.1}, BEST),  # other seeds: nothing to compare
        (BEST, BEST),
        (by_seed(0.8, 0.8, 0.8, 0.8, float("nan")), BEST),
    ],
)
def test_no_evidence_is_no_verdict(scores: dict[int, float], best: dict[int, float]) -> None:
    assert not is_hopeless(scores, best)


def test_a_better_mean_is_never_hopeless() -> None:
    # Slightly worse on nine seeds, far better on one.
    scores = dict.fromkeys(range(9), 0.899) | {9: 1.0}
    assert not is_hopeless(scores, dict.fromkeys(range(10), 0.9))
    assert is_hopeless(scores | {9: 0.9}, dict.fromkeys(range(10), 0.9))
