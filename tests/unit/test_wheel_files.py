"""What a wheel and an sdist hold: the package with its sweeps, the licence, and nothing that lies around."""

import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))


def test_a_wheel_holds_the_package_and_its_sweeps(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        inside = set(file.namelist())
    package = {path for path in (ROOT / "crowdsweep").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path.relative_to(ROOT).as_posix() for path in package} <= inside
    shown = {f"crowdsweep/search_spaces/{path.name}" for path in (ROOT / "search_spaces").iterdir()}
    assert shown <= inside
    assert {"crowdsweep/py.typed", "crowdsweep/search_spaces/quickstart.yaml"} <= inside
    about = {name for name in inside if not name.startswith("crowdsweep/")}
    parts = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert {name.partition(".dist-info/")[2] for name in about} == parts
    assert not [name for name in inside if "__pycache__" in name or name.startswith("tests")]


def test_its_metadata_say_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        (name,) = [name for name in file.namelist() if name.endswith(".dist-info/METADATA")]
        told = message_from_bytes(file.read(name))
    assert (told["Name"], told["License-Expression"], told["Requires-Python"]) == ("crowdsweep", "Apache-2.0", ">=3.11")
    assert told.get_all("License-File") == ["LICENSE"]
    assert "Typing :: Typed" in (told.get_all("Classifier") or [])
    assert not [line for line in told.get_all("Classifier") or [] if line.startswith("License ::")]  # the expression is


def test_an_sdist_holds_what_builds_the_wheel(tmp_path: Path) -> None:
    built = Path(next(SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    with tarfile.open(built) as file:
        inside = {name.partition("/")[2] for name in file.getnames()}
    needed = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "crowdsweep/__init__.py"}
    assert needed | {"search_spaces/quickstart.yaml", "search_spaces/README.md"} <= inside
    assert not [name for name in inside if name.startswith((".venv", "crowdsweep-runs")) or "__pycache__" in name]
