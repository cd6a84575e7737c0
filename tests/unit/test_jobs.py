"""A sweep that is sent to a cluster: what is packed, what is noted, and what is said where it cannot be sent."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from data_folders import folder_of
from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR

from crowdsweep.cli import jobs as commands_on_jobs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.engine import ray_jobs
from crowdsweep.engine.job_folder import VARIABLE, check_outlives_job
from crowdsweep.engine.ray_jobs import Jobs, JobState
from crowdsweep.engine.versions import versions
from crowdsweep.errors import BadInput, DataError, ForeignFile, Interrupted, JournalError, UnknownName
from crowdsweep.record.job_note import JOB_FILE, JobNote, read_job, write_job
from crowdsweep.record.store_uri import store_named
from crowdsweep.sweep.environment import check_versions
from crowdsweep.sweepfile import job_package
from crowdsweep.sweepfile.job_package import JobOrder, pack, read_order, search_in
from crowdsweep.sweepfile.read import config_to_mapping, load_sweep

ORDER = JobOrder(
    job="crowdsweep-first-0", store="/runs/first", is_shared=True, versions={"python": "3.11.0"}, again=["crowdsweep"]
)
NOTE = JobNote(job="crowdsweep-first-0", address="http://127.0.0.1:8265", submitted="2026-11-29T21:00:00+00:00")
ANNOTATIONS = "item,annotator,label\np1,ann,a\np1,bob,b\np2,ann,b\n"


def dataset(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "annotations.csv").write_text(ANNOTATIONS)
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """A sweep of two folders of one name, of one found by its name, and of a dataset that is built in."""
    dataset(tmp_path / "a/photos")
    dataset(tmp_path / "b/photos")
    dataset(tmp_path / "known/birds")
    (tmp_path / "runs/earlier").mkdir(parents=True)
    (tmp_path / "runs/earlier/journal.jsonl").write_text("rows")
    (tmp_path / "a/photos/.gitignore").write_text("*.csv\n")  # Ray would leave them out
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "name: first\ndatasets: [a/photos, b/photos, birds, anesthesia]\n"
        "models:\n  - majority-vote\n"
        "  - {name: dawid-skene, datasets: [a/photos], search: {smoothing: {values: [0.01, 1e-3]}}}\n"
        "sampler: {warm_start: [runs/earlier, s3://bucket/far]}\n"
        "published: {table: '1', values: [{model: majority-vote, dataset: birds, metric: dev_accuracy, value: .5}]}\n"
    )
    return path


def test_a_package_is_the_same_sweep_on_the_same_data(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path / "known"))
    config, package = load_sweep(sweep, ["seeds.report=2"]), tmp_path / "package"
    package.mkdir()
    pack(config, ORDER, package)
    for gone in ("a", "b", "known", "runs"):
        (tmp_path / gone).rename(tmp_path / f"{gone}-elsewhere")
    for name, value in search_in(package).items():
        monkeypatch.setenv(name, value)
    there = load_sweep(package / job_package.SWEEP_FILE)
    assert [Path(entry.name).name for entry in there.datasets] == ["photos", "photos", "birds", "anesthesia"]
    assert there.datasets[2].name == "birds"
    for entry in there.datasets[:2]:
        assert (Path(entry.name) / "annotations.csv").read_text() == ANNOTATIONS
        assert Path(entry.name).is_relative_to(package)
    assert there.models[1].datasets == (there.datasets[0].name,)
    assert (there.seeds.report, there.published) == (2, config.published)
    assert list(there.sampler.warm_start) == [str((package / "earlier/earlier").resolve()), "s3://bucket/far"]
    assert (package / "earlier/earlier/journal.jsonl").read_text() == "rows"
    same = replace(
        there,
        datasets=config.datasets,
        sampler=config.sampler,
        models=(there.models[0], replace(there.models[1], datasets=config.models[1].datasets)),
    )
    assert config_to_mapping(same) == config_to_mapping(config)
    assert read_order(package) == replace(ORDER, again=("crowdsweep",))
    assert not list(package.rglob(".*"))


def test_plugins_go_along_with_what_they_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one/table").mkdir(parents=True)
    (tmp_path / "two/__pycache__").mkdir(parents=True)
    for place in ("one/echo.py", "one/table/words.txt", "two/other.py", "two/__pycache__/other.pyc", "two/.secret"):
        (tmp_path / place).write_text("")
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}")
    (tmp_path / "sweep.yaml").write_text("name: first\ndatasets: [anesthesia]\nmodels: [majority-vote]\n")
    package = tmp_path / "package"
    package.mkdir()
    pack(load_sweep(tmp_path / "sweep.yaml"), ORDER, package)
    found = sorted(str(path.relative_to(package)) for path in (package / "plugins").rglob("*") if path.is_file())
    assert found == ["plugins/0/echo.py", "plugins/0/table/words.txt", "plugins/1/other.py"]
    monkeypatch.setenv(
        "CROWDSWEEP_PLUGINS", str(tmp_path / "one")
    )  # the cluster has them too: they are not defined twice
    expected = [str(package / "plugins/0"), str(package / "plugins/1")]
    assert search_in(package)["CROWDSWEEP_PLUGINS"].split(os.pathsep) == expected


def test_what_is_too_large_or_not_there_is_told_before_anything_is_sent(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnknownName, match="birds"):
        pack(load_sweep(sweep, ["published.values=[]"]), ORDER, tmp_path)
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path / "known"))
    monkeypatch.setattr(job_package, "MOST_BYTES", 20)
    with pytest.raises(BadInput, match="expected at most 0 MiB"):
        pack(load_sweep(sweep), ORDER, tmp_path)
    with pytest.raises(BadInput, match="packages, got another folder"):
        read_order(tmp_path)
    (tmp_path / "package.json").write_text(json.dumps({"job": 3}))
    with pytest.raises(BadInput, match="field 'job': expected text"):
        read_order(tmp_path)


def test_images_are_not_sent_and_it_is_said_how_to_send_what_is_computed_of_them(tmp_path: Path) -> None:
    folder_of(
        tmp_path / "album", annotations="item,annotator,label\np1,ann,cat\np1,bob,dog\n", items="item,image\np1,1.png\n"
    )
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text("name: s\ndatasets: [{name: album, features: {image: timm/x}}]\nmodels: [majority-vote]\n")
    with pytest.raises(DataError, match=r"album.*got \{image: timm/x\}.*features='image:timm/x'\).save\(FOLDER\)"):
        pack(load_sweep(sweep), ORDER, tmp_path)
    assert not (tmp_path / "package.json").exists()
    pack(load_sweep(sweep, ["datasets.album.features=none"]), ORDER, tmp_path)


def test_a_note_is_read_again_and_no_other_file_is_touched(tmp_path: Path) -> None:
    assert read_job(tmp_path / "first") is None
    write_job(tmp_path / "first", NOTE)
    again = replace(NOTE, job="crowdsweep-first-1", elsewhere="/runs/first")
    write_job(tmp_path / "first", again)
    assert read_job(tmp_path / "first") == again
    place = tmp_path / "first" / JOB_FILE
    for text in ("mine", json.dumps({"job": "a b", "address": NOTE.address, "submitted": NOTE.submitted})):
        place.write_text(text)
        assert read_job(tmp_path / "first") is None
        with pytest.raises(ForeignFile, match="expected the note of a job"):
            write_job(tmp_path / "first", NOTE)
        assert place.read_text() == text
    place.unlink()
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignFile):
        write_job(tmp_path / "first", NOTE)
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="cannot be written"):
        write_job(tmp_path / "file" / "store", NOTE)


def test_other_versions_are_refused_by_name() -> None:
    check_versions({})
    check_versions(versions())
    check_versions({"torch": f"{versions()['torch'].partition('+')[0]}+cu130"})  # the same, for another device
    with pytest.raises(BadInput, match=r"numpy 1\.0, got \d.*--any-versions"):
        check_versions({**versions(), "numpy": "1.0"})
    with pytest.raises(BadInput, match=r"lacking 1\.0, got none"):
        check_versions({"lacking": "1.0"})


@pytest.mark.parametrize(
    ("job", "has_one"),
    [
        (None, False),
        ({}, False),
        ({"runtime_env": {"env_vars": {"A": "1"}}}, False),
        ({"runtime_env": {"working_dir": "gcs://_ray_pkg_0.zip"}}, True),
        ([], False),
    ],
)
@pytest.mark.unchecked
def test_a_job_s_own_working_directory_is_the_only_one(
    job: object, has_one: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray refuses a driver that asks for another one than its job's."""
    from crowdsweep.engine import cluster

    class Folder:
        def made(self, name: str) -> Path:
            return tmp_path / name

    monkeypatch.delenv("RAY_JOB_CONFIG_JSON_ENV_VAR", raising=False)
    if job is not None:
        monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", json.dumps(job))
    asked = cluster._settings(Folder())["runtime_env"]
    assert asked == ({} if has_one else {"working_dir": str(tmp_path / "work")})


class Told:
    """A client that answers as Ray's does."""

    def __init__(self, logs: list[list[str] | BaseException], states: list[str]) -> None:
        self.logs, self.states, self.stopped = logs, states, list[str]()
        self.exit_code = 3

    async def tail_job_logs(self, job: str) -> Any:
        said = self.logs.pop(0)
        if isinstance(said, BaseException):
            raise said
        for text in said:
            yield text

    def get_job_info(self, job: str) -> Any:
        state, code = self.states.pop(0) if len(self.states) > 1 else self.states[0], self.exit_code

        class Info:
            status = type("Status", (), {"value": state})
            message = "it said so"
            driver_exit_code = code if state == "FAILED" else None

        return Info

    def submit_job(self, *, entrypoint: str, submission_id: str, runtime_env: dict[str, Any]) -> None:
        package = Path(runtime_env["working_dir"])
        self.sent = {str(path.relative_to(package)) for path in package.rglob("*") if path.is_file()}
        self.order = read_order(package)
        assert submission_id == self.order.job

    def stop_job(self, job: str) -> None:
        self.stopped.append(job)


@contextmanager
def answering(client: Told) -> Iterator[Jobs]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_jobs, "_check_answers", lambda address: None)
        patch.setattr(ray_jobs, "_client", lambda address: client)
        patch.setattr(ray_jobs, "_PAUSE_S", 0.0)
        yield Jobs(NOTE.address)


def test_a_log_is_told_once_however_often_its_connection_breaks() -> None:
    logs: list[list[str] | BaseException] = [["one\n", "tw"], OSError("gone"), ["one\ntwo\n", "three\n"]]
    client, said = Told(logs, ["RUNNING", "RUNNING", "FAILED"]), list[str]()
    with answering(client) as jobs:
        state = jobs.follow(NOTE.job, said.append)
    assert "".join(said) == "one\ntwo\nthree\n"
    assert state == JobState(status="FAILED", message="it said so", exit_code=3)


def test_a_driver_that_was_interrupted_is_a_job_that_was_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To Ray it has failed, and its message is the end of the log."""
    write_job(tmp_path / "store", NOTE)
    client = Told([], ["FAILED"])
    for client.exit_code, words in ((130, ": stopped, exit 130"), (2, ": failed, exit 2: it said so")):
        with answering(client):
            assert run_command_line(["status", str(tmp_path / "store")]) == 0
        assert capsys.readouterr().out.strip().endswith(words)


def test_status_and_stop_find_a_job_by_its_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_job(tmp_path / "store", NOTE)
    (tmp_path / "store/journal.jsonl").touch()  # its driver is about to begin
    client = Told([], ["PENDING"])
    with answering(client):
        assert run_command_line(["status", "store"]) == 0
        assert run_command_line(["stop", "store"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"job {NOTE.job} of {NOTE.address}, submitted {NOTE.submitted}: pending" in said
    assert "asked the job" in said
    assert client.stopped == [NOTE.job]
    with answering(Told([], ["FAILED"])):
        assert run_command_line(["status", "store", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["job"]["state"] == "failed, exit 3: it said so"
        assert run_command_line(["stop", "store"]) == 2
    assert "its job crowdsweep-first-0 has ended (failed)" in " ".join(capsys.readouterr().err.split())


def test_a_cluster_that_is_gone_does_not_hide_the_record(tmp_path: Path) -> None:
    write_job(tmp_path, replace(NOTE, address="http://127.0.0.1:1"))
    found = commands_on_jobs.job_of(tmp_path)
    assert found is not None
    assert found["state"].startswith("not known: http://127.0.0.1:1: expected a cluster's dashboard")


def test_the_driver_refuses_a_store_that_is_not_the_one_of_the_submission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sweep.yaml").write_text("name: first\ndatasets: [anesthesia]\nmodels: [majority-vote]\n")
    package = tmp_path / "package"
    package.mkdir()
    pack(load_sweep(tmp_path / "sweep.yaml"), replace(ORDER, store=str(tmp_path / "store"), versions={}), package)
    monkeypatch.chdir(package)
    write_job(tmp_path / "store", replace(NOTE, job="crowdsweep-first-9"))
    assert run_command_line(["submitted"]) == 2
    assert "expected a folder that the cluster sees" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "store" / "journal.jsonl").exists()


def submitting(sweep: Path, client: Told, *words: str) -> int:
    with answering(client):
        return run_command_line(["submit", str(sweep), "--address", NOTE.address, *words])


def test_submit_sends_the_sweep_and_notes_its_job(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path / "known"))
    monkeypatch.chdir(tmp_path)
    client = Told([], ["PENDING"])
    assert submitting(sweep, client, "--detach", "--set", "seeds.report=2") == 0
    assert client.sent == {
        "sweep.yaml",
        "package.json",
        "data/birds/annotations.csv",
        "data/others/0/photos/annotations.csv",
        "data/others/1/photos/annotations.csv",
        "earlier/earlier/journal.jsonl",
    }
    note = read_job(tmp_path / "crowdsweep-runs/first")
    assert note is not None
    assert (note.job, note.address, note.elsewhere) == (client.order.job, NOTE.address, "")
    assert client.order.store == str(tmp_path / "crowdsweep-runs/first")
    assert client.order.versions == versions()
    assert list(client.order.overrides) == ["seeds.report=2"]
    assert "submitted to http://127.0.0.1:8265 as crowdsweep-first-" in " ".join(capsys.readouterr().out.split())

    assert submitting(sweep, client, "--detach", "--cluster-store", "/runs/it", "--any-versions") == 0
    note = read_job(tmp_path / "crowdsweep-runs/first")
    assert note is not None
    assert (note.elsewhere, client.order.store, client.order.is_shared) == ("/runs/it", "/runs/it", False)
    assert client.order.versions == {}


def test_a_record_in_an_object_store_needs_no_note(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path / "known"))
    monkeypatch.chdir(tmp_path)
    client = Told([], ["PENDING"])
    assert submitting(sweep, client, "--detach", "--store", "s3://bucket/first") == 0
    assert (client.order.store, client.order.is_shared) == ("s3://bucket/first", False)
    assert not (tmp_path / "crowdsweep-runs").exists()
    assert not list(tmp_path.glob("s3*"))


@pytest.mark.parametrize(
    ("state", "code"), [("SUCCEEDED", 0), ("FAILED", 3), ("STOPPED", 130)], ids=["well", "with failures", "stopped"]
)
def test_a_followed_job_ends_as_run_does(
    state: str,
    code: int,
    sweep: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path / "known"))
    monkeypatch.chdir(tmp_path)
    assert submitting(sweep, Told([["said there\n"]], [state])) == code
    assert capsys.readouterr().out == "said there\n"


def test_ctrl_c_lets_go_of_a_followed_job(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", str(tmp_path / "known"))
    monkeypatch.chdir(tmp_path)
    client = Told([Interrupted()], ["RUNNING"])
    assert submitting(sweep, client) == 130
    assert "detached from crowdsweep-first-" in " ".join(capsys.readouterr().err.split())
    assert client.stopped == []


def test_one_kind_of_store_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["submit", str(tmp_path), "--store", "a", "--cluster-store", "/b"]) == 2
    assert run_command_line(["submit", str(tmp_path), "--cluster-store", "b"]) == 2
    said = capsys.readouterr().err
    assert "expected one of them" in said
    assert "a path from the root on" in said


def test_the_entrypoint_is_a_command_that_there_is() -> None:
    from crowdsweep.cli.commands import commands
    from crowdsweep.cli.submit import ENTRYPOINT

    words = ENTRYPOINT.split()
    assert words[:5] == ["exec", "python", "-P", "-m", "crowdsweep"]
    assert isinstance(commands.commands[words[5]], click.Command)


@pytest.mark.parametrize(
    ("store", "outlives"), [("crowdsweep-runs/a", False), ("/runs/a", True), ("s3://runs/a", True)]
)
def test_a_record_does_not_go_where_a_job_s_files_are_deleted(
    store: str, outlives: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = store_named(store)
    check_outlives_job(place)  # no job: it is a folder like any other
    assert VARIABLE == RAY_JOB_CONFIG_JSON_ENV_VAR
    monkeypatch.setenv(VARIABLE, json.dumps({"runtime_env": {"working_dir": "gcs://_ray_pkg_0"}}))
    if outlives:
        check_outlives_job(place)
        return
    with pytest.raises(BadInput, match=f"--store {store}: expected a place that outlives this job"):
        check_outlives_job(place)
