"""Sweeps that write to one tracking server or database, each with a driver of its own."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirror_checks import ok, spec, started

from crowdsweep.record.events import SweepFinished, SweepStatus, TrialPlanned
from crowdsweep.record.journal import Journal, read_journal
from crowdsweep.tracking.mlflow_runs import MlflowClient, MlflowMirror, rebuild
from crowdsweep.tracking.repeated_job import Timing

EXPERIMENT = "at once"
PATIENT = Timing(every_s=0.2, first_delay_s=0.2, longest_delay_s=2.0, patience_s=1800.0, stalled_s=120.0, last_s=300.0)
"""Of a driver that waits for MLflow until it has everything."""
IMPATIENT = replace(PATIENT, patience_s=5.0, last_s=0.0)


def drive(
    store: Path, uri: str, n_trials: int, *, timing: Timing = PATIENT, halfway: Callable[[], object] = lambda: None
) -> str:
    """Writes the record of a sweep and its MLflow runs, as a driver does.

    Returns:
        What MLflow lacks in the end, in words.
    """
    journal = Journal(store)
    mirror = MlflowMirror(
        store, experiment=EXPERIMENT, uri=uri, record=journal.handle, look=journal.snapshot, timing=timing
    )

    def tell(*events: Any) -> None:
        for event in events:
            journal.handle(event)
            mirror.handle(event)

    tell(replace(started(), time=float(len(store.name))))
    for seed in range(n_trials):
        if seed == n_trials // 2:
            halfway()
        tell(TrialPlanned(spec=spec(seed)), ok(spec(seed).key, test_accuracy=seed / n_trials))
    tell(SweepFinished(status=SweepStatus.DONE, time=9.0))
    mirror.close()
    journal.close()
    return mirror.lacks


@contextmanager
def at_once(*sweeps: Callable[[], str]) -> Iterator[list[str]]:
    """Starts each on a thread, and waits for all of them in the end: a sweep's mirror is one anyway, and a process more
    costs seconds of imports. Yields the list of what they return, which is filled then."""
    returned: list[str] = []
    with ThreadPoolExecutor(len(sweeps)) as pool:
        begun = [pool.submit(one) for one in sweeps]
        yield returned
        returned += [one.result() for one in begun]


def runs_at(uri: str) -> list[Any]:
    """Returns all runs of the experiment that are not deleted."""
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    found: list[Any] = []
    token: str | None = None
    while experiment is not None:
        page = client.search_runs([experiment.experiment_id], max_results=1000, page_token=token)
        found += page
        token = page.token
        if not token:
            break
    return found


def check_runs(uri: str, stores: Sequence[Path], n_trials: int) -> list[Any]:
    """Every trial of every store has one run, which has ended, and so has each sweep's cell; returns the trials'."""
    runs = runs_at(uri)
    seen = Counter((run.data.tags["crowdsweep.store"], run.data.tags["crowdsweep.key"]) for run in runs)
    assert set(seen.values()) == {1}, "recorded twice"
    assert len({store for store, _ in seen}) == len(stores)
    assert len(seen) == len(stores) * (n_trials + 1)
    assert {run.info.status for run in runs} == {"FINISHED"}
    for store in stores:
        read = read_journal(store)
        assert set(read.results) == {spec(seed).key for seed in range(n_trials)}
        assert rebuild(read, uri, EXPERIMENT).written == 0
    trials = [run for run in runs if run.data.tags["crowdsweep.kind"] == "trial"]
    assert {run.data.metrics["test_accuracy"] for run in trials} == {seed / n_trials for seed in range(n_trials)}
    return trials
