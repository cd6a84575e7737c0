"""Folders of one name in two sweeps: paired by path, then by their data, then by name."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from journals import made_up_sweep, made_up_trials

from crowdsweep.analysis.sweep import AnalysedSweep, analysed
from crowdsweep.analysis.two_sweeps import pairs_of
from crowdsweep.record.events import Event, TrialFinished, TrialPlanned
from crowdsweep.record.journal import Journal
from crowdsweep.record.shown import shown_trials
from crowdsweep.tracking.run_records import BETWEEN, cell_name, trial_record
from crowdsweep.views.mlflow.page import sweep_page


def _folders(place: Path, scores: Mapping[str, float], name: str) -> AnalysedSweep:
    """A sweep of one model on folders: path → accuracy; the data of a folder are told by its parent's name."""
    events: list[Event] = []
    for folder, score in scores.items():
        for event in made_up_trials("a", folder, [{"test_accuracy": score}, {"test_accuracy": score + 0.01}]):
            if isinstance(event, TrialPlanned):
                event = replace(event, spec=replace(event.spec, fingerprint=Path(folder).parent.name))
            events.append(event)
    planned = [event for event in events if isinstance(event, TrialPlanned)]
    results = [event for event in events if isinstance(event, TrialFinished)]
    told = [
        replace(end, result=replace(end.result, key=begun.spec.key))
        for begun, end in zip(planned, results, strict=True)
    ]
    journal = Journal(place / name)
    journal.handle_many(made_up_sweep([*planned, *told], models=[], name=name))
    journal.close()
    return analysed(place / name)


def test_folders_of_one_name_are_paired_by_path_then_by_data(tmp_path: Path) -> None:
    """One sweep has `x/birds` alone, the other `x/birds` and `y/birds`: the names by which each calls them differ."""
    first = _folders(tmp_path, {"/d/x/birds": 0.8}, "one")
    second = _folders(tmp_path, {"/d/y/birds": 0.6, "/d/x/birds": 0.8}, "two")
    found = {pair.dataset: (pair.first, pair.second, pair.why) for pair in pairs_of(first, second)[0]}
    assert found == {
        "x/birds": (pytest.approx(0.805), pytest.approx(0.805), ""),
        "y/birds": (None, pytest.approx(0.605), "new"),
    }
    moved = _folders(tmp_path, {"/elsewhere/x/birds": 0.8, "/elsewhere/y/birds": 0.6}, "three")
    found = {pair.dataset: pair.why for pair in pairs_of(second, moved)[0]}
    assert found == {"y/birds": "", "x/birds": ""}  # the same data in other folders
    other = _folders(tmp_path, {"/elsewhere/z/birds": 0.7}, "four")
    ((pair,),) = pairs_of(first, other)
    assert (pair.dataset, pair.why) == ("birds", "other data under the same name")


def test_folders_of_one_name_have_runs_of_different_names(tmp_path: Path) -> None:
    sweep = _folders(tmp_path, {"/d/x/birds": 0.8, "/d/y/birds": 0.6}, "one")
    shown = shown_trials(sweep.state)
    assert {trial.on for trial in shown} == {"x/birds", "y/birds"}
    assert {cell_name(trial) for trial in shown} == {f"a{BETWEEN}x/birds", f"a{BETWEEN}y/birds"}
    names = [
        trial_record(trial, sweep.state.results[trial.spec.key], sweep="s", environment={}).name for trial in shown
    ]
    assert len(set(names)) == len(names) == 4
    page = sweep_page(sweep, {})
    assert {cell.name.split(BETWEEN)[2] for cell in page.cells.values()} == {"x/birds", "y/birds"}
    assert all(name in " ".join(page.description) for name in ("x/birds", "y/birds"))
    (alone,) = {trial.on for trial in shown_trials(_folders(tmp_path, {"/d/x/birds": 0.8}, "two").state)}
    assert alone == "birds"
