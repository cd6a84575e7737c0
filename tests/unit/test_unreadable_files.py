"""A file that is there and cannot be read (somebody else's, a bad disk) is one named error, at every door of files."""

from pathlib import Path
from typing import Any

import pytest

import crowdsweep as cs
from crowdsweep.cli.commands import run_command_line
from crowdsweep.errors import CrowdsweepError

TABLE = "item,annotator,label\n1,a,x\n1,b,y\n2,a,x\n2,b,x\n"


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder whose files whose names begin with `locked` cannot be opened, not even by root."""
    really = Path.open

    def opened(path: Path, *words: Any, **more: Any) -> Any:
        if path.name.startswith("locked") or path.parent.name.startswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return really(path, *words, **more)

    for name in ("locked.csv", "locked.json", "locked.csv.gz", "locked.parquet"):
        (tmp_path / name).write_text(TABLE)
    (tmp_path / "locked").mkdir()
    (tmp_path / "locked" / "annotations.csv").write_text(TABLE)
    monkeypatch.setattr(Path, "open", opened)
    return tmp_path


@pytest.mark.parametrize("name", ["locked.csv", "locked.json", "locked.csv.gz", "locked.parquet"])
@pytest.mark.parametrize("form", [(), ("--form", "csv"), ("--form", "matrix"), ("--form", "label-studio")])
def test_init_names_it(locked: Path, name: str, form: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["init", str(locked / name), str(locked / "new"), *form]) == 2
    said = capsys.readouterr().err
    assert name in said
    assert "Permission denied" in said
    assert not (locked / "new").exists()


@pytest.mark.parametrize("form", ["csv", "matrix", "crowd-kit", "doccano", "prodigy", "mturk"])
def test_import_names_it(locked: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    roles = ["--item", "item", "--annotator", "annotator", "--label", "label"] if form == "csv" else []
    assert run_command_line(["data", "import", form, str(locked / "locked.csv"), str(locked / "new"), *roles]) == 2
    assert "locked.csv" in capsys.readouterr().err


def test_a_folder_of_a_dataset_names_it(locked: Path) -> None:
    with pytest.raises(CrowdsweepError, match=r"annotations\.csv.*Permission denied"):
        cs.load(str(locked / "locked"))


def test_a_folder_that_cannot_be_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "annotations.csv").write_text(TABLE)
    really = Path.iterdir

    def listed(path: Path) -> Any:
        if path == tmp_path:
            raise PermissionError(13, "Permission denied", str(path))
        return really(path)

    monkeypatch.setattr(Path, "iterdir", listed)
    with pytest.raises(CrowdsweepError, match="Permission denied"):
        cs.load(str(tmp_path))
