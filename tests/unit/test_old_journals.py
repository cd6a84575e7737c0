"""Journals of every released format are read for ever: same results, same report, and a driver goes on with them.

`tests/assets/journals/COMMIT/NAME` holds what `run` of that commit wrote of `sweep.yaml`, and what its
`results --phase all --format json` printed.
"""

import csv
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from crowdsweep import app
from crowdsweep.analysis.study import study_report
from crowdsweep.analysis.trial_table import results_table
from crowdsweep.errors import JournalError
from crowdsweep.record.codec import decode
from crowdsweep.record.events import SweepStatus, TrialFinished
from crowdsweep.record.journal import read_journal
from crowdsweep.record.rows import parse_row
from crowdsweep.record.shown import shown_trials
from crowdsweep.sweepfile.read import load_sweep
from crowdsweep.views.report_files import write_report

JOURNALS = sorted(path.parent for path in (Path(__file__).parents[1] / "assets/journals").glob("*/*/journal.jsonl"))
RAISED: frozenset[str] = frozenset({"mixture"})
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
    events = [decode(row.text) for line in lines if (row := parse_row(line)) is not None]
    return [event.result.key for event in events if isinstance(event, TrialFinished)]


def cuts() -> Iterator[Any]:
    """Every journal, whole and cut off; `make test` has each whole, and one cut off."""
    for asset in JOURNALS:
        for name, share in (("third", 1 / 3), ("two thirds", 2 / 3), ("whole", 1.0)):
            quick = share == 1 or (asset.name, name) == ("failing", "third")
            marks = () if quick else pytest.mark.long
            yield pytest.param(asset, share, id=f"{names(asset)}-{name}", marks=marks)


def test_there_are_old_journals() -> None:
    assert {"searched", "studied", "over-budget", "failing"} <= {path.name for path in JOURNALS}


@pytest.mark.parametrize("asset", JOURNALS, ids=names)
def test_results_are_those_of_their_time(asset: Path) -> None:
    rows = results_table(read_journal(asset), "all").to_pylist()
    assert [{name: row[name] for name in old} for row, old in zip(rows, expected(asset), strict=True)] == expected(
        asset
    )
    assert all(trial.asked and trial.label for trial in shown_trials(read_journal(asset)))


def each(*quick: str) -> list[Any]:
    """Every journal; `make test` has those of some names."""
    return [
        pytest.param(asset, id=names(asset), marks=() if asset.name in quick else pytest.mark.long)
        for asset in JOURNALS
    ]


@pytest.mark.parametrize("asset", each("searched"))
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


@pytest.mark.parametrize(("asset", "share"), list(cuts()))
def test_a_driver_goes_on_with_it(asset: Path, share: float, tmp_path: Path) -> None:
    store = copy_of(asset, tmp_path / "store", share)
    before = finished(store)
    changes = ["engine=inline", "tracking.enabled=false", "budget.failed_trials=1.0"]
    outcome = app.run(load_sweep(asset / "sweep.yaml", changes), store, quiet=True)
    assert outcome.status is SweepStatus.DONE
    assert Counter(finished(store)) == dict.fromkeys(finished(store), 1), "a finished trial was run again"
    assert finished(store)[: len(before)] == before
    state = read_journal(store)
    rows = {row["key"]: row for row in results_table(state, "all", every=True).to_pylist()}
    superseded: set[str] = set()
    for old in expected(asset):
        changed = old["model"] in RAISED
        if changed and old["key"] not in before:
            continue  # it was lost with the end of the journal, and nobody asks for it any more
        same_numbers(rows[old["key"]], old)
        assert rows[old["key"]]["asked"] == (not changed)
        superseded |= {old["key"]} if changed else set()
    kept = {trial.spec.key for trial in shown_trials(state, every=True) if not trial.asked} & state.results.keys()
    assert kept == superseded
    assert len(state.results.keys() - {trial.spec.key for trial in shown_trials(state)}) == len(superseded)


def same_numbers(row: Mapping[str, Any], old: Mapping[str, Any]) -> None:
    """The same trial with the same outcome; what it cost, and where it ran, may differ."""
    for name in ("sweep", "phase", "model", "dataset", "dataset_params", "point", "seed", "status", "failure_kind"):
        assert row[name] == old[name], name
    last = list(old).index("host")
    for name in list(old)[last + 1 :]:
        if isinstance(old[name], float):
            assert row[name] == pytest.approx(old[name], rel=1e-6), name


def test_a_row_of_before_the_first_release_says_so() -> None:
    row = '{"kind":"points_selected","v":1,"data":{"study":"s","numbers":[1]}}'
    with pytest.raises(JournalError, match=r"version 1; .* reads versions 2\. .* before the first release: run the"):
        decode(row)


def test_a_journal_that_was_changed_is_not_one_of_these(tmp_path: Path) -> None:
    """The assets are sealed rows: a typing slip in one would be found, not read."""
    for asset in JOURNALS:
        lines = (asset / "journal.jsonl").read_bytes().splitlines(keepends=True)
        assert all(parse_row(line) is not None for line in lines)
        shutil.copy(asset / "journal.jsonl", tmp_path / "journal.jsonl")
        assert read_journal(tmp_path).rows == len(lines)
