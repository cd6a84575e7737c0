"""The wheel, installed into a fresh environment outside of a clone and used there.

Its dependencies are those of the environment that runs the tests: nothing is downloaded.
"""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).parents[2]
ANSWERS = """photo,worker,verdict
p1,ann,no entry
p1,bob,no entry
p2,ann,give way
p2,bob,no entry
p2,cleo,give way
p3,bob,give way
p3,cleo,no entry
p4,ann,give way
p4,cleo,give way
"""
SHORT = [
    *("--engine", "inline", "--quiet", "--set", "tracking.enabled=false", "--set", "seeds.report=1"),
    *("--set", "seeds.search=1", "--set", "budget.points=1"),
]

Command = Callable[..., str]


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as file:
        return set(file.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds an sdist of the clone, and the wheel from what the sdist holds."""
    folder = tmp_path_factory.mktemp("built")
    sdist = Path(next(SdistBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))
    with tarfile.open(sdist) as file:
        file.extractall(folder / "unpacked", filter="data")
    (source,) = (folder / "unpacked").iterdir()
    built = Path(next(WheelBuilder(str(source)).build(directory=str(folder / "dist"), versions=["standard"])))
    of_the_clone = Path(next(WheelBuilder(str(ROOT)).build(directory=str(folder / "other"), versions=["standard"])))
    assert names_in(built) == names_in(of_the_clone)
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes an environment that has the wheel, and the dependencies of this one; returns its programs' folder."""
    place = tmp_path_factory.mktemp("fresh") / "env"
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True)
    (site,) = (place / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python.parent


@pytest.fixture
def command(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a program of that environment in an empty folder, and returns what it printed."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CROWDSWEEP_", "MLFLOW"))
    }

    def run(program: str, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [installed / program, *words], cwd=tmp_path, env=kept, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    return run


def test_it_is_the_wheel_and_no_clone(command: Command, installed: Path) -> None:
    program = "import crowdsweep, sys; print(crowdsweep.__file__, *crowdsweep.sweeps())"
    file, *sweeps = command("python", "-c", program).split()
    assert Path(file).is_relative_to(installed.parent)
    assert {"quickstart", "redundancy", "sparsity"} <= set(sweeps)
    assert "\nquickstart\t" in command("crowdsweep", "sweeps")
    assert command("crowdsweep", "sweeps", "sparsity") == (ROOT / "search_spaces/sparsity.yaml").read_text()
    assert "Hovy et al. (2013)" in command("crowdsweep", "explain", "mace")


def test_the_doctor_finds_it_well(command: Command) -> None:
    told = command("crowdsweep", "doctor")
    assert "A default sweep runs here" in told
    assert not [line for line in told.splitlines() if line.startswith("problem")]


def test_the_demo_runs_with_no_file_around(command: Command, tmp_path: Path) -> None:
    command("crowdsweep", "demo", *SHORT)
    assert [path.name for path in tmp_path.iterdir()] == ["crowdsweep-runs"]
    report = (tmp_path / "crowdsweep-runs/quickstart/report.html").read_text()
    assert all(name in report for name in ("anesthesia", "digits", "gaussians", "dawid-skene", "cmm"))


def test_a_sweep_runs_by_its_name_and_one_extends_it(command: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "{name: mine, extends: sparsity, study: {annotators: [100]}, models: [soft-mv]}"
    )
    command("crowdsweep", "run", "mine", *SHORT, "--set", "models.soft-mv.params={epochs: 2}")
    assert "100" in command("crowdsweep", "results", "crowdsweep-runs/mine")
    assert "sparsity" in command("crowdsweep", "plan", "sparsity")


def test_a_csv_becomes_labels(command: Command, tmp_path: Path) -> None:
    (tmp_path / "photos.csv").write_text(ANSWERS)
    command("crowdsweep", "init", "photos.csv")
    command("crowdsweep", "run", "photos", "--quiet", "--set", "tracking.enabled=false", "--set", "seeds.report=1")
    command("crowdsweep", "label", "crowdsweep-runs/photos")
    assert len((tmp_path / "crowdsweep-runs/photos/labels/labels.csv").read_text().splitlines()) == 5
