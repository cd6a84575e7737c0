"""The time left that is shown: it falls, and where it must rise it says why."""

from dataclasses import replace

import pytest
from mirror_checks import ok, spec, started

from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.analysis.underway.time_left import TimeLeft, Work
from crowdsweep.record.events import BatchLost, TrialPlanned, TrialStarted
from crowdsweep.record.plan_record import CellRecord, PlanRecord
from crowdsweep.units import about_words, clock_words


def test_what_is_left_is_weighed_by_what_each_model_takes() -> None:
    work = Work()
    for _ in range(10):
        work.add(("fast", "d"), 1.0)
    work.add(("slow", "d"), 100.0)
    # 110 seconds of trials took 55: two are done side by side.
    assert work.left_s({("fast", "d"): 4, ("slow", "d"): 2}, 55.0) == pytest.approx((4 + 200) / 2)
    assert work.left_s({("new", "d"): 1}, 55.0) == pytest.approx(110 / 11 / 2), "as the others on that dataset"
    assert Work().left_s({("fast", "d"): 4}, 55.0) is None


def test_it_never_rises_by_chance() -> None:
    left = TimeLeft()
    shown: list[float] = []
    for second in range(200):
        left.update(200.0 - second + (20 if second % 2 else 0), float(second), lambda: pytest.fail("nothing is longer"))
        assert left.shown_s is not None
        shown.append(left.shown_s)
    assert shown == sorted(shown, reverse=True)
    assert shown[-1] < 40


def test_where_it_was_far_too_short_it_rises_and_says_why_until_it_has_come_down_again() -> None:
    left = TimeLeft()
    left.update(30.0, 0.0, lambda: "")
    for second in range(1, 120):
        left.update(600.0, float(second), lambda: "cmm takes long")
    assert left.shown_s == pytest.approx(600.0, rel=0.35)
    assert left.why == "cmm takes long"
    for second in range(120, 400):
        left.update(20.0, float(second), lambda: "")
    assert left.why == ""


def test_little_is_left_as_soon_as_little_is_known_to_be_left() -> None:
    left = TimeLeft()
    for second in range(40):  # the first trials were slow
        left.update(300.0 - 5 * second, float(second), lambda: "")
    assert left.shown_s is not None
    assert left.shown_s > 60
    for second in range(40, 43):  # then all but two came at once
        left.update(3.0, float(second), lambda: "")
    assert left.shown_s < 10
    left.update(0.0, 43.0, lambda: "")
    assert left.shown_s == 0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_sweep_says_which_model_makes_it_longer_and_when_actors_were_lost() -> None:
    clock = Clock()
    progress = Progress(clock=clock)
    cells = [
        CellRecord(key=spec(0, model=model).cell_key, label=model, dataset="digits", dataset_params={"annotators": 100},
                   metric="m", goal="maximize", n_trials=100)
        for model in ("fast", "slow")
    ]  # fmt: skip
    begun = started()
    progress.take(type(begun)(**{**vars(begun), "plan": PlanRecord(cells=cells, n_trials=200)}))

    def run(model: str, seed: int, seconds: float) -> None:
        one = spec(seed, model=model)
        progress.take(TrialPlanned(spec=one, label=model))
        progress.take(TrialStarted(key=one.key, slot="slot 0"))
        clock.now += seconds
        done = ok(one.key)
        progress.take(replace(done, result=replace(done.result, wall_s=seconds)))

    assert progress.left() is None
    for seed in range(100):
        run("fast", seed, 0.1)
        before = progress.left()
    assert before is not None
    assert before[0] == pytest.approx(10, rel=0.3)
    for seed in range(10):
        run("slow", seed, 10.0)
        now = progress.left()
    assert now is not None
    assert now[0] > 300
    assert now[1] == "slow on digits (annotators 100) takes long"
    progress.take(BatchLost(keys=(), reason="node died", slot="slot 0"))
    for seed in range(10, 14):
        run("slow", seed, 100.0)
        now = progress.left()
    assert now is not None
    assert now[1] == "actors were lost"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3, "10 s"), (44, "40 s"), (59, "1 min"), (150, "2 min"), (1000, "15 min"), (3580, "1 h"), (5500, "1.5 h"),
     (40_000, "11 h"), (200_000, "2 days")],
)  # fmt: skip
def test_rough_times_are_told_in_steps(seconds: float, words: str) -> None:
    assert about_words(float(seconds)) == words


def test_exact_times_are_told_as_a_clock_does() -> None:
    assert [clock_words(seconds) for seconds in (5.4, 65.0, 3725.0)] == ["0:05", "1:05", "1:02:05"]
