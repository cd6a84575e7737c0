"""A sweep file is edited and run again in the same store: what is shown is what a fresh store would show.

Trials of the earlier file stay in the journal, marked, and are not run again when it asks for them once more.
"""

import json
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from crowdsweep import app
from crowdsweep.analysis.flat_tables import comparison_table
from crowdsweep.analysis.status import sweep_status
from crowdsweep.analysis.study import study_report
from crowdsweep.analysis.sweep import analysed
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.cli.commands import run_command_line
from crowdsweep.models import registered
from crowdsweep.record.events import SweepStatus
from crowdsweep.record.journal import read_journal
from crowdsweep.record.state import JournalState
from crowdsweep.sweep.driver import SweepOutcome
from crowdsweep.sweepfile.read import load_sweep
from crowdsweep.views.terminal.stores import describe_status

Sweep = dict[str, Any]
COSTS = ("wall_s", "batch_wall_s", "batch_size", "peak_bytes")


def write_votes(folder: Path, seed: int, *, gold: bool) -> None:
    """Twenty items of three classes, each with four votes that are right two times in three."""
    rng = np.random.default_rng(seed)
    true = rng.integers(3, size=20)
    wrong = rng.random((20, 6)) > 0.66
    rows = [
        f"i{item},w{worker},{'abc'[(true[item] + wrong[item, worker] * rng.integers(1, 3)) % 3]}"
        for item in range(20)
        for worker in rng.permutation(6)[:4]
    ]
    folder.mkdir(exist_ok=True)
    (folder / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    if gold:
        lines = [f"i{item},{'abc'[true[item]]}" for item in range(20)]
        (folder / "items.csv").write_text("\n".join(["item,gold", *lines]) + "\n")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with two datasets: `pets` with gold, `bare` without."""
    write_votes(tmp_path / "pets", 1, gold=True)
    write_votes(tmp_path / "bare", 2, gold=False)
    return tmp_path


def first_sweep() -> Sweep:
    return {
        "name": "edited",
        "datasets": ["./pets", "./bare"],
        "models": [
            "majority-vote",
            {"name": "dawid-skene", "params": {"iterations": 1}},
            {"name": "one-coin", "search": {"smoothing": {"values": [0.1, 1.0, 5.0]}}},
        ],
        "seeds": {"search": 2, "report": 3, "rescored": 2},
        "engine": "inline",
        "tracking": {"enabled": False},
    }


def run(place: Path, sweep: Mapping[str, Any], store: str) -> JournalState:
    (place / "sweep.yaml").write_text(yaml.safe_dump(dict(sweep)))
    outcome = app.run(load_sweep(place / "sweep.yaml"), place / store, quiet=True)
    assert outcome.status is SweepStatus.DONE
    return read_journal(place / store)


def rows_of(state: JournalState, **options: Any) -> list[dict[str, Any]]:
    """The results without what they cost."""
    rows = results_table(state, "all", **options).to_pylist()
    return [{name: value for name, value in row.items() if name not in COSTS} for row in rows]


def told_of(store: Path) -> list[dict[str, Any]]:
    """The report's table, without what trials cost."""
    told = comparison_table(analysed(store).comparison).to_pylist()
    return [{name: value for name, value in row.items() if name not in COSTS} for row in told]


def edit(**changes: Any) -> Callable[[Sweep, Path], Sweep]:
    return lambda sweep, place: {**sweep, **changes}


def with_models(*models: Any) -> Callable[[Sweep, Path], Sweep]:
    return lambda sweep, place: {**sweep, "models": list(models)}


def corrected_labels(sweep: Sweep, place: Path) -> Sweep:
    write_votes(place / "pets", 3, gold=True)
    return sweep


def gold_is_found(sweep: Sweep, place: Path) -> Sweep:
    write_votes(place / "bare", 2, gold=True)
    return sweep


def renamed_folders(sweep: Sweep, place: Path) -> Sweep:
    for name in ("pets", "bare"):
        shutil.move(place / name, place / f"{name}-2")
    return {**sweep, "datasets": ["./pets-2", "./bare-2"]}


SEARCHED = {"name": "one-coin", "search": {"smoothing": {"values": [0.1, 1.0, 5.0]}}}
EDITS: dict[str, Callable[[Sweep, Path], Sweep]] = {
    "another fixed parameter": with_models(
        "majority-vote", {"name": "dawid-skene", "params": {"iterations": 100}}, SEARCHED
    ),
    "labels corrected in the folder": corrected_labels,
    "gold added in the folder": gold_is_found,
    "folders renamed": renamed_folders,
    "another hold-out": edit(heldout={"fraction": 0.3}),
    "a model taken out": with_models("majority-vote", SEARCHED),
    "a model renamed": with_models("majority-vote", {**SEARCHED, "label": "coin"}),
    "a searched model fixed": with_models("majority-vote", {"name": "one-coin", "params": {"smoothing": 5.0}}),
    "a fixed model searched": with_models(
        {"name": "dawid-skene", "search": {"iterations": {"values": [1, 5]}}}, "one-coin"
    ),
    "another space": with_models({"name": "one-coin", "search": {"smoothing": {"values": [1.0, 5.0, 9.0]}}}),
    "fewer seeds": edit(seeds={"search": 2, "report": 2, "rescored": 2}),
    "more seeds": edit(seeds={"search": 2, "report": 4, "rescored": 2}),
    "other search seeds": edit(seeds={"search": 3, "report": 3, "rescored": 2}),
    "one point re-scored": edit(seeds={"search": 2, "report": 3, "rescored": 1}),
    "all points re-scored": edit(seeds={"search": 2, "report": 3, "rescored": 3}),
    "another metric": edit(metric="train_kl", datasets=["./pets"]),
    "a dataset taken out": edit(datasets=["./bare"]),
    "another dataset parameter": edit(datasets=["./pets", {"name": "./bare", "redundancy": 3}]),
    "another scenario": edit(datasets=[{"name": "./pets", "scenario": "global"}], models=["majority-vote"]),
}


# Of edits that are alike one is always tried, the others in the long suite.
ALIKE = {
    *("another hold-out", "a model renamed", "a searched model fixed", "a fixed model searched", "fewer seeds"),
    *("more seeds", "other search seeds", "a dataset taken out", "another fixed parameter"),
}


@pytest.mark.parametrize(
    "edited",
    [pytest.param(edited, id=name, marks=[pytest.mark.long] * (name in ALIKE)) for name, edited in EDITS.items()],
)
def test_an_edited_sweep_shows_what_a_fresh_one_shows(place: Path, edited: Callable[[Sweep, Path], Sweep]) -> None:
    before = rows_of(run(place, first_sweep(), "store"))
    sweep = edited(first_sweep(), place)
    again, fresh = run(place, sweep, "store"), run(place, sweep, "fresh")
    assert rows_of(again) == rows_of(fresh)
    assert told_of(place / "store") == told_of(place / "fresh")
    shown, expected = sweep_status(again), sweep_status(fresh)
    for name in ("status", "done", "failed", "total", "points", "best", "failures"):
        assert shown[name] == expected[name], name
    everything = rows_of(again, every=True)
    assert {row["key"] for row in everything} == {row["key"] for row in [*before, *rows_of(fresh)]}
    assert {row["key"] for row in everything if row["asked"]} == {row["key"] for row in rows_of(fresh)}
    assert not [row for row in everything if row["chosen"] and not row["asked"]]
    left_out = len(everything) - len(rows_of(fresh))
    assert shown["left_out"] == left_out
    assert (f"{left_out} finished trials are left out" in describe_status(shown, "done", None)) is (left_out > 0)


def test_what_was_asked_for_before_is_not_run_again(place: Path) -> None:
    sweep = first_sweep()
    first = run(place, sweep, "store")
    run(place, EDITS["another fixed parameter"](sweep, place), "store")
    back = run(place, sweep, "store")
    assert rows_of(back) == rows_of(first)
    finished = (place / "store" / "journal.jsonl").read_text().count('"trial_finished"')
    assert finished == len(back.results) == len(first.results) + 2 * 3


def test_the_command_marks_what_is_not_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(place, first_sweep(), "store")
    run(place, EDITS["another fixed parameter"](first_sweep(), place), "store")
    told: list[list[dict[str, Any]]] = []
    for options in ([], ["--all-trials"]):
        assert run_command_line(["results", str(place / "store"), "--format", "json", *options]) == 0
        told.append(json.loads(capsys.readouterr().out))
    shown, everything = told
    assert list(shown[0])[:4] == ["sweep", "phase", "chosen", "model"]
    assert list(everything[0])[:5] == ["sweep", "phase", "asked", "chosen", "model"]
    assert [row["model"] for row in everything if not row["asked"]] == ["dawid-skene"] * 6
    assert [{k: v for k, v in row.items() if k != "asked"} for row in everything if row["asked"]] == shown


def test_an_edited_file_that_was_not_run_changes_nothing(place: Path) -> None:
    first = run(place, first_sweep(), "store")
    (place / "sweep.yaml").write_text(yaml.safe_dump({**first_sweep(), "models": ["majority-vote"]}))
    assert rows_of(read_journal(place / "store")) == rows_of(first)


def test_a_raised_model_version_is_another_trial(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(place, first_sweep(), "store")
    known = registered.model_info
    monkeypatch.setattr(
        registered,
        "model_info",
        lambda name: replace(known(name), version=99) if name == "dawid-skene" else known(name),
    )
    again, fresh = run(place, first_sweep(), "store"), run(place, first_sweep(), "fresh")
    assert rows_of(again) == rows_of(fresh)
    assert sweep_status(again)["left_out"] == 2 * 3


def test_neither_datasets_nor_models_are_needed_to_tell(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = {**first_sweep(), "datasets": ["./pets"]}
    run(place, sweep, "store")
    run(place, EDITS["another fixed parameter"](sweep, place), "store")
    expected = rows_of(read_journal(place / "store")), told_of(place / "store")

    def gone(name: str) -> Any:
        raise AssertionError(f"{name} was looked up")

    shutil.rmtree(place / "pets")
    monkeypatch.setattr(registered, "model_info", gone)
    assert (rows_of(read_journal(place / "store")), told_of(place / "store")) == expected


def test_votes_that_trained_a_model_do_not_rank_it_after_a_folder_was_renamed(place: Path) -> None:
    sweep = {**first_sweep(), "datasets": ["./bare"]}
    run(place, sweep, "store")
    shutil.move(place / "bare", place / "bare-2")
    run(place, {**sweep, "datasets": ["./bare-2"]}, "store")
    told = told_of(place / "store")
    assert {Path(row["dataset"]).name for row in told} == {"bare-2"}
    assert {row["metric"] for row in told} == {"heldout_loglik"}


def test_points_that_were_rescored_and_not_chosen_are_marked_and_kept_out_of_studies(place: Path) -> None:
    study = {"template": "redundancy", "labels_per_item": [2]}
    sweep = {**first_sweep(), "datasets": ["./pets"], "models": [SEARCHED], "study": study}
    state = run(place, sweep, "store")
    rows = [row for row in rows_of(state) if row["dataset_params"] == "{}"]
    assert not [row for row in rows if row["phase"] == "search" and row["chosen"]]
    reported = {row["point"]: row["chosen"] for row in rows if row["phase"] == "report"}
    ((search, numbers),) = [
        (key, numbers) for key, numbers in state.selected.items() if not state.proposals[key][0].dataset_params
    ]
    best, second = (json.dumps(dict(state.proposals[search][n].point), separators=(",", ":")) for n in numbers)
    assert reported == {best: True, second: False}
    report = study_report(state)
    assert report is not None
    fresh = run(place, {**sweep, "seeds": {**sweep["seeds"], "rescored": 1}}, "fresh")
    alone = study_report(fresh)
    assert alone is not None
    assert report.curves == alone.curves


@pytest.mark.parametrize(
    "arguments",
    [[], ["--engine", "inline"], ["--set", "models.1.params.iterations=5", "--set", 'datasets=["./pets", ./bare]']],
)
def test_the_line_to_go_on_with_repeats_what_was_asked(
    place: Path,
    arguments: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (place / "sweep.yaml").write_text(yaml.safe_dump(first_sweep()))
    stopped = SweepOutcome(status=SweepStatus.INTERRUPTED, planned=9, finished=3, failed=0, ran=3, dropped=True)
    monkeypatch.setattr(app, "run", lambda *_, **__: stopped)
    command = ["run", str(place / "sweep.yaml"), "--store", str(place / "a store"), *arguments]
    assert run_command_line(command) == 130
    line = capsys.readouterr().out.partition("`")[2].partition("`")[0]
    assert shlex.split(line) == ["crowdsweep", *command]
