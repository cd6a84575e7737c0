"""MLflow as a mirror, against a real database: what it holds, and how it fails and is mended."""

import json
import logging
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import MemoryJournal
from mirror_checks import ok, spec, started
from mlflow.entities import Run
from mlflow_sweeps import SEEDS, outcomes, runs_in, sql, sweep

from crowdsweep import app
from crowdsweep.errors import BadInput
from crowdsweep.record.artifacts import Artifact
from crowdsweep.record.events import Event, RunsCreated, TrialFinished, TrialPlanned
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.result import Status
from crowdsweep.record.shown import ShownTrial
from crowdsweep.sweepfile.read import parse_sweep
from crowdsweep.tracking import artifact_files
from crowdsweep.tracking.mlflow_runs import (
    MlflowClient,
    MlflowMirror,
    reader_of,
    rebuild,
    tracking_uri,
)
from crowdsweep.tracking.run_records import HISTORY_LIMIT, CellTrial, cell_record, trial_record
from crowdsweep.views.in_mlflow import rebuild_runs


def counts(cell: Run) -> tuple[int, int, int]:
    """Returns how many trials of a cell are ok, failed, stopped."""
    ok, failed, stopped = (int(cell.data.tags[f"crowdsweep.trials_{status}"]) for status in Status)
    return ok, failed, stopped


def over_seeds(store: Path, cell: Run) -> dict[str, list[float]]:
    """Returns mean, standard deviation and n of each metric of a cell."""
    path = MlflowClient(tracking_uri(store)).download_artifacts(cell.info.run_id, "over_seeds.csv")
    head, *rows = [line.split(",") for line in Path(path).read_text().splitlines()]
    assert head == ["metric", "mean", "sd", "n"]
    return {row[0]: [float(value) for value in row[1:]] for row in rows}


def test_a_sweep_as_mlflow_shows_it(store: Path) -> None:
    state = sweep(store, outcomes())
    cells, trials = runs_in(store)
    (cell,) = cells.values()
    assert cell.info.status == "FINISHED"
    assert cell.data.params["groups"] == "2"
    assert cell.data.params["dataset.annotators"] == "100"
    assert cell.data.metrics == {"test_accuracy": pytest.approx(0.6), "dev_kl": 1.0}
    assert over_seeds(store, cell)["test_accuracy"] == [pytest.approx(0.6), pytest.approx(0.1), 3]
    assert counts(cell) == (3, 1, 0)
    assert set(trials) == {spec(seed, groups=2).key for seed in SEEDS}
    run = trials[spec(1, groups=2).key]
    assert run.info.status == "FINISHED"
    assert run.data.tags["mlflow.parentRunId"] == cell.info.run_id
    assert run.data.tags["crowdsweep.seed"] == run.data.params["seed"] == "1"
    assert run.data.tags["crowdsweep.phase"] == "report"
    assert run.data.tags["mlflow.source.git.commit"] == "0" * 40
    assert run.data.tags["crowdsweep.python"] == "3.11"
    assert run.data.metrics["test_accuracy"] == pytest.approx(0.6)
    assert run.data.metrics["wall_s"] == 0.5
    client = MlflowClient(tracking_uri(store))
    history = client.get_metric_history(run.info.run_id, "objective")
    assert [(point.step, point.value) for point in history] == [(0, -3.0), (1, -2.5), (2, -2.25)]
    (dataset,) = run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("digits", "0123456789abcdef")
    confusion = client.download_artifacts(run.info.run_id, "confusion.json")
    assert json.loads(Path(confusion).read_text())["probabilities"] == [[0.9, 0.1], [0.2, 0.8]]
    assert len(list((store / "mlartifacts").rglob("confusion.json"))) == 3
    assert state.runs[tracking_uri(store)].runs == {key: one.info.run_id for key, one in {**cells, **trials}.items()}


def test_a_cell_shows_the_mean_confusion_matrix_of_its_reported_trials(store: Path) -> None:
    drawn: list[list[list[float]]] = []

    def draw(matrix: Sequence[Sequence[float]]) -> bytes:
        drawn.append([list(row) for row in matrix])
        return b"a picture"

    state = sweep(store, outcomes())
    rebuild(state, tracking_uri(store), "illustrated", draw=draw)
    assert drawn == [[[pytest.approx(0.9), pytest.approx(0.1)], [pytest.approx(0.2), pytest.approx(0.8)]]]
    client = MlflowClient(tracking_uri(store))
    experiment = client.get_experiment_by_name("illustrated")
    runs = client.search_runs([experiment.experiment_id])
    (cell,) = [run for run in runs if run.data.tags["crowdsweep.kind"] == "cell"]
    assert Path(client.download_artifacts(cell.info.run_id, "confusion.png")).read_bytes() == b"a picture"


def test_a_failed_trial_ends_as_failed(store: Path) -> None:
    sweep(store, outcomes())
    run = runs_in(store)[1][spec(3, groups=2).key]
    assert run.info.status == "FAILED"
    assert run.data.tags["crowdsweep.failure_kind"] == "NonFiniteObjective"
    assert "is nan" in run.data.tags["crowdsweep.failure_message"]
    text = MlflowClient(tracking_uri(store)).download_artifacts(run.info.run_id, "traceback.txt")
    assert Path(text).read_text().startswith("Traceback")


def test_going_on_records_nothing_twice(store: Path) -> None:
    sweep(store, outcomes((0, 1)))
    before = {key: run.info.run_id for key, run in runs_in(store)[1].items()}
    sweep(store, outcomes((2,)))
    cells, trials = runs_in(store)
    assert len(trials) == 3
    assert before.items() <= {key: run.info.run_id for key, run in trials.items()}.items()
    (cell,) = cells.values()
    assert (cell.info.status, counts(cell)) == ("FINISHED", (3, 0, 0))
    assert over_seeds(store, cell)["test_accuracy"][2] == 3


def test_a_success_replaces_the_failure_before_it(store: Path) -> None:
    sweep(store, outcomes((3,)))
    key = spec(3, groups=2).key
    assert runs_in(store)[1][key].info.status == "FAILED"
    sweep(store, [ok(key, test_accuracy=1.0)])
    run = runs_in(store)[1][key]
    assert (run.info.status, run.data.tags["crowdsweep.status"]) == ("FINISHED", "ok")
    assert "crowdsweep.failure_kind" not in run.data.tags


def test_a_crash_leaves_nothing_running(store: Path) -> None:
    """A driver died while its cell and one trial were open: the next one ends both, and writes the trial anew."""
    sweep(store, outcomes((0, 1)))
    cells, trials = runs_in(store)
    cut_short = trials[spec(1, groups=2).key].info.run_id
    parent = next(iter(cells.values())).info.run_id
    sql(store, f"UPDATE runs SET status = 'RUNNING', end_time = NULL WHERE run_uuid IN ('{cut_short}', '{parent}')")
    sweep(store, [])
    cells, trials = runs_in(store)
    assert {run.info.status for run in (*cells.values(), *trials.values())} == {"FINISHED"}
    assert "crowdsweep.interrupted" in cells[spec(1, groups=2).cell_key].data.tags
    assert trials[spec(1, groups=2).key].info.run_id != cut_short
    with sqlite3.connect(store / "mlflow.db") as database:
        assert database.execute("SELECT count(*) FROM runs WHERE status = 'RUNNING'").fetchone() == (0,)


@pytest.mark.parametrize("table", ["runs", "metrics"])
def test_a_database_that_stops_taking_rows_is_mended_by_mirror(
    store: Path, table: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(store, outcomes((0,)))
    # The trigger stands for a disk that fills up; as what it is it would be refused.
    monkeypatch.setattr(artifact_files, "_check_are_tables", lambda *_: None)
    refuse = f"CREATE TRIGGER refuse BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'readonly database'); END"
    sql(store, refuse)
    with caplog.at_level(logging.WARNING, logger="crowdsweep"):
        state = sweep(store, outcomes((1, 2, 3)))
    told = [record.getMessage() for record in caplog.records if record.name.startswith("crowdsweep")]
    assert len(state.results) == 4, "the sweep lost nothing"
    assert sum("cannot be written" in words for words in told) == 1
    assert "MLflow lacks 3 trials" in told
    with pytest.raises(BadInput, match="cannot be written"):
        rebuild(state, tracking_uri(store), "an experiment")
    sql(store, "DROP TRIGGER refuse")
    done = rebuild(state, tracking_uri(store), "an experiment")
    assert (done.found, done.written, done.refused, done.unknown) == (1, 3, 0, 0)
    cells, trials = runs_in(store)
    assert {key: run.info.status for key, run in trials.items()} == {
        spec(seed, groups=2).key: "FAILED" if seed == 3 else "FINISHED" for seed in SEEDS
    }
    (cell,) = cells.values()
    assert (cell.info.status, counts(cell)) == ("FINISHED", (3, 1, 0))
    assert rebuild(state, tracking_uri(store), "an experiment").written == 0


def test_a_cell_that_was_cut_short_is_completed(store: Path) -> None:
    """Its run was made, and then params were refused for a while."""
    sql(store, "CREATE TRIGGER refuse BEFORE INSERT ON params BEGIN SELECT RAISE(ABORT, 'readonly database'); END")
    state = sweep(store, outcomes((0,)))
    sql(store, "DROP TRIGGER refuse")
    rebuild(state, tracking_uri(store), "an experiment")
    cells, trials = runs_in(store)
    (cell,) = cells.values()
    assert (cell.info.status, cell.data.params["groups"]) == ("FINISHED", "2")
    assert len(trials) == 1


def test_mirror_into_nothing_writes_everything(store: Path) -> None:
    journal = Journal(store)
    journal.handle_many([started(), *outcomes()])
    journal.close()
    done = rebuild(read_journal(store), tracking_uri(store), "an experiment")
    assert str(done) == "4 trials written, 0 were already there"
    cells, trials = runs_in(store)
    assert (len(cells), len(trials)) == (1, 4)


def test_mirror_mends_what_was_deleted(store: Path) -> None:
    state = sweep(store, outcomes())
    cells, trials = runs_in(store)
    one, other = spec(0, groups=2).key, spec(1, groups=2).key
    client = MlflowClient(tracking_uri(store))
    client.delete_run(trials[one].info.run_id)
    sql(store, f"DELETE FROM latest_metrics WHERE key = 'dev_kl' AND run_uuid = '{trials[other].info.run_id}'")
    assert rebuild(state, tracking_uri(store), "an experiment").written == 2
    client.delete_run(next(iter(cells.values())).info.run_id)
    rebuild(state, tracking_uri(store), "an experiment")
    cells, trials = runs_in(store)
    (cell,) = cells.values()
    assert {run.data.tags["mlflow.parentRunId"] for run in trials.values()} == {cell.info.run_id}
    assert trials[other].data.metrics["dev_kl"] == 1.0


def test_a_trial_that_enters_the_report_is_marked(store: Path) -> None:
    key = spec(0, groups=2).key
    sweep(store, [TrialPlanned(spec=spec(0, phase="search", groups=2)), ok(key)])
    assert runs_in(store)[1][key].data.tags["crowdsweep.phase"] == "search"
    sweep(store, [TrialPlanned(spec=spec(0, groups=2))])
    cells, trials = runs_in(store)
    assert trials[key].data.tags["crowdsweep.phase"] == "report"
    assert next(iter(cells.values())).data.tags["crowdsweep.phase"] == "report"


def test_a_learning_curve_is_its_metrics_history_and_ends_with_its_final_value(store: Path) -> None:
    good, early = (replace(spec(seed), params={"epochs": 30}) for seed in (0, 1))
    curve = tuple((step, step / 100) for step in (10, 20, 30))
    result = replace(ok(good.key).result, metrics={"dev_accuracy": 0.9}, iterations=30, curve=curve)
    result = replace(result, watched="dev_accuracy")
    stopped = replace(result, key=early.key, status=Status.STOPPED, iterations=12, curve=curve[:1])
    stopped = replace(stopped, metrics={"dev_accuracy": 0.15})
    events: list[Event] = [TrialPlanned(spec=good), TrialPlanned(spec=early)]
    sweep(store, [*events, TrialFinished(result=result), TrialFinished(result=stopped)])
    cells, trials = runs_in(store)
    client = MlflowClient(tracking_uri(store))

    def history(key: str) -> list[tuple[int, float]]:
        points = client.get_metric_history(trials[key].info.run_id, "dev_accuracy")
        return [(point.step, point.value) for point in points]

    assert history(good.key) == [(10, 0.1), (20, 0.2), (30, 0.9)]
    assert history(early.key) == [(10, 0.1), (12, 0.15)]
    assert [trials[key].data.metrics["dev_accuracy"] for key in (good.key, early.key)] == [0.9, 0.15]
    assert [trials[key].info.status for key in (good.key, early.key)] == ["FINISHED", "KILLED"]
    assert trials[early.key].data.tags["crowdsweep.status"] == "stopped"
    (cell,) = cells.values()
    assert counts(cell) == (1, 0, 1)
    assert cell.data.metrics["dev_accuracy"] == 0.9
    assert rebuild(read_journal(store), tracking_uri(store), "an experiment").written == 0


def test_arrays_are_artifacts_of_their_trial(store: Path) -> None:
    journal = Journal(store)
    kept = journal.keep({"class_shares": np.array([0.5, 0.5]), "../../up": np.arange(3)})
    journal.close()
    key = spec(0).key
    result = replace(ok(key).result, kept={**kept, "large": Artifact(dtype="<f8", shape=(10**9,))})
    state = sweep(store, [TrialPlanned(spec=spec(0)), TrialFinished(result=result)])
    client = MlflowClient(tracking_uri(store))

    def files(experiment: str) -> dict[str, Path]:
        runs = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
        (run,) = [run.info.run_id for run in runs if run.data.tags["crowdsweep.kind"] == "trial"]
        return {file.path: Path(client.download_artifacts(run, file.path)) for file in client.list_artifacts(run)}

    rebuild(state, tracking_uri(store), "again", read=reader_of(store))
    for experiment in ("an experiment", "again"):
        found = files(experiment)
        assert set(found) == {"class_shares.npy", "______up.npy", "confusion.json"}
        np.testing.assert_array_equal(np.load(found["class_shares.npy"], allow_pickle=False), [0.5, 0.5])


def test_what_the_sweep_does_not_ask_for_any_more_is_marked_and_counts_nowhere(store: Path) -> None:
    """Two report seeds, then one; a fixed parameter, then another; and back."""

    def run(smoothing: float, seeds: int) -> dict[tuple[str, str], str]:
        searched = {"name": "one-coin", "search": {"smoothing": {"values": [0.1, 1.0]}}}
        config = parse_sweep(
            {
                "name": "marked",
                "datasets": ["anesthesia"],
                "models": [{"name": "majority-vote", "label": "vote", "params": {"smoothing": smoothing}}, searched],
                "seeds": {"search": 1, "report": seeds, "rescored": 2},
                "engine": "inline",
                "tracking": {"experiment": "an experiment"},
            }
        )
        assert app.run(config, store, quiet=True).status == "done"
        cells, trials = runs_in(store)
        votes = [cell for cell in cells.values() if cell.data.tags["crowdsweep.label"] == "vote"]
        (current,) = [cell for cell in votes if float(cell.data.params["smoothing"]) == smoothing]
        assert counts(current)[0] == seeds
        assert current.info.run_name.startswith("vote · anesthesia")
        assert {cell.data.tags["crowdsweep.asked"] for cell in votes if cell is not current} <= {"false"}
        chosen = [cell for cell in cells.values() if cell.data.tags["crowdsweep.chosen"] == "true"]
        assert {cell.data.tags["crowdsweep.label"] for cell in chosen} == {"vote", "one-coin"}
        assert len(chosen) == 2
        assert {counts(cell)[0] for cell in chosen} == {seeds}
        return {
            (run.data.params["smoothing"], run.data.tags["crowdsweep.seed"]): run.data.tags["crowdsweep.asked"]
            for run in trials.values()
            if run.data.tags["crowdsweep.label"] == "vote"
        }

    assert run(0.5, seeds=2) == {("0.5", "0"): "true", ("0.5", "1"): "true"}
    assert run(0.75, seeds=1) == {("0.5", "0"): "false", ("0.5", "1"): "false", ("0.75", "0"): "true"}
    assert run(0.5, seeds=1) == {("0.5", "0"): "true", ("0.5", "1"): "false", ("0.75", "0"): "false"}
    marks = {key: one.data.tags["crowdsweep.asked"] for key, one in runs_in(store)[1].items()}
    assert rebuild(read_journal(store), tracking_uri(store), "an experiment").written == 0
    assert {key: one.data.tags["crowdsweep.asked"] for key, one in runs_in(store)[1].items()} == marks


def test_what_is_too_long_is_cut_and_marked(store: Path) -> None:
    params = {f"p{number:03d}": number for number in range(250)}
    long = replace(spec(0), params={**params, "words": "w" * 10_000, "größe/µ?": [16, 16], "n" * 300: None})
    result = replace(
        ok(long.key).result,
        metrics={f"m{number:04d}": float(number) for number in range(1500)},
        objective=[float(step) for step in range(500)],
    )
    sweep(store, [TrialPlanned(spec=long), TrialFinished(result=result)])
    (run,) = runs_in(store)[1].values()
    assert run.info.status == "FINISHED"
    assert {run.data.params[f"p{number:03d}"] for number in range(250)} == {str(number) for number in range(250)}
    assert run.data.params["words"] == "w" * 5999 + "…"
    assert run.data.params["größe/µ_"] == "[16,16]"
    assert run.data.params["n" * 250] == "null"
    assert run.data.metrics["m1499"] == 1499
    history = MlflowClient(tracking_uri(store)).get_metric_history(run.info.run_id, "objective")
    assert len(history) == HISTORY_LIMIT
    assert (history[0].step, history[-1].step) == (0, 499)
    assert all(point.step == point.value for point in history)


def test_records_never_hold_what_is_not_finite() -> None:
    result = replace(ok("k").result, metrics={"a": math.inf, "b": 1.0}, objective=(math.nan, 2.0), wall_s=math.nan)
    record = trial_record(ShownTrial(spec=spec(0), label="m"), result, sweep="s", environment={})
    assert record.metrics["b"] == 1.0
    assert all(map(math.isfinite, record.metrics.values()))
    assert record.histories == {"objective": [(1, 2.0)]}
    assert record.tags["crowdsweep.non_finite"] == "a, objective"


def test_a_cell_reports_what_was_not_searched() -> None:
    shown = ShownTrial(spec=spec(0), label="m")
    searched = [CellTrial(phase="search", status=Status.OK, metrics={"a": 9.0})] * 3
    alone = cell_record(shown, searched, sweep="s")
    assert (alone.metrics, alone.texts["over_seeds.csv"].splitlines()[1]) == ({"a": 9.0}, "a,9.0,0.0,3")
    reported = [
        CellTrial(phase="report", status=Status.OK, metrics={"a": 1.0}),
        CellTrial(phase="report", status=Status.FAILED),
        CellTrial(phase="report", status=Status.OK, metrics={"a": 5.0}, asked=False),
    ]
    both = cell_record(shown, [*searched, *reported], sweep="s")
    assert (both.metrics, both.texts["over_seeds.csv"].splitlines()[1]) == ({"a": 1.0}, "a,1.0,,1")
    assert both.tags["crowdsweep.trials_failed"] == "1"
    assert cell_record(shown, reported[1:2], sweep="s").status == "FAILED"
    outdated = cell_record(shown, reported[2:], sweep="s")
    assert (outdated.metrics["a"], outdated.tags["crowdsweep.asked"]) == (5.0, "false")


def test_nothing_is_printed(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sweep(store, outcomes())
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_run_ids_are_told_while_the_sweep_runs(store: Path) -> None:
    told: list[Event] = []
    journal = MemoryJournal()
    mirror = MlflowMirror(store, experiment="an experiment", look=lambda: journal.state, record=told.append)
    for event in (started(), *outcomes()):
        journal.handle(event)
    mirror.handle(started())
    mirror.close()
    assert all(isinstance(event, RunsCreated) for event in told)
    assert {key for event in told if isinstance(event, RunsCreated) for key in event.runs} == {
        spec(0, groups=2).cell_key,
        *(spec(seed, groups=2).key for seed in SEEDS),
    }


def test_mirror_waits_for_the_driver_that_writes(store: Path) -> None:
    journal = Journal(store)
    for event in (started(), *outcomes()):
        journal.handle(event)
    with pytest.raises(BadInput, match="a sweep runs here and writes MLflow itself"):
        rebuild_runs(store)
    journal.close()
    assert "4 trials written" in rebuild_runs(store)


def test_a_result_whose_trial_is_not_described_is_left_out_by_name_and_not_refused(store: Path) -> None:
    """As after `repair` of a record that had lost a row of its plan."""
    journal = Journal(store)
    known = spec(0)
    journal.handle_many([started(), TrialPlanned(spec=known, label=known.model), ok(known.key), ok(spec(1).key)])
    journal.close()
    done = rebuild(read_journal(store), tracking_uri(store), "an experiment")
    assert (done.found, done.written, done.refused, done.unknown) == (0, 1, 0, 1)
    assert str(done).endswith("1 left out: the record has their results and not what they are")
