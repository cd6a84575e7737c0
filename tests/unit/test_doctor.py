"""`doctor`: what it finds here, and that it finds what is wrong, with what to do."""

import json
import os
import shutil
import socket
import subprocess
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import crowdsweep as cs
from crowdsweep import machine
from crowdsweep.cli.commands import run_command_line
from crowdsweep.health import examination, hardware, installation, places, surroundings
from crowdsweep.health.finding import Finding


def one(found: list[Finding], what: str) -> Finding:
    (finding,) = [finding for finding in found if finding.what == what]
    return finding


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "CROWDSWEEP_DATA", "CROWDSWEEP_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def torch_says(monkeypatch: pytest.MonkeyPatch):
    """Has the process that asks torch say something, without starting it."""

    def says(told: object = None, *, code: int = 0, error: str = "") -> None:
        answer = subprocess.CompletedProcess([], code, stdout=json.dumps(told), stderr=error)
        monkeypatch.setattr(hardware.subprocess, "run", lambda *_, **__: answer)

    says(["2.9.0", [], ""])
    return says


def test_here_a_sweep_would_run_and_nothing_is_left_behind(
    here: Path, torch_says, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["doctor"]) == 0
    told = capsys.readouterr().out
    kinds = [line.split()[0] for line in told.splitlines()[:-1]]
    assert set(kinds) <= {"ok", "note"}
    for what in ("versions", "libraries", "cores", "memory", "GPUs", "records", "temporary files", "ports", "tracking",
                 "cluster", "datasets", "plug-ins", "extra cloud", "extra cluster"):  # fmt: skip
        assert f" {what}: " in told, what
    assert told.splitlines()[-1] == "A default sweep runs here; `crowdsweep demo` shows one."
    assert [*here.iterdir()] == []
    assert run_command_line(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["would_run"] is True
    assert [one["what"] for one in found["findings"]] == [one.what for one in cs.doctor()]


def test_a_problem_is_the_exit_code_and_stands_with_what_to_do(
    torch_says, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nowhere")
    assert run_command_line(["doctor"]) == 2
    told = capsys.readouterr().out
    assert "problem  cluster: RAY_ADDRESS 'nowhere': expected host:port" in told
    assert "unset RAY_ADDRESS" in told
    assert told.splitlines()[-1] == "No sweep can run here yet: fix each problem."
    assert examination.would_run([Finding(what="x", verdict="note", words="")])


def test_the_cards_that_torch_sees_are_told(torch_says) -> None:
    assert one(hardware.hardware(), "GPUs").words == "torch 2.9.0 sees none, and models run on the CPU"
    torch_says(["2.9.0", [["H200", 140 << 30]], ""])
    found = one(hardware.hardware(), "GPUs")
    assert (found.verdict, found.words) == ("ok", "torch 2.9.0 sees H200 (140.0 GiB)")
    torch_says(["2.9.0", [["K80", 12 << 30]], "torch 2.9.0 of this machine cannot use cuda:0: too old"])
    found = one(hardware.hardware(), "GPUs")
    assert (found.verdict, "too old" in found.words, "on the CPU" in found.then) == ("note", True, True)


def test_a_driver_without_a_torch_for_it_is_told(torch_says, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "version").touch()
    monkeypatch.setattr(hardware, "_DRIVER", str(here / "version"))
    found = one(hardware.hardware(), "GPUs")
    assert (found.verdict, "NVIDIA's driver" in found.then) == ("note", True)


def test_a_torch_that_cannot_be_imported_is_a_problem(torch_says) -> None:
    torch_says(code=1, error="Traceback\nOSError: libcudart.so.12: cannot open")
    found = one(hardware.hardware(), "torch")
    assert (found.verdict, "libcudart.so.12" in found.words) == ("problem", True)


@pytest.mark.parametrize(("free", "verdict"), [(1 << 29, "problem"), (2 << 30, "note"), (8 << 30, "ok")])
def test_little_memory_is_told(torch_says, monkeypatch: pytest.MonkeyPatch, free: int, verdict: str) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda: free)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 16 << 30)
    found = one(hardware.hardware(), "memory")
    assert found.verdict == verdict
    assert found.words.endswith(" free of 16.0 GiB")
    assert bool(found.then) is (verdict != "ok")


def test_what_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    known = installation.version

    def version(name: str) -> str:
        if name == "obstore":
            raise PackageNotFoundError(name)
        return "1.0" if name == "optuna" else known(name)

    monkeypatch.setattr(installation, "version", version)
    found = installation.installation()
    cloud = one(found, "extra cloud")
    assert (cloud.verdict, cloud.words) == (
        "note",
        "not installed: records in S3, Google Cloud and Azure (`--store s3://…`)",
    )
    assert "`pip install 'crowdsweep[cloud]'` brings obstore>=" in cloud.then
    libraries = one(found, "libraries")
    assert libraries.verdict == "problem"
    assert "optuna>=5.0 (here is 1.0)" in libraries.words


def test_a_part_that_an_extra_of_another_package_brings_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = {
        "crowdsweep": [
            "click>=8; python_version >= '3.11'",
            "ray[default]>=2; extra == 'cluster'",
            "x; extra == 'dev'",
        ],
        "ray": ["click", "aiohttp-cors; extra == 'default'", "old; python_version < '3' and extra == 'default'"],
    }
    monkeypatch.setattr(installation, "requires", needs.get)
    has = {"click": "8.1", "ray": "2.59"}

    def version(name: str) -> str:
        if name not in has:
            raise PackageNotFoundError(name)
        return has[name]

    monkeypatch.setattr(installation, "version", version)
    assert [*installation.lacking("crowdsweep")] == []
    assert [*installation.lacking("crowdsweep", "cluster")] == ["aiohttp-cors"]
    has["click"] = "7"
    assert [*installation.lacking("crowdsweep")] == ["click>=8 (here is 7)"]


def test_a_folder_that_cannot_be_written_or_locked_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert one(places.places(), "records").verdict == "ok"

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(places.fcntl, "flock", refuse)
        found = one(places.places(), "records")
    assert (found.verdict, "No locks available" in found.words, "--store" in found.then) == ("problem", True, True)
    with monkeypatch.context() as patch:
        patch.setattr(places.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 8, 1))
        found = places.places()
    assert (one(found, "records").verdict, one(found, "shared memory").verdict) == ("note", "note")
    monkeypatch.setenv("RAY_TMPDIR", str(here / "gone"))
    assert one(places.places(), "temporary files").verdict == "problem"


def test_a_port_that_is_taken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(places, "_UI_PORT", taken.getsockname()[1])
        found = one(places.places(), "ports")
    assert (found.verdict, "--port" in found.then) == ("note", True)


def test_a_tracking_server_that_is_away_is_told_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    assert one(surroundings.surroundings(), "tracking").verdict == "ok"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:hunter2@127.0.0.1:1")
    found = one(surroundings.surroundings(), "tracking")
    assert (found.verdict, "no tracking server answers at 127.0.0.1:1" in found.words) == ("note", True)
    assert "hunter2" not in str(found)
    assert "crowdsweep mirror" in found.then


def test_a_cluster_that_is_away_and_one_that_is_none_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for address, verdict, words in (
        ("auto", "ok", "the cluster of this machine"),
        ("127.0.0.1:1", "problem", "nothing answers at 127.0.0.1:1"),
        ("ray://head:10001", "problem", "Ray Client is not supported"),
    ):
        monkeypatch.setenv("RAY_ADDRESS", address)
        found = one(surroundings.surroundings(), "cluster")
        assert (found.verdict, words in found.words) == (verdict, True), address


def test_folders_that_are_named_and_missing_are_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDSWEEP_DATA", os.pathsep.join([str(here), str(here / "gone")]))
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(here / "lost"))
    found = surroundings.surroundings()
    for what, name in (("datasets", "gone"), ("plug-ins", "lost")):
        assert one(found, what).verdict == "note"
        assert name in one(found, what).words
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(here))
    (here / "mace.py").write_text("MODEL = None\n")
    found_twice = one(surroundings.surroundings(), "plug-ins")
    assert (found_twice.verdict, "is defined twice" in found_twice.words) == ("problem", True)
