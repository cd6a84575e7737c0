"""While a search has points to propose, the time left is a range, or the least: nobody knows how slow points can be."""

from dataclasses import replace

import pytest
from mirror_checks import ok, spec, started

from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.analysis.underway.time_left import Remaining
from crowdsweep.record.events import TrialPlanned, TrialStarted
from crowdsweep.record.plan_record import CellRecord, PlanRecord
from crowdsweep.units import left_words

POINTS, SEEDS = 20, 3


class Searching:
    """A search of points whose seconds are given, three seeds each; two cells are fixed beside it."""

    def __init__(self, fixed: int = 0) -> None:
        self.now = 0.0
        self.progress = Progress(clock=lambda: self.now)
        place = {"dataset": "digits", "dataset_params": {"annotators": 100}, "metric": "m", "goal": "maximize"}
        search = CellRecord(key="s", label="cmm", n_trials=POINTS * SEEDS, points=POINTS, **place)
        cells = [CellRecord(key="f", label="vote", n_trials=fixed, **place)] if fixed else []
        plan = PlanRecord(cells=cells, searches=[search], n_trials=POINTS * SEEDS + fixed)
        self.progress.take(replace(started(), plan=plan))

    def point(self, number: int, seconds: float) -> Remaining:
        for seed in range(SEEDS):
            one = spec(seed, model="cmm", phase="search", groups=number)
            self._run(one, seconds, search="s")
        left = self.progress.left()
        assert left is not None
        return left

    def fixed(self, seed: int, seconds: float) -> None:
        self._run(spec(seed, model="vote"), seconds)

    def _run(self, one, seconds: float, search: str = "") -> None:
        label = "cmm" if search else "vote"
        self.progress.take(TrialPlanned(spec=one, label=label, search=search))
        self.progress.take(TrialStarted(key=one.key, slot="slot 0"))
        self.now += seconds
        done = ok(one.key)
        self.progress.take(replace(done, result=replace(done.result, wall_s=seconds)))


def test_before_a_few_points_have_ended_it_is_the_least() -> None:
    search = Searching(fixed=30)
    for seed in range(10):
        search.fixed(seed, 2.0)
    for number in range(2):
        left = search.point(number, 5.0)
        assert left.most_s == float("inf")
        assert left.seconds == pytest.approx(20 * 2.0, abs=25)  # the twenty fixed ones alone are sure


def test_points_of_different_length_make_a_range_that_holds_what_it_takes() -> None:
    seconds = [1.0, 8.0, 2.0, 6.0, 1.5, 7.0, 3.0, 5.0] * 3
    search = Searching()
    for number in range(POINTS):
        left = None if number == POINTS - 1 else search.point(number, seconds[number])
        truly = SEEDS * sum(seconds[number + 1 : POINTS])
        if left is not None and number >= 4:
            assert left.most_s is not None
            assert 0.6 * left.seconds <= truly <= 1.5 * left.most_s
            assert left.most_s > left.seconds


def test_points_that_become_slower_are_told_before_they_come_as_far_as_that_shows() -> None:
    search = Searching()
    shown = [search.point(number, 1.0 + number) for number in range(POINTS - 1)]
    most = [left.most_s for left in shown[3:]]
    truly = [SEEDS * sum(1.0 + later for later in range(number + 1, POINTS)) for number in range(3, POINTS - 1)]
    assert all(left.most_s is not None for left in shown)
    # It ends: the last range is within a factor of two of what is left.
    assert most[-1] is not None
    assert 0.5 * truly[-1] <= most[-1] <= 2 * truly[-1]


def test_when_all_points_are_proposed_there_is_no_range() -> None:
    search = Searching()
    for number in range(POINTS - 1):
        search.point(number, 1.0 + number % 3)
    for seed in range(SEEDS):
        one = spec(seed, model="cmm", phase="search", groups=POINTS - 1)
        search.progress.take(TrialPlanned(spec=one, label="cmm", search="s"))
    left = search.progress.left()
    assert left is not None
    assert left.most_s is None


@pytest.mark.parametrize(
    ("least", "most", "words"),
    [
        (130.0, None, "about 2 min"),
        (130.0, 290.0, "2 to 5 min"),
        (41.0, 130.0, "40 s to 2 min"),
        (130.0, 131.0, "about 2 min"),
        (130.0, float("inf"), "at least 2 min"),
    ],
)
def test_ranges_in_words(least: float, most: float | None, words: str) -> None:
    assert left_words(least, most) == words
