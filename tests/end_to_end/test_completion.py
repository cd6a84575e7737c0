"""Shell completion, as bash asks for it: names that exist, quickly, with nothing heavy imported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from crowdsweep.cli.commands import run_command_line
from crowdsweep.cli.completion import dataset_names
from crowdsweep.data import catalogue
from crowdsweep.registry import discovery


def completed(line: str, folder: Path, **more: str) -> list[str]:
    """Returns what bash is offered behind a line."""
    words = line.split(" ")
    environment = {**os.environ, "_CROWDSWEEP_COMPLETE": "bash_complete", "COMP_WORDS": line} | more
    done = subprocess.run(
        [sys.executable, "-m", "crowdsweep"],
        env={**environment, "COMP_CWORD": str(len(words) - 1), "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return [row.partition(",")[2] for row in done.stdout.splitlines() if row.startswith("plain")]


def test_names_of_models_datasets_and_sweeps_are_offered(tmp_path: Path, make_folders: dict[str, str]) -> None:
    assert completed("crowdsweep models cm", tmp_path) == [n for n in discovery.names("model") if n.startswith("cm")]
    assert completed("crowdsweep label x --model dawid", tmp_path) == ["dawid-skene"]
    assert completed("crowdsweep datasets ga", tmp_path) == ["gaussians"]
    assert completed("crowdsweep data check my", tmp_path, **make_folders) == ["my-votes"]
    (tmp_path / "crowdsweep-runs/mine").mkdir(parents=True)
    (tmp_path / "crowdsweep-runs/mine/journal.jsonl").touch()
    assert completed("crowdsweep status m", tmp_path) == ["mine"]
    assert completed("crowdsweep run quick", tmp_path) == ["quickstart"]
    assert completed("crowdsweep sweeps lab", tmp_path) == ["labelme"]
    assert "compare" not in completed("crowdsweep sto", tmp_path)
    assert completed("crowdsweep sto", tmp_path) == ["stop"]
    assert "--space" in completed("crowdsweep models --s", tmp_path)


@pytest.fixture
def make_folders(tmp_path: Path) -> dict[str, str]:
    """A folder of datasets on the search path."""
    (tmp_path / "data/my-votes").mkdir(parents=True)
    (tmp_path / "data/my-votes/votes.csv").touch()
    (tmp_path / "data/no-dataset").mkdir()
    return {"CROWDSWEEP_DATA": str(tmp_path / "data")}


def test_the_datasets_are_those_that_can_be_named(
    make_folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in make_folders.items():
        monkeypatch.setenv(name, value)
    assert dataset_names() == catalogue.names()
    assert "my-votes" in dataset_names()


def test_nothing_heavy_is_imported_to_complete() -> None:
    script = """
import sys
from click.shell_completion import BashComplete
from crowdsweep.cli.commands import commands
complete = BashComplete(commands, {}, "crowdsweep", "X").get_completions
asked = {"models": "cm", "datasets": "ga", "status": "", "run": "q"}
print(sum(len(complete([command], start)) for command, start in asked.items()), end=" ")
print(sorted({"numpy", "torch", "ray", "mlflow", "optuna", "rich", "pydantic"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    number, _, heavy = done.stdout.strip().partition(" ")
    assert int(number) >= 4
    assert heavy == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_one(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_CROWDSWEEP_COMPLETE={shell}_complete" in script
    assert "crowdsweep" in script
    if (installed := shutil.which(shell)) is not None:
        (tmp_path / "script").write_text(script)
        assert subprocess.run([installed, "-n", str(tmp_path / "script")], check=False).returncode == 0
