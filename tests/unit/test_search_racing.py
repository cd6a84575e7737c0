"""Early stop over seeds: the signed-rank test's smallest p-values are known by counting signs."""

import pytest

from crowdsweep.search.racing import should_prune


def by_seed(*scores: float) -> dict[int, float]:
    return dict(enumerate(scores))


BEST = by_seed(0.90, 0.91, 0.92, 0.93, 0.94)
WORSE = by_seed(0.80, 0.82, 0.84, 0.86, 0.88)


def test_a_point_that_loses_on_every_seed_is_pruned_from_the_fourth_on() -> None:
    # n losses in a row have p = 1 / 2**n: 1/8 at three seeds, 1/16 at four.
    for n, pruned in [(1, False), (2, False), (3, False), (4, True), (5, True)]:
        first = dict(list(WORSE.items())[:n])
        assert should_prune(first, BEST) is pruned
    assert not should_prune(dict(list(WORSE.items())[:4]), BEST, p=1 / 16)
    assert should_prune(dict(list(WORSE.items())[:3]), BEST, p=0.13)


def test_the_goal_turns_it_round() -> None:
    assert should_prune(BEST, WORSE, goal="minimize")
    assert not should_prune(WORSE, BEST, goal="minimize")
    assert not should_prune(BEST, WORSE)


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
    assert not should_prune(scores, best)


def test_a_better_mean_is_never_pruned() -> None:
    # Slightly worse on nine seeds, far better on one.
    scores = dict.fromkeys(range(9), 0.899) | {9: 1.0}
    assert not should_prune(scores, dict.fromkeys(range(10), 0.9))
    assert should_prune(scores | {9: 0.9}, dict.fromkeys(range(10), 0.9))
