"""Two sweeps that write into one database at once: no run is lost, none is there twice."""

import shutil
from functools import partial
from pathlib import Path

import pytest
from sweeps_at_once import at_once, check_runs, drive


def test_two_sweeps_at_once_into_one_file(
    tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_database, tmp_path / "shared.db")
    uri = f"sqlite:///{tmp_path / 'shared.db'}"
    stores = [tmp_path / "one", tmp_path / "three"]
    with at_once(*(partial(drive, store, uri, 10) for store in stores)) as lacks:
        pass
    assert lacks == ["", ""]
    check_runs(uri, stores, 10)
