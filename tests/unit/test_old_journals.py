"""Journals of every released format are read for ever: same results, same report, and a driver goes on with them.

`tests/assets/journals/COMMIT/NAME` holds what `run` of that commit wrote of `sweep.yaml`, and what its
`results --phase all --format json` printed.
"""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from crowdsweep.analysis.study import study_report
from crowdsweep.analysis.trial_table import comparison_rows, results_table
from crowdsweep.journal.codec import decode
from crowdsweep.journal.journal import read_journal
from crowdsweep.journal.rows import seal, unseal
from crowdsweep.journal.shown import left_out, shown_trials
from crowdsweep.sweep.launch import open_and_run
from crowdsweep.sweepfile.read import load_sweep
from crowdsweep.trial.events import SweepStatus, TrialFinished
from crowdsweep.views.report_files import write_report

JOURNALS = sorted(path.parent for path in (Path(__file__).parents[1] / "assets/journals").glob("*/*/journal.jsonl"))
RAISED: frozenset[str] = frozenset(
    {
        "majority-vote",
        "one-coin",
        "dawid-skene",
        "mixture",
        "soft-mv",
        "cmm",
        "hierarchical-dawid-skene",
        "dl-ds",
        "ideal",
    }
)
"""Models (by their labels there) whose version was raised since: their trials are run again, with other numbers."""

pytestmark = pytest.mark.usefixtures("misbehaving")


def names(path: Path) -> str:
    return f"{path.parent.name}-{path.name}"


def expected(asset: Path) -> list[dict[str, Any]]:
    return json.loads((asset / "results.json").read_text())


def copy_of(asset: Path, to: Path, share: float = 1.0) -> Path:
    """A store with the first rows of a journal."""
    rows = (asset / "journal.jsonl").read_bytes().splitlines(keepends=True)
    to.mkdir()
    (to / "journal.jsonl").write_bytes(b"".join(rows[: round(share * len(rows))]))
    return to


def finished(store: Path) -> list[str]:
    """Keys of the rows that say that a trial finished."""
    lines = (store / "journal.jsonl").read_bytes().splitlines(keepends=True)
    events = [decode(row.text) for line in lines if (row := unseal(line)) is not None]
    return [event.result.key for event in events if isinstance(event, TrialFinished)]


def test_there_are_old_journals() -> None:
    assert {"searched", "studied", "over-budget", "failing"} <= {path.name for path in JOURNALS}


@pytest.mark.parametrize("asset", JOURNALS, ids=names)
def test_results_are_those_of_their_time(asset: Path) -> None:
    table = results_table(read_journal(asset), "all")
    rows = table.to_pylist()
    assert [{name: row[name] for name in old} for row, old in zip(rows, expected(asset), strict=True)] == expected(
        asset
    )
    assert set(table.column_names) - expected(asset)[0].keys() == {"chosen", "flags", "unfinished"}
    assert all(trial.asked and trial.label for trial in shown_trials(read_journal(asset)))


@pytest.mark.parametrize("asset", JOURNALS, ids=names)
def test_the_report_has_the_numbers_of_its_time(asset: Path, tmp_path: Path) -> None:
    store = copy_of(asset, tmp_path / "store")
    assert write_report(store).is_file()
    told = list(csv.DictReader((store / "table.csv").read_text().splitlines()))
    old = [row for row in expected(asset) if row["phase"] == "report"]
    cells = {(row["model"], row["dataset"], row["dataset_params"]) for row in old}
    assert Counter((row["model"], row["dataset"], row["dataset_params"]) for row in told) == dict.fromkeys(cells, 1)
    for row in told:
        cell = [one for one in old if all(one[name] == row[name] for name in ("model", "dataset", "dataset_params"))]
        own = [one for one in cell if one["point"] == row["point"]]
        good = [one[row["metric"]] for one in own if one["status"] == "ok" and one[row["metric"]] is not None]
        assert (int(row["n"]), int(row["failed"])) == (len(good), sum(one["status"] == "failed" for one in own))
        if good:
            assert float(row["mean"]) == pytest.approx(fmean(good), rel=1e-12)
    study = study_report(read_journal(store))
    assert (study is not None) == ("study:" in (asset / "sweep.yaml").read_text())


@pytest.mark.parametrize("share", [1 / 3, pytest.param(2 / 3, marks=pytest.mark.long), 1.0])
@pytest.mark.parametrize("asset", JOURNALS, ids=names)
def test_a_driver_goes_on_with_it(asset: Path, share: float, tmp_path: Path) -> None:
    store = copy_of(asset, tmp_path / "store", share)
    before = finished(store)
    changes = ["engine=inline", "tracking.enabled=false", "budget.failed_trials=1.0"]
    outcome = open_and_run(load_sweep(asset / "sweep.yaml", changes), store, quiet=True)
    assert outcome.status is SweepStatus.DONE
    assert Counter(finished(store)) == dict.fromkeys(finished(store), 1), "a finished trial was run again"
    assert finished(store)[: len(before)] == before
    state = read_journal(store)
    rows = {row["key"]: row for row in results_table(state, "all", every=True).to_pylist()}
    superseded: set[str] = set()
    for old in expected(asset):
        # Where nothing can be held out, a search goes by another metric now, or is refused.
        changed = old["model"] in RAISED or old["failure_kind"] == "MissingMetric"
        if changed and old["key"] not in before:
            continue  # it was lost with the end of the journal, and nobody asks for it any more
        same_numbers(rows[old["key"]], old)
        assert rows[old["key"]]["asked"] == (not changed)
        superseded |= {old["key"]} if changed else set()
    kept = {trial.spec.key for trial in shown_trials(state, every=True) if not trial.asked} & state.results.keys()
    assert kept == superseded
    assert left_out(state) == len(superseded)
    assert state.plan.cells is not None


def same_numbers(row: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """The same trial with the same outcome; what it cost, and where it ran, may differ."""
    for name in ("sweep", "phase", "model", "dataset", "dataset_params", "point", "seed", "status", "failure_kind"):
        assert row[name] == old[name], name
    last = list(old).index("host")
    for name in list(old)[last + 1 :]:
        if isinstance(old[name], float):
            assert row[name] == pytest.approx(old[name], rel=1e-6), name


def old_rows(*rows: tuple[str, Mapping[str, Any]]) -> list[bytes]:
    """Rows of the first format, of (kind, data)."""
    return [seal(json.dumps({"kind": kind, "v": 1, "data": data})) for kind, data in rows]


def old_start(models: Sequence[Mapping[str, Any]], searches: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    datasets = [{"dataset": "d", "dataset_params": {}, "gold": {"train": True}, "heldout": 0.0}]
    plan = {"cells": 1, "studies": 1, "trials": {"total": 9}, "datasets": datasets, "searches": searches}
    started = {"name": "old", "config": {"models": models}, "plan": plan, "environment": {}, "resumed": False}
    return "sweep_started", {**started, "time": 1.0}


def old_trial(seed: int, params: Mapping[str, Any], point: Mapping[str, Any], phase: str) -> dict[str, Any]:
    spec = {"model": "dawid-skene", "params": params, "model_version": 1, "dataset": "d", "dataset_params": {}}
    return {"spec": {**spec, "fingerprint": "f", "seed": seed, "heldout_fraction": 0.0, "phase": phase, "point": point}}


def test_one_old_trial_can_answer_for_several_models(tmp_path: Path) -> None:
    """The search selected the very smoothing that two other entries have: their trials were written down once."""
    models = [
        {"name": "dawid-skene", "label": "fixed", "params": {}},
        {"name": "dawid-skene", "label": "twin", "params": {"smoothing": 1.0}},
        {"name": "dawid-skene", "label": "tuned", "params": {}, "search": {"smoothing": {"values": [1.0, 2.0]}}},
    ]
    search = {"model": "dawid-skene", "dataset": "d", "dataset_params": {}}
    points = [{"smoothing": value} for value in (2.0, 1.0)]
    full = [{**point, "iterations": 9} for point in points]
    rows = old_rows(
        old_start(models, {"s": {"label": "tuned", "metric": "m", "goal": "maximize"}}),
        ("trial_planned", old_trial(0, full[1], {}, "report")),
        *(("point_proposed", {"study": "s", "number": n, "point": points[n], **search}) for n in (0, 1)),
        *(("trial_planned", old_trial(10**6, full[n], points[n], "search")) for n in (0, 1)),
        *(("point_scored", {"study": "s", "number": n, "value": float(n)}) for n in (0, 1)),
        ("points_selected", {"study": "s", "numbers": [1]}),
    )
    (tmp_path / "journal.jsonl").write_bytes(b"".join(rows))
    state = read_journal(tmp_path)
    assert state.plan.n_trials == 9
    told = [(one.label, one.spec.phase, one.search, dict(one.spec.point), one.chosen) for one in shown_trials(state)]
    assert told == [
        ("twin", "report", "", {}, True),
        ("tuned", "report", "s", points[1], True),
        ("fixed", "report", "", {}, True),
        ("tuned", "search", "s", points[0], False),
        ("tuned", "search", "s", points[1], False),
    ]
    assert comparison_rows(state).num_rows == 0, "nothing has finished"


def test_a_journal_that_was_changed_is_not_one_of_these(tmp_path: Path) -> None:
    """The assets are sealed rows: a typing slip in one would be found, not read."""
    for asset in JOURNALS:
        lines = (asset / "journal.jsonl").read_bytes().splitlines(keepends=True)
        assert all(unseal(line) is not None for line in lines)
        shutil.copy(asset / "journal.jsonl", tmp_path / "journal.jsonl")
        assert read_journal(tmp_path).rows == len(lines)
