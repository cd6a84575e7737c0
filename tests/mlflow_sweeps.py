"""Sweeps whose mirrors write MLflow runs, and the runs that are found then."""

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from mirror_checks import failed, ok, spec, started

from crowdsweep.record.events import Event, SweepFinished, SweepStatus, TrialPlanned
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.record.state import JournalState
from crowdsweep.tracking.mlflow_runs import (
    MlflowClient,
    MlflowMirror,
    tracking_uri,
)
from crowdsweep.tracking.repeated_job import Timing

_log = logging.getLogger("crowdsweep.app")  # what tells people so

SEEDS = (0, 1, 2, 3)


def outcomes(seeds: Sequence[int] = SEEDS) -> list[Event]:
    """Four trials of one cell, the last of which failed."""
    events: list[Event] = []
    for seed in seeds:
        key = spec(seed, groups=2).key
        events.append(TrialPlanned(spec=spec(seed, groups=2)))
        events.append(failed(key) if seed == 3 else ok(key, test_accuracy=0.5 + seed / 10, dev_kl=1.0))
    return events


def sweep(store: Path, events: Sequence[Event], *, uri: str | None = None) -> JournalState:
    """Runs a driver's mirrors over a sweep."""
    journal = Journal(store)
    mirror = MlflowMirror(
        store,
        experiment="an experiment",
        uri=uri,
        record=journal.handle,
        look=journal.snapshot,
        timing=Timing(every_s=0.0, first_delay_s=0.001),
    )
    for event in (started(asks_for=events), *events, SweepFinished(status=SweepStatus.DONE, time=3.0)):
        journal.handle(event)
        mirror.handle(event)
    mirror.close()
    if mirror.lacks:
        _log.warning("MLflow lacks %s", mirror.lacks)
    journal.close()
    return read_journal(store)


def runs_in(store: Path) -> tuple[dict, dict]:
    """Returns (cells, trials) by key; two runs of one key are an error."""
    client = MlflowClient(tracking_uri(store))
    experiment = client.get_experiment_by_name("an experiment")
    cells: dict = {}
    trials: dict = {}
    for run in client.search_runs([experiment.experiment_id], max_results=1000):
        place = cells if run.data.tags["crowdsweep.kind"] == "cell" else trials
        key = run.data.tags["crowdsweep.key"]
        assert key not in place, "recorded twice"
        place[key] = run
    return cells, trials


def sql(store: Path, *statements: str) -> None:
    with sqlite3.connect(store / "mlflow.db") as database:
        for statement in statements:
            database.execute(statement)
