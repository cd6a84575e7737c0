"""A sqlite file that cannot be opened is said at once: MLflow itself tries for more than a minute."""

from pathlib import Path

import pytest

from crowdsweep.tracking.mlflow_failures import TrackingFailed
from crowdsweep.tracking.mlflow_reachable import check_reachable
from crowdsweep.tracking.uri import sqlite_uri


def test_a_folder_and_a_place_without_new_files_are_named(tmp_path: Path) -> None:
    for place in (tmp_path, Path("/proc/none.db")):
        with pytest.raises(TrackingFailed, match="cannot be opened"):
            check_reachable(sqlite_uri(place))


def test_nothing_is_made_by_asking(tmp_path: Path) -> None:
    check_reachable(sqlite_uri(tmp_path / "new.db"))
    check_reachable(sqlite_uri(tmp_path / "none" / "new.db"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "old.db").write_bytes(b"old")
    check_reachable(sqlite_uri(tmp_path / "old.db"))
    assert (tmp_path / "old.db").read_bytes() == b"old"
