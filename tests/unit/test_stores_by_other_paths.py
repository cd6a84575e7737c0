"""A store may be named from another folder (`../store`): MLflow's artifacts lie in it all the same."""

from pathlib import Path

import pytest

from crowdsweep.tracking.artifact_files import writing_inside
from crowdsweep.tracking.artifact_places import FOLDER
from crowdsweep.tracking.uri import DATABASE, database_file, recorded_uri, sqlite_uri, tracking_uri


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder with `store` and, where commands are given, `below`."""
    for name in ("store", "below"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path.resolve()


@pytest.mark.parametrize("named", ["../store", "../below/../store", "../below/./../store/"])
def test_artifacts_are_written_into_a_store_that_is_named_from_beside(below: Path, named: str) -> None:
    store = Path(named)
    for uri in (tracking_uri(store), recorded_uri(store, {}), sqlite_uri(store.absolute() / DATABASE)):
        database = database_file(uri)
        assert database is not None
        assert database == below / "store" / DATABASE
        artifacts = (database.parent / FOLDER / "run" / "artifacts").as_uri()
        with writing_inside(database) as write:
            write(artifacts, "confusion.json", uri.encode())
        assert (below / "store" / FOLDER / "run" / "artifacts" / "confusion.json").read_text() == uri


def test_a_link_before_the_way_back_is_followed_as_the_system_does(below: Path) -> None:
    (below / "elsewhere" / "deep").mkdir(parents=True)
    (below / "elsewhere" / "store").mkdir()
    (below / "link").symlink_to(below / "elsewhere" / "deep")
    assert database_file(tracking_uri(Path("../link/../store"))) == below / "elsewhere" / "store" / DATABASE


def test_a_store_that_is_a_link_keeps_its_name(below: Path) -> None:
    (below / "link").symlink_to(below / "store")
    assert database_file(tracking_uri(below / "link")) == below / "link" / DATABASE
