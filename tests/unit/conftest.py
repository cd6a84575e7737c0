"""What several files of unit tests begin with: a store whose MLflow tables are made once, and models of their own."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from journals import folded
from mirror_checks import started
from written_models import FOOT, HEAD

from crowdsweep.models import registered
from crowdsweep.tracking.mlflow_runs import rebuild, tracking_uri


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with MLflow's tables: making them takes seconds."""
    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    rebuild(folded([started()]), tracking_uri(path.parent), "template")
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM experiment_tags")
        database.execute("DELETE FROM experiments WHERE name = 'template'")
    return path


@pytest.fixture
def store(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return tmp_path


@pytest.fixture
def add_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Adds a model in one file and returns the list in which it notes its calls."""
    monkeypatch.setenv("CROWDSWEEP_PLUGINS", str(tmp_path))

    def add(name: str, body: str, info: str = "") -> list[Any]:
        path = tmp_path / f"{name.replace('-', '_')}.py"
        path.write_text(HEAD + body + FOOT.format(name=name, info=info))
        return __import__("sys").modules[registered.model_info(name).model.__module__].CALLS

    return add
