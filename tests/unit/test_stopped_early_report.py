"""What is shown of fits that were stopped early: how many, where, what it saved."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from journals import folded, made_up_search, made_up_sweep, made_up_trials

from crowdsweep.analysis.sections.stopped_early import stopped_fits
from crowdsweep.record.events import Event, TrialFinished, TrialPlanned
from crowdsweep.record.journal import Journal
from crowdsweep.record.plan_record import CellRecord
from crowdsweep.record.result import Status, StoppedEarly
from crowdsweep.record.shown import shown_trials
from crowdsweep.tracking.run_records import trial_record
from crowdsweep.views.figures.searches import stopped_curves
from crowdsweep.views.report_files import write_report

SEARCH = CellRecord(key="s", label="cmm", dataset="d", metric="dev_accuracy", goal="maximize", points=4)
LENGTHS = (50, 50, 20, 30)  # of the fits of four points; the last two were stopped


def fit_of(place: int, length: int) -> list[Event]:
    point = {"groups": 1 + place}
    planned, finished = made_up_trials(
        "cmm", "d", [{"dev_accuracy": 0.5}], point=point, phase="search", search="s", first_seed=1_000_000
    )
    assert isinstance(planned, TrialPlanned)
    assert isinstance(finished, TrialFinished)
    stopped = place >= 2
    result = replace(
        finished.result,
        curve=[(step, 0.4 + step / 1000) for step in range(10, length + 1, 10)],
        watched="dev_accuracy",
        iterations=length,
        status=Status.STOPPED if stopped else Status.OK,
        stopped_early=StoppedEarly(step=length, best=0.42, bar=0.45, n_rivals=3) if stopped else None,
    )
    return [planned, TrialFinished(result=result)]


def events_of(lengths: Sequence[int] = LENGTHS) -> list[Event]:
    points = [{"groups": 1 + place} for place in range(len(lengths))]
    events = made_up_search("s", "cmm", "d", points, [0.5] * len(lengths), [0])
    events += [event for place, length in enumerate(lengths) for event in fit_of(place, length)]
    events += made_up_trials("cmm", "d", [{"test_accuracy": 0.8}] * 2, point=points[0], search="s")
    return made_up_sweep(events, models=[{"name": "cmm", "params": {}}], searches=[SEARCH])


def test_steps_are_counted_against_those_of_fits_that_went_to_their_end() -> None:
    state = folded(events_of())
    found = stopped_fits(state, shown_trials(state))["s"]
    assert (found.steps, found.steps_whole) == (150, 200)
    assert [len(curve) for curve in found.stopped] == [2, 3]
    assert found.words == ("2 of 4 fits were stopped early: 150 steps in all, of about 200 without (75 %)")
    (axes,) = stopped_curves(found).axes
    crosses = [np.asarray(line.get_xdata()).tolist() for line in axes.lines if line.get_marker() == "x"]
    assert crosses == [[20], [30]]


def test_a_search_that_stopped_nothing_says_nothing() -> None:
    state = folded(events_of(LENGTHS[:2]))
    assert stopped_fits(state, shown_trials(state)) == {}


def test_the_page_draws_where_fits_were_stopped(tmp_path: Path) -> None:
    for name, lengths, there in (("some", LENGTHS, True), ("none", LENGTHS[:2], False)):
        journal = Journal(tmp_path / name)
        journal.handle_many(events_of(lengths))
        journal.close()
        assert ("fits were stopped early" in write_report(tmp_path / name).read_text()) is there


@pytest.mark.parametrize("place", [0, 2])
def test_mlflow_has_the_reason_as_a_tag(place: int) -> None:
    state = folded(events_of())
    (trial,) = [one for one in shown_trials(state) if one.spec.point == {"groups": 1 + place}][:1]
    tags = trial_record(trial, state.results[trial.spec.key], sweep="s", environment={}).tags
    reason = "after step 20: its best score so far, 0.42, is worse than 0.45, taken from 3 earlier fits"
    assert tags.get("crowdsweep.stopped_early") == (reason if place else None)
