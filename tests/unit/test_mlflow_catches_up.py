"""MLflow is a projection of the record: whatever came between, the next run leaves it equal to the report."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run

import crowdsweep as cs
from crowdsweep.analysis.sweep import analysed
from crowdsweep.cli.commands import run_command_line
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.result import Status
from crowdsweep.record.shown import one_each, shown_trials
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.tracking.mlflow_connection import MlflowConnection
from crowdsweep.tracking.mlflow_runs import MlflowClient, MlflowMirror, tracking_uri
from crowdsweep.tracking.repeated_job import Timing
from crowdsweep.tracking.run_records import FILES
from crowdsweep.views.in_mlflow import show_when_ended
from crowdsweep.views.mlflow.page import sweep_page
from crowdsweep.views.report_files import written_files

SWEEP = {
    "name": "tracked",
    "datasets": [{"name": "gaussians", "items": 60, "annotators": 8}],
    "models": ["majority-vote", "dawid-skene"],
    "seeds": {"report": 3},
    "engine": "inline",
}
WRITES = ("create", "write", "summarise", "write_files", "tag", "rename", "mark", "end", "delete")
"""Methods of a door that change what MLflow has."""


pytestmark = pytest.mark.xdist_group("mlflow catches up")  # one sweep for all


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, empty_database: Path) -> Path:
    """A store whose sweep has ended, as MLflow shows it."""
    store = tmp_path_factory.mktemp("tracked") / "store"
    store.mkdir()
    shutil.copy(empty_database, store / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        cs.run(SWEEP, store=store, quiet=True)
    return store


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def runs_of(store: Path) -> dict[str, Run]:
    """Returns the runs of a sweep by key; two of one key are an error."""
    client = MlflowClient(tracking_uri(store))
    experiment = client.get_experiment_by_name("tracked")
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    found = {run.data.tags["crowdsweep.key"]: run for run in runs}
    assert len(found) == len(runs), "recorded twice"
    return found


def check_equal(store: Path, *, told: bool = True) -> None:
    """MLflow has what the record says, and nothing else: trials, cells with ranks and scores, and the run on top."""
    state, page, runs = read_journal(store), sweep_page(analysed(store), written_files(store)), runs_of(store)
    client = MlflowClient(tracking_uri(store))
    for key, trial in one_each(shown_trials(state, every=True)).items():
        result, run = state.results[key], runs.pop(key)
        ended = {Status.OK: "FINISHED", Status.FAILED: "FAILED", Status.STOPPED: "KILLED"}[result.status]
        assert run.info.status == ended
        assert run.data.tags["crowdsweep.asked"] == str(trial.asked).lower()
        assert run.data.metrics["train_accuracy"] == pytest.approx(result.metrics["train_accuracy"])
    for key, shown in page.cells.items():
        run = runs.pop(key)
        assert (run.info.run_name, run.info.status) == (shown.name, "FINISHED")
        assert run.data.tags["crowdsweep.order"] == shown.order
        assert shown.metrics.items() <= run.data.metrics.items()
        lines = Path(client.download_artifacts(run.info.run_id, "over_seeds.csv")).read_text().splitlines()
        assert {line.rpartition(",")[2] for line in lines[1:]} == {run.data.tags["crowdsweep.trials_ok"]}
    (top,) = [run for run in runs.values() if run.data.tags["crowdsweep.kind"] == "sweep"]
    assert top.info.status == "FINISHED"
    assert {**page.tags}.items() <= top.data.tags.items()
    assert page.metrics.items() <= top.data.metrics.items()
    assert {"report.html", "sweep.yaml"} <= page.files.keys()
    for name, content in page.files.items():
        assert Path(client.download_artifacts(top.info.run_id, name)).read_bytes() == content
    assert all(run.info.artifact_uri.startswith(store.absolute().as_uri()) for run in (top, *runs.values()))
    if told:
        known = state.runs[without_credentials(tracking_uri(store))].runs
        assert state.results.keys() <= known.keys()


def run_again(store: Path, caplog: pytest.LogCaptureFixture, **overrides: Any) -> list[str]:
    """Runs the sweep once more, and returns what was said of MLflow."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        cs.run(SWEEP, store=store, quiet=True, overrides=overrides)
    return [record.getMessage() for record in caplog.records if "MLflow" in record.getMessage()]


def copied(done: Path, place: Path, *without: str) -> Path:
    shutil.copytree(done, place, ignore=shutil.ignore_patterns(*without))
    return place


def test_a_sweep_that_ended_stands_in_mlflow_as_in_its_report(done: Path) -> None:
    check_equal(done)


def test_after_a_damaged_row_and_a_repair(done: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = copied(done, tmp_path / "store")
    journal = store / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if b"runs_created" in line)
    row = bytearray(lines[at])
    row[60] ^= 1
    lines[at] = bytes(row)
    journal.write_bytes(b"".join(lines))
    assert run_command_line(["repair", str(store)]) == 0
    assert run_again(store, caplog, **{"seeds.report": 5}) == []
    check_equal(store)


@pytest.mark.long
def test_a_copy_shows_its_own_report(done: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One that has gone on, one that finds nothing to do, and one that came without MLflow's files."""
    gone_on = copied(done, tmp_path / "more")
    assert run_again(gone_on, caplog, **{"seeds.report": 4}) == []
    check_equal(gone_on)
    nothing_to_do = copied(gone_on, tmp_path / "same")
    (nothing_to_do / "report.html").unlink()
    assert run_again(nothing_to_do, caplog, **{"seeds.report": 4}) == []
    check_equal(nothing_to_do)
    bare = copied(done, tmp_path / "bare", "mlartifacts")
    assert run_again(bare, caplog) == []
    (top,) = [run for run in runs_of(bare).values() if run.data.tags["crowdsweep.kind"] == "sweep"]
    report = MlflowClient(tracking_uri(bare)).download_artifacts(top.info.run_id, "report.html")
    assert Path(report).read_bytes() == (bare / "report.html").read_bytes()


def test_a_moved_store(done: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copied(done, tmp_path / "here").rename(tmp_path / "there")
    assert run_again(tmp_path / "there", caplog) == []
    check_equal(tmp_path / "there")


def test_what_another_copy_wrote_to_the_same_place_is_marked(
    done: Path, tmp_path: Path, empty_database: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two copies of one store go on with other models, and share a tracking server."""
    shutil.copy(empty_database, tmp_path / "shared.db")
    shared = {"tracking.uri": f"sqlite:///{tmp_path / 'shared.db'}"}
    one, other = (copied(done, tmp_path / name) for name in ("one", "other"))
    run_again(one, caplog, **{"models": ["majority-vote", "one-coin"], **shared})
    run_again(other, caplog, **shared)
    client = MlflowClient(shared["tracking.uri"])
    runs = client.search_runs([client.get_experiment_by_name("tracked").experiment_id], max_results=1000)
    strange = [run for run in runs if run.data.tags.get("crowdsweep.label") == "one-coin"]
    assert len(strange) == 4
    assert {run.data.tags["crowdsweep.asked"] for run in strange} == {"false"}
    cells = [run for run in runs if run.data.tags["crowdsweep.kind"] == "cell"]
    ranks = sorted(run.data.metrics["Score_rank"] for run in cells if run.data.metrics.get("Score_rank"))
    assert len(ranks) == sum(cell.metrics.get("Score_rank") is not None for cell in page_of(other).cells.values())
    assert sum(run.data.tags["crowdsweep.kind"] == "sweep" for run in runs) == 1


def page_of(store: Path) -> Any:
    return sweep_page(analysed(store), written_files(store))


class Dead(Exception):
    """What a driver that was killed does not write."""


@pytest.fixture
def killed_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], list[str]]:
    """Has nothing reach MLflow after so many writes; returns the list of those that did."""
    reached: list[str] = []
    limit: list[int | None] = [None]

    def counted(name: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if limit[0] is not None and len(reached) >= limit[0]:
            raise Dead(name)
        reached.append(name)
        return method(*given, **named)

    for name in WRITES:
        method = getattr(MlflowConnection, name)
        monkeypatch.setattr(
            MlflowConnection, name, lambda *given, _n=name, _m=method, **named: counted(_n, _m, *given, **named)
        )

    def after(number: int | None) -> list[str]:
        reached.clear()
        limit[0] = number
        return reached

    return after


def project(store: Path) -> None:
    """Does what the end of a `run` that finds nothing to do does for MLflow."""
    journal = Journal(store)
    mirror = MlflowMirror(
        store,
        experiment="tracked",
        record=journal.handle,
        look=journal.snapshot,
        timing=Timing(patience_s=20.0),
    )
    mirror.handle(journal.state.started[0])
    mirror.close()
    journal.close()
    show_when_ended(analysed(store), written_files(store), lacks=mirror.lacks)


def test_a_kill_at_any_write_is_made_up_for(
    done: Path,
    tmp_path: Path,
    empty_database: Path,
    killed_after: Callable[[int | None], list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fresh(name: str) -> Path:
        store = copied(done, tmp_path / name, "mlflow.db", "mlartifacts")
        shutil.copy(empty_database, store / "mlflow.db")
        return store

    whole = fresh("whole")
    reached = killed_after(None)
    project(whole)
    check_equal(whole)
    order = list(reached)
    killed_after(None)
    project(whole)
    assert reached == ["mark"], "what is equal is not written again"
    of_runs = {order.index(name) for name in ("create", "write_files", "end")}
    of_page = {len(order) - 1 - order[::-1].index(name) for name in ("rename", "write_files", "mark")}
    for number in sorted(of_runs | of_page):
        store = fresh(f"killed after {number}")
        killed_after(number)
        caplog.clear()
        project(store)
        assert any("`crowdsweep mirror" in record.getMessage() for record in caplog.records), "nobody was told"
        killed_after(None)
        project(store)
        check_equal(store)


def test_a_run_that_was_made_without_an_answer_is_not_there_twice(
    done: Path, tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's client asks again by itself."""
    store = copied(done, tmp_path / "store", "mlflow.db", "mlartifacts")
    shutil.copy(empty_database, store / "mlflow.db")
    create = MlflowConnection.create
    made: list[str] = []

    def twice(door: MlflowConnection, record: Any) -> Any:
        create(door, record)
        made.append(record.key)
        return create(door, record)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowConnection, "create", twice)
        project(store)
    assert len(made) == 2 + 6 + 1, "cells, trials, and the run on top"
    check_equal(store)


@pytest.mark.long
def test_files_that_a_kill_left_of_other_numbers_are_written_again(
    done: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three seeds, then five, killed when the files are there and nothing says so; then three again."""
    store = copied(done, tmp_path / "store")
    tag = MlflowConnection.tag

    def dies(door: MlflowConnection, run: str, name: str, value: str) -> None:
        if name == FILES and value:
            raise Dead(name)
        tag(door, run, name, value)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowConnection, "tag", dies)
        assert any("`crowdsweep mirror" in words for words in run_again(store, caplog, **{"seeds.report": 5}))
    assert run_again(store, caplog) == []
    check_equal(store)


def test_what_cannot_be_shown_is_said_in_one_line(
    done: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, killed_after: Callable[[int | None], list[str]]
) -> None:
    store = copied(done, tmp_path / "store")
    (store / "report.html").write_text("another report")
    killed_after(0)
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        show_when_ended(analysed(store), written_files(store))
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("MLflow does not show the report as it is now: ")
    assert told.endswith(f"`crowdsweep mirror {store}` writes what is missing")
    killed_after(None)
    assert run_command_line(["mirror", str(store)]) == 0
    check_equal(store, told=False)


def test_what_was_changed_in_mlflow_by_hand_is_put_right(
    done: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A cell that was renamed, a trial and a cell that were deleted, and a report that is gone."""
    store = copied(done, tmp_path / "store")
    project(store)
    client, runs = MlflowClient(tracking_uri(store)), runs_of(store)
    by_kind: dict[str, list[Run]] = {}
    for run in runs.values():
        by_kind.setdefault(run.data.tags["crowdsweep.kind"], []).append(run)
    client.update_run(by_kind["cell"][0].info.run_id, name="best of all")
    client.update_run(by_kind["trial"][0].info.run_id, name="a trial")
    client.delete_run(by_kind["trial"][1].info.run_id)
    client.delete_run(by_kind["cell"][1].info.run_id)
    (top,) = by_kind["sweep"]
    (store / "mlartifacts" / top.info.run_id / "artifacts" / "report.html").unlink()
    assert run_again(store, caplog) == []
    check_equal(store)
