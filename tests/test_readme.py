"""The README's files are written, its commands run in order, and what it says of the project is so."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)?(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    """Returns (language, file name, text) of each fenced block."""
    return [(language or "", name or "", text) for language, name, text in BLOCK.findall(README)]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Runs the whole tour once, in an empty folder, and returns the folder and what was printed."""
    folder = tmp_path_factory.mktemp("tour")
    commands: list[str] = []
    for language, name, text in blocks():
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        elif language == "sh":
            commands.append(text)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("CROWDSWEEP_DATA", None)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder, done.stdout


def test_every_command_of_the_tour_runs(tour: tuple[Path, str]) -> None:
    folder, printed = tour
    assert (folder / "crowdsweep-runs/first/report.html").stat().st_size > 10_000
    assert (folder / "imported/annotations.csv").is_file()
    assert "0 to go" in printed


def test_the_added_model_dataset_and_template_are_in_the_report(tour: tuple[Path, str]) -> None:
    page = (tour[0] / "crowdsweep-runs/effort/report.html").read_text(encoding="utf-8")
    assert "weighted-vote" in page
    assert "Accuracy against the labels of each item" in page
    assert page.count("<svg") >= 2


def test_the_added_model_passes_the_contract(tour: tuple[Path, str]) -> None:
    environment = {**os.environ, "CROWDSWEEP_PLUGINS": str(tour[0] / "plugins")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-k", "weighted-vote"]
    done = subprocess.run(
        [*command, str(ROOT / "tests/contracts/test_models.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(r"\d{2,} passed", done.stdout), done.stdout[-500:]


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make (\w+)`|^make (\w+)", README, re.MULTILINE))
    assert {"demo", "test"} <= {a or b for a, b in named}
    for target in (a or b for a, b in named):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"make {target}"


def test_every_path_that_is_named_exists() -> None:
    named = re.findall(r"`((?:search_spaces|clusters|crowdsweep|tests)/[\w./-]+)`", README)
    assert len(named) > 5
    for path in named:
        assert (ROOT / path).exists(), path
