"""A sweep whose record lies in an object store: every command that takes a store takes this one."""

import json
import re
import secrets
import threading
import time
from pathlib import Path

import pytest
from object_stores import BUCKET, N_TRIALS, SMALL_SWEEP, VARIABLES, place

import crowdsweep
from crowdsweep.cli.commands import run_command_line
from crowdsweep.record.journal import read_journal
from crowdsweep.record.objects import Objects
from crowdsweep.record.store_uri import StoreUri
from crowdsweep.tracking import ui
from crowdsweep.tracking.tracked_elsewhere import ServedElsewhere

pytestmark = [pytest.mark.xdist_group("s3"), pytest.mark.usefixtures("s3")]

SWEEP = SMALL_SWEEP.replace("DATASET", "birds")
ITEMS = 12
SLOW = """
name: slow
datasets: [birds]
models: [{name: slow, params: {pause_s: 0.2}}]
seeds: {report: 12}
pack: 1
engine: inline
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoreUri:
    """A place in the bucket, and a folder to stand in that holds the sweep's file."""
    (tmp_path / "small.yaml").write_text(SWEEP)
    (tmp_path / "birds").mkdir()
    says = [(item, annotator, (item + (annotator == item % 5)) % 3) for item in range(ITEMS) for annotator in range(4)]
    rows = [f"item-{item},annotator-{annotator},class-{label}" for item, annotator, label in says]
    (tmp_path / "birds" / "annotations.csv").write_text("\n".join(["item,annotator,label", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    return place(f"runs/{secrets.token_hex(4)}")


def command(*words: object, code: int = 0) -> None:
    assert run_command_line([str(word) for word in words]) == code


def names(store: StoreUri) -> set[str]:
    return {one.name for one in Objects(store).names("")}


def test_a_sweep_from_run_to_labels(
    store: StoreUri, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    command("run", "small.yaml", "--store", store, "--quiet")
    assert f"report:  {store}/report.html" in capsys.readouterr().out
    assert f"MLflow is left out, as its database cannot be stored in {store}" in caplog.text
    assert {"report.html", "table.csv", "results.parquet", ".crowdsweep.json"} <= names(store)
    assert {path.name for path in tmp_path.iterdir()} == {"birds", "small.yaml"}  # nothing is left here

    command("status", store, "--json")
    status = json.loads(capsys.readouterr().out)
    assert (status["status"], status["done"], status["total"]) == ("done", N_TRIALS, N_TRIALS)
    command("results", store, "--phase", "all", "--format", "json")
    assert len(json.loads(capsys.readouterr().out)) == N_TRIALS

    before = {name: Objects(store).get(name) for name in names(store)}
    command("run", "small.yaml", "--store", store, "--quiet")  # nothing is done twice
    assert len(read_journal(store).results) == N_TRIALS
    capsys.readouterr()

    Objects(store).remove(["table.md"])
    command("report", store)
    assert capsys.readouterr().out.strip() == f"{store}/report.html"
    assert Objects(store).get("table.md") == before["table.md"]

    command("label", store)
    assert f"{store}/labels: " in capsys.readouterr().out
    assert {"labels/labels.csv", "labels/annotators.csv", "labels/label.yaml"} <= names(store)
    command("label", store, "--model", "majority-vote")  # ours, and so replaced
    assert b"majority-vote" in Objects(store).get("labels/label.yaml")
    command("label", store, "--out", tmp_path / "here")
    assert (tmp_path / "here" / "labels.csv").is_file()

    command("compare", store, store)
    capsys.readouterr()
    command("list", store.parent, "--json")
    listed = {one["folder"]: one["state"] for one in json.loads(capsys.readouterr().out)}
    assert listed[str(store)] == "done"
    command("repair", store)
    assert "sound" in capsys.readouterr().out
    command("ui", store, code=2)
    assert "MLflow's database cannot be stored in an object store" in capsys.readouterr().err
    command("mirror", store, code=2)
    assert "give tracking.uri or MLFLOW_TRACKING_URI" in capsys.readouterr().err
    command("stop", store, code=2)
    assert "expected a sweep that runs, and none does" in capsys.readouterr().err
    contents = b"".join(Objects(store).get(name) or b"" for name in names(store))
    assert b"annotator-3" in contents
    assert not any(VARIABLES[name].encode() in contents for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))


def test_what_a_person_put_there_stays(
    store: StoreUri, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    Objects(store).put("report.html", b"mine")
    command("run", "small.yaml", "--store", store, "--quiet", code=2)
    assert f"{store}: report.html would be overwritten" in capsys.readouterr().err
    assert Objects(store).get("report.html") == b"mine"
    Objects(store).put("labels/labels.csv", b"mine too")
    Objects(store).remove(["report.html"])
    command("run", "small.yaml", "--store", store, "--quiet")
    command("label", store, code=2)
    assert f"{store}/labels: " in capsys.readouterr().err
    assert Objects(store).get("labels/labels.csv") == b"mine too"


@pytest.mark.long
def test_mlflow_is_written_where_it_is_said_to_be(
    store: StoreUri,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    uri = f"sqlite:///{tmp_path}/tracked.db"
    command("run", "small.yaml", "--store", store, "--quiet", "--set", f"tracking.uri={uri}")
    assert "left out" not in caplog.text
    capsys.readouterr()
    command("mirror", store)
    assert f"0 trials written, {N_TRIALS} were already there" in capsys.readouterr().out
    served: list[ServedElsewhere] = []
    monkeypatch.setattr(ui, "_serve", lambda what, *_: served.append(what) or 0)
    command("ui", store)
    assert [what.uri for what in served] == [uri]


def test_another_driver_goes_on_from_another_folder(
    store: StoreUri, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was killed here, whose machine is not there any more either."""
    command("run", "small.yaml", "--store", store, "--quiet", "--set", "seeds.report=1")
    done = dict(read_journal(store).results)
    objects = Objects(store)
    last = max(one.name for one in objects.names("journal"))
    objects.remove([last])  # it never said that it ended
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr("crowdsweep.record.object_writer.is_gone", lambda driver: True)
    (tmp_path / "elsewhere" / "small.yaml").write_text(SWEEP)
    (tmp_path / "birds").rename(tmp_path / "elsewhere" / "birds")
    command("run", "small.yaml", "--store", store, "--quiet")
    results = read_journal(store).results
    assert len(results) == N_TRIALS
    assert {key: results[key] for key in done} == done
    assert len(read_journal(store).started) == 2


@pytest.mark.usefixtures("misbehaving")
def test_stop_ends_a_sweep_that_another_process_runs(
    store: StoreUri, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`stop` reaches the driver by the store alone: what runs is finished."""
    Path("slow.yaml").write_text(SLOW)
    stopped: list[int] = []

    def stop() -> None:
        until = time.monotonic() + 500
        while time.monotonic() < until:
            if len(names(store)) > 3:
                stopped.append(run_command_line(["stop", str(store)]))
                return
            time.sleep(0.1)

    thread = threading.Thread(target=stop)
    thread.start()
    command("run", "slow.yaml", "--store", store, "--quiet", code=130)
    thread.join()
    assert stopped == [0]
    assert "asked process" in capsys.readouterr().out
    assert read_journal(store).status == "interrupted"


def test_from_python(store: StoreUri) -> None:
    found = crowdsweep.run("small.yaml", store=str(store), quiet=True)
    assert (found.store, found.report) == (store, store / "report.html")
    again = crowdsweep.results(str(store))
    assert again.status["done"] == N_TRIALS
    assert again.label().labels.num_rows == ITEMS


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("s3://nobody-made-this/x", "expected a bucket .* called nobody-made-this, and the server has none"),
        ("nowhere://bucket/x", "another kind of URI"),
        ("s3://key:secret@bucket/x", "without credentials"),
        (f"s3://{BUCKET}/no/such/sweep", "no journal here|no journal to repair|expected a sweep that runs"),
    ],
)
@pytest.mark.parametrize("verb", ["status", "results", "report", "mirror", "repair", "label", "stop"])
@pytest.mark.usefixtures("store")
def test_a_store_that_is_not_there_is_told_in_words(
    given: str, words: str, verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///nowhere.db")
    command(verb, given, code=2)
    told = capsys.readouterr().err
    assert re.search(words, told)
    assert "secret" not in told
    assert {path.name for path in Path().iterdir()} == {"birds", "small.yaml"}
