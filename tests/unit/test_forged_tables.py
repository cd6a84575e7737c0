"""Views and triggers among MLflow's tables: refused by `ui`, `mirror` and `run`; MLflow's own trigger is not."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from crowdsweep.tracking.artifact_files import NoDatabase, relocate_artifacts
from crowdsweep.tracking.mlflow_connection import MlflowConnection
from crowdsweep.tracking.run_records import RunRecord

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
FORGERIES = {
    "view runs": f"ALTER TABLE runs RENAME TO was; CREATE VIEW runs AS {ENDLESS}",
    "view TAGS": f"ALTER TABLE tags RENAME TO was; CREATE VIEW TAGS AS {ENDLESS}",
    "trigger sly": "CREATE TRIGGER sly AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
    "table metrics": "DROP TABLE metrics; CREATE VIRTUAL TABLE metrics USING fts4(key, value)",
}


@pytest.fixture
def database(tmp_path: Path, empty_database: Path) -> Path:
    return Path(shutil.copy(empty_database, tmp_path / "mlflow.db"))


@pytest.mark.parametrize("named", FORGERIES)
def test_it_is_refused_by_its_name(named: str, database: Path) -> None:
    with closing(sqlite3.connect(database)) as rows:
        rows.executescript(FORGERIES[named])
    with pytest.raises(NoDatabase, match=f"a {named}, which MLflow never makes") as refused:
        relocate_artifacts(database, whole=True)
    assert str(database) in str(refused.value)


def test_a_database_of_mlflow_is_none_of_these(database: Path) -> None:
    with closing(sqlite3.connect(database)) as rows:
        triggers = rows.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    assert triggers, "MLflow makes none any more: then none need be let through"
    assert relocate_artifacts(database, whole=True) == []


@pytest.mark.parametrize(
    "forged",
    [
        (
            f"{FORGERIES['trigger sly']}; PRAGMA writable_schema = ON; "
            "UPDATE sqlite_master SET name = CAST(x'74f3' AS TEXT) WHERE name = 'sly'"
        ),
        "INSERT INTO experiments (name, artifact_location) VALUES ('forged', CAST(x'74f3' AS TEXT))",
    ],
    ids=["name of a trigger", "place of artifacts"],
)
def test_text_that_is_none_is_named(forged: str, database: Path) -> None:
    with closing(sqlite3.connect(database)) as rows:
        rows.executescript(forged)
    with pytest.raises(OSError, match=r"cannot be used as MLflow's database: .*UTF-8") as refused:
        relocate_artifacts(database, whole=True)
    assert str(database) in str(refused.value)


def test_what_is_no_text_under_a_name_that_is_none_is_left_out(database: Path) -> None:
    door = MlflowConnection(f"sqlite:///{database}", "an experiment")
    door.open()
    record = RunRecord(
        kind="trial",
        key="k",
        name="one",
        tags={"crowdsweep.key": "k"},
        params={"seed": "3"},
        metrics={"wall_s": 1.0},
        dataset="d",
        fingerprint="f",
    )
    made = door.create(record)
    door.write(made, record)
    with closing(sqlite3.connect(database)) as rows:
        rows.executescript(
            f"INSERT INTO params VALUES (x'fffe', '1', '{made.run_id}');"
            f"INSERT INTO params VALUES ('blob', x'00', '{made.run_id}');"
            f"INSERT INTO latest_metrics VALUES (x'00', 1.0, 0, 0, 0, '{made.run_id}')"
        )
    (found,) = door.runs()
    assert (found.params, found.metrics) == ({"seed": "3"}, {"wall_s": 1.0})
    assert found.tags["crowdsweep.key"] == "k"
    assert all(isinstance(text, str) for pair in found.tags.items() for text in pair)
