"""The page that is written beside a driver: what it hears, and that nobody waits for it."""

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from journals import folded, made_up_sweep, made_up_trials

from crowdsweep.analysis.underway.snapshot import SweepFollower
from crowdsweep.record.events import BatchLost, SweepStarted, TrialFinished, TrialPlanned, TrialProgressed, TrialStarted
from crowdsweep.record.journal import Journal
from crowdsweep.views.live import LivePage

MODELS = [{"name": "a", "label": "a", "params": {}}]


def events(n: int = 3):
    trials = made_up_trials("a", "d", [{"dev_accuracy": 0.8 + 0.01 * seed} for seed in range(n)])
    return made_up_sweep(trials, models=MODELS, status=None)


def test_what_runs_is_known_with_its_slot_and_curve() -> None:
    begun, *others = events()
    keys = [event.spec.key for event in others if isinstance(event, TrialPlanned)]
    finish = {event.result.key: event for event in others if isinstance(event, TrialFinished)}
    watch = SweepFollower(lambda: folded([begun]), clock=lambda: 0.0)
    for event in (begun, *(event for event in others if isinstance(event, TrialPlanned))):
        watch.take(event)
    for number, key in enumerate(keys):
        watch.take(TrialStarted(key=key, slot=f"slot {number}"))
        for step in range(1, 4):
            watch.take(TrialProgressed(key=key, step=step, objective=0.0, score=0.1 * step if step != 2 else None))
    now = watch.now(4)
    assert [(trial.model, trial.seed, trial.slot, trial.step) for trial in now.running] == [
        ("a", seed, f"slot {seed}", 3) for seed in range(3)
    ]
    assert now.running[0].curve == [(1, 0.1), (3, pytest.approx(0.3))]
    watch.take(finish[keys[0]])
    watch.take(BatchLost(keys=[keys[1]], reason="gone", slot="slot 1"))
    now = watch.now(4)
    assert [trial.seed for trial in now.running] == [2]
    assert now.words.startswith("1 of 4 slots busy · 0:00 elapsed")
    assert now.words.endswith("1 lost")


def test_a_long_curve_is_told_thinned_with_its_last_point() -> None:
    begun, planned, *_ = events(1)
    assert isinstance(planned, TrialPlanned)
    watch = SweepFollower(lambda: folded([begun]), clock=lambda: 0.0)
    watch.take(begun)
    watch.take(planned)
    for step in range(1, 1001):
        watch.take(TrialProgressed(key=planned.spec.key, step=step, objective=0.0, score=step / 1000))
    (trial,) = watch.now(1).running
    assert len(trial.curve) <= 60
    assert trial.curve[0] == (1, 0.001)
    assert trial.curve[-1] == (1000, 1.0)


def until(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_process_writes_the_page_and_ends_before_the_driver_goes_on(tmp_path: Path) -> None:
    journal, told = Journal(tmp_path), list[str]()
    begun, *others = events()
    page = LivePage(tmp_path, look=lambda: journal.state, slots=lambda: 3, tell=told.append)
    journal.handle_many([begun])
    page.handle(begun)
    assert isinstance(begun, SweepStarted)
    journal.handle_many(others)
    until(lambda: told)
    assert told == [f"live page: {(tmp_path / 'report.html').as_uri()}"]
    html = (tmp_path / "report.html").read_text()
    assert 'data-refresh="10"' in html
    assert '<section id="underway"' in html
    page.close()
    page.close()
    journal.close()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".crowdsweep")) == [
        ".crowdsweep.json"
    ]


@pytest.mark.long
def test_a_process_that_cannot_write_is_told_of_once_and_costs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path)
    begun, *others = events()
    journal.handle_many([begun])
    (tmp_path / "report.html").write_text("a person's")
    page = LivePage(
        tmp_path,
        look=lambda: journal.state,
        slots=lambda: 3,
        tell=lambda _: None,
        clock=count(0.0, 9.0).__next__,
    )
    page.handle(begun)
    until(lambda: "no longer kept up to date" in caplog.text)
    for event in others:
        page.handle(event)
    page.close()
    journal.close()
    assert caplog.text.count("no longer kept up to date") == 1
    assert "report.html would be overwritten" in caplog.text
    assert (tmp_path / "report.html").read_text() == "a person's"
