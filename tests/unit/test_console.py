"""What a person sees of a sweep: plain lines, a live view, nothing at all, and never an exception."""

import contextlib
import io
import os
import pty
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mirror_checks import failed, ok, one_of_each, spec, started
from rich.console import Console

from crowdsweep.analysis.underway.best import Best
from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.record.events import (
    Event,
    SweepFinished,
    SweepStatus,
    TrialFinished,
    TrialPlanned,
    TrialProgressed,
    TrialStarted,
)
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord, DatasetRecord, PlanRecord
from crowdsweep.record.result import Status
from crowdsweep.views.terminal.live import ConsoleMirror, Terminal


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def a_sweep() -> list[Event]:
    """Three trials of two models; the second model is better; one trial fails."""
    first, second, third = spec(0, model="[red]dl-ds"), spec(1, model="[red]dl-ds"), spec(0, model="cmm")
    events: list[Event] = [started()]
    for one, end in (
        (first, ok(first.key, test_accuracy=0.5, dev_kl=9.0)),
        (second, failed(second.key)),
        (third, ok(third.key, test_accuracy=0.75)),
    ):
        events += [TrialPlanned(spec=one), TrialStarted(key=one.key, slot="slot 0"), end]
    return events


def lines(events: list[Event], *, seconds_apart: float, **options: object) -> list[str]:
    out, clock = io.StringIO(), Clock()
    mirror = ConsoleMirror(console=Console(file=out, soft_wrap=True), clock=clock, **options)
    for event in events:
        mirror.handle(event)
        clock.now += seconds_apart
    mirror.close()
    return out.getvalue().splitlines()


def test_plain_lines() -> None:
    told = lines([*a_sweep(), SweepFinished(status=SweepStatus.DONE, time=0.0)], seconds_apart=10.0)
    place = "digits (annotators 100)"
    assert told[0] == "a-sweep: 4 trials"
    assert f"failed: [red]dl-ds on {place}, seed 1: NonFiniteObjective: the objective is nan" in told
    assert "1 of 4 trials, 1 running; 0:50 elapsed, about 1 min left" in told
    assert [line for line in told if "more than" in line] == [
        f"that is more than estimated before: [red]dl-ds on {place} takes long"
    ], "once"
    assert f"best on {place}: [red]dl-ds, test accuracy 50.0 %" in told
    assert f"best on {place}: cmm, test accuracy 75.0 %" in told
    assert told[-1] == "a-sweep: finished; 3 of 4 trials, 1 failed; 1:40"
    assert max(map(len, told)) < 100


def test_a_best_model_is_told_when_it_changes() -> None:
    events: list[Event] = [started()]
    for seed in range(30):
        one = spec(seed)
        events += [TrialPlanned(spec=one), ok(one.key, test_accuracy=0.7 + seed / 1000)]
    told = lines(events, seconds_apart=10.0)
    assert sum(line.startswith("best on") for line in told) == 1


def test_the_longer_a_sweep_lasts_the_rarer_are_its_lines() -> None:
    events: list[Event] = [started()]
    for seed in range(1000):
        events += [TrialPlanned(spec=spec(seed)), ok(spec(seed).key)]
    told = [line for line in lines(events, seconds_apart=5.0) if "elapsed" in line]
    assert 160 <= len(told) <= 260, "one a minute of 10,000 seconds, and more at first"


def test_plain_lines_do_not_flood() -> None:
    events: list[Event] = [started()]
    for seed in range(100):
        events += [TrialPlanned(spec=spec(seed)), failed(spec(seed).key)]
    told = lines(events, seconds_apart=0.1, every_s=5.0)
    assert sum("failed: " in line for line in told) == 20
    assert sum("more trials fail" in line for line in told) == 1
    assert sum("elapsed" in line for line in told) == 3, "one each five of twenty seconds"


def test_what_is_flagged_alike_is_told_once() -> None:
    events: list[Event] = [started()]
    for n in range(14):  # two points of each of seven seeds
        one = spec(n // 2, phase="search", groups=n % 2)
        done = ok(one.key)
        events += [TrialPlanned(spec=one), replace(done, result=replace(done.result, flags=("collapsed",)))]
    told = lines(events, seconds_apart=0.0)
    seeds = [found[1] for line in told if (found := re.match(r"flagged: .*, seed (\d+): collapsed", line))]
    assert seeds == ["0", "1", "2", "3", "4"]
    assert sum("more trials are flagged" in line for line in told) == 1


def test_a_resumed_sweep_counts_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    events = a_sweep()
    journal.handle_many([started(asks_for=events), *events[1:]])
    told = lines(
        [started(resumed=True, asks_for=events), SweepFinished(status=SweepStatus.DONE, time=0.0)],
        seconds_apart=1.0,
        look=lambda: journal.state,
    )
    journal.close()
    assert told[0] == "a-sweep: 4 trials, 3 of them finished earlier"
    assert "3 of 4 trials, 1 failed" in told[-1]


def test_best_is_by_mean_over_seeds_in_the_goals_direction() -> None:
    progress = Progress()
    goal = started()
    progress.take(goal)
    for model, values in (("a", (0.5, 0.9)), ("b", (0.8, 0.8)), ("c", (0.1, 0.2))):
        for seed, value in enumerate(values):
            one = spec(seed, model=model)
            progress.take(TrialPlanned(spec=one))
            progress.take(ok(one.key, test_accuracy=value, test_kl=value))
    (best,) = progress.best().values()
    assert (best.model, best.seeds, best.value) == ("b", 2, pytest.approx(0.8))
    least = Progress()
    least.take(type(goal)(**{**vars(goal), "config": {"metric": {"name": "dev_kl", "goal": "minimize"}}}))
    for seed, (model, value) in enumerate((("a", 0.5), ("b", 0.25), ("c", 0.75))):
        one = spec(seed, model=model)
        least.take(TrialPlanned(spec=one))
        least.take(ok(one.key, test_kl=value, test_accuracy=value))
    (best,) = least.best().values()
    assert (best.model, best.metric) == ("b", "test_kl")


def _trials(model: str, values: Sequence[Mapping[str, float]], first_seed: int = 0, **where: Any) -> list[Event]:
    """Trials that went well, from `first_seed` on."""
    search = where.pop("search", "")
    events: list[Event] = []
    for seed, metrics in enumerate(values, first_seed):
        one = replace(spec(seed, model=model), **where)
        events += [TrialPlanned(spec=one, label=model, search=search), ok(one.key, **metrics)]
    return events


def _best_of(events: Sequence[Event], plan: PlanRecord = PlanRecord()) -> Best | None:  # noqa: B008 - frozen
    progress = Progress()
    for event in [replace(started(), plan=plan), *events]:
        progress.take(event)
    return next(iter(progress.best().values()), None)


def test_a_model_that_saw_gold_is_never_best() -> None:
    seen = CellRecord(key=spec(0, model="ideal").cell_key, label="ideal", sees_gold=True, metric="m", goal="maximize")
    events = [*_trials("ideal", [{"test_accuracy": 0.99}]), *_trials("mv", [{"test_accuracy": 0.8}])]
    best = _best_of(events, PlanRecord(cells=[seen]))
    assert best is not None
    assert (best.model, best.value) == ("mv", 0.8)


def test_agreement_with_the_votes_that_trained_is_never_shown_as_best() -> None:
    where = spec(0)
    row = DatasetRecord(dataset=where.dataset, dataset_params=where.dataset_params, gold={"train": False}, heldout=0.1)
    events = _trials("mv", [{"train_accuracy": 1.0, "heldout_loglik": -0.9}])
    events += _trials("ds", [{"train_accuracy": 0.9, "heldout_loglik": -0.5}])
    best = _best_of(events, PlanRecord(datasets=[row]))
    assert best is not None
    assert (best.model, best.metric) == ("ds", "heldout_loglik")
    assert _best_of(_trials("mv", [{"train_accuracy": 1.0}]), PlanRecord(datasets=[row])) is None


def test_one_metric_a_dataset_and_reported_trials_before_those_of_a_search() -> None:
    search = CellRecord(key="s", label="cmm", metric="dev_accuracy", goal="maximize", points=9)
    found = PlanRecord(searches=[search])
    searched = [
        *_trials("cmm", [{"dev_accuracy": 0.7, "test_accuracy": 0.99}], 1000, phase="search", search="s"),
        *_trials("cmm", [{"dev_accuracy": 0.9, "test_accuracy": 0.6}], 2000, phase="search", search="s"),
    ]
    best = _best_of(searched, found)
    assert best is not None
    assert (best.metric, best.value, best.phase) == ("dev_accuracy", pytest.approx(0.8), "search")
    best = _best_of([*searched, *_trials("mv", [{"test_accuracy": 0.5, "dev_accuracy": 0.99}])], found)
    assert best is not None
    assert (best.model, best.metric, best.phase) == ("mv", "test_accuracy", "report")


def test_of_rescored_points_the_first_stands_as_in_the_report() -> None:
    found = PlanRecord(searches=[CellRecord(key="s", label="cmm", metric="dev_accuracy", goal="maximize", points=9)])
    events = _trials("cmm", [{"test_accuracy": 0.7}], search="s", params={"groups": 3})
    events += _trials("cmm", [{"test_accuracy": 0.9}], search="s", params={"groups": 5})
    best = _best_of(events, found)
    assert best is not None
    assert best.value == 0.7


def test_running_trials_show_their_latest_score() -> None:
    plan = PlanRecord(cells=[CellRecord(key=spec(0).cell_key, label="fixed", metric="dev_accuracy", goal="maximize")])
    progress = Progress()
    progress.take(replace(started(), plan=plan))
    one, other = spec(0), spec(1)
    for each in (one, other):
        progress.take(TrialPlanned(spec=each, label="fixed"))
    progress.take(TrialStarted(key=other.key, slot="slot 0"))
    assert progress.scores() == []
    progress.take(TrialProgressed(key=one.key, step=10, objective=0.0, score=0.75))
    progress.take(TrialProgressed(key=one.key, step=14, objective=0.0))
    progress.take(TrialProgressed(key=other.key, step=3, objective=0.0))
    place = "fixed on digits (annotators 100), seed"
    assert progress.scores() == [f"{place} 1: step 3", f"{place} 0: step 14, dev accuracy 75.0 %"]
    assert list(progress.running) == [other.key, one.key], "an engine may tell of progress before it tells of the start"
    progress.take(TrialStarted(key=one.key, slot="slot 1"))
    progress.take(ok(one.key))
    assert progress.scores() == [f"{place} 1: step 3"]


def test_a_stopped_trial_is_counted_as_such_until_it_was_run_to_its_end() -> None:
    progress = Progress()
    progress.take(TrialFinished(result=replace(ok("k").result, status=Status.STOPPED)))
    assert (progress.counts, progress.finished) == ({Status.STOPPED: 1}, 1)
    progress.take(ok("k"))
    assert (progress.counts[Status.STOPPED], progress.counts[Status.OK], progress.finished) == (0, 1, 1)


def test_a_failure_that_was_mended_is_not_counted() -> None:
    progress = Progress()
    progress.take(failed("k"))
    assert progress.counts == {Status.FAILED: 1}
    progress.take(ok("k"))
    assert progress.counts == {Status.OK: 1, Status.FAILED: 0}


def _read_to_the_end(terminal: int, into: list[bytes]) -> None:
    with contextlib.suppress(OSError):  # that is how a pseudo-terminal says that its other side was closed
        while data := os.read(terminal, 4096):
            into.append(data)


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, events: Sequence[Event], columns: int, rows: int = 40) -> str:
    """Returns all that a live view of these events wrote to a pseudo-terminal."""
    monkeypatch.setenv("TERM", "xterm")
    outer, inner = pty.openpty()
    shown: list[bytes] = []
    reader = threading.Thread(target=_read_to_the_end, args=(outer, shown))
    reader.start()
    with os.fdopen(inner, "w") as terminal:
        mirror = ConsoleMirror(console=Console(file=terminal, width=columns, height=rows))
        for event in events:
            mirror.handle(event)
        mirror.close()
    reader.join()
    os.close(outer)
    return b"".join(shown).decode()


def _lines_of(seen: str) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip("\r") for line in seen.splitlines()]


@pytest.mark.parametrize("columns", [60, 100, 160, 200])
def test_live_view_on_a_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    running = TrialProgressed(key=spec(9).key, step=7, objective=0.0)
    events = [*a_sweep(), running, SweepFinished(status=SweepStatus.INTERRUPTED, time=0.0)]
    seen = shown_on_a_terminal(monkeypatch, events, columns)
    for words in ("3 of 4 trials, 1 failed", "step 7", "best so far", "cmm", "75.0 %", "interrupted; run it again"):
        assert words in seen
    assert "\x1b[" in seen, "a view that redraws itself"
    assert max(map(len, _lines_of(seen))) <= columns


def test_live_view_shows_the_best_of_each_dataset_that_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = [started()]
    for number in range(50):
        one = replace(spec(0, model=f"model-{number}"), dataset="/far/away/set", dataset_params={"redundancy": number})
        events += [TrialPlanned(spec=one), ok(one.key)]
    for rows, fits in ((200, 50), (30, 23)):
        last = shown_on_a_terminal(monkeypatch, events, 100, rows).split("a-sweep")[-1]
        assert sum("set (redundancy" in line and "model-" in line for line in _lines_of(last)) == fits
        assert ("more datasets" in last) == (fits < 50)
        assert "/far" not in last


class Gone(io.StringIO):
    def __init__(self, error: type[OSError]) -> None:
        super().__init__()
        self._error = error
        self.asked = 0

    def write(self, text: str) -> int:
        self.asked += 1
        raise self._error


def test_a_terminal_that_went_away_does_not_matter() -> None:
    for error in (BrokenPipeError, OSError):
        terminal = Gone(error)
        mirror = ConsoleMirror(console=Terminal(file=terminal))
        for event in one_of_each():
            mirror.handle(event)
        mirror.close()
        assert terminal.asked == 1, "it was told once, and then left alone"
