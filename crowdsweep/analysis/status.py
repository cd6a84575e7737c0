"""Status of a sweep, from its record: counts of trials, failures, and whether its driver has died."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.record.events import SweepStatus
from crowdsweep.record.journal import read_journal
from crowdsweep.record.naming import describe_dataset, short_name
from crowdsweep.record.result import Failure, Status
from crowdsweep.record.shown import (
    ShownTrial,
    datasets_of,
    left_out_as_data_changed,
    one_each,
    points_of,
    shown_searches,
    shown_trials,
)
from crowdsweep.record.spec import TrialSpec
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import Driver, driver_of

LATEST_FAILURES = 5
CRASHED = "crashed"
"""Status of a sweep that is running by its record, but has no live driver."""
RUNS = (SweepStatus.NEW, SweepStatus.RUNNING)
"""Statuses, by the record, of a sweep that is running or about to run."""


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """A trial that failed, with the reason."""

    model: str
    dataset: str
    spec: TrialSpec
    failure: Failure


def sweep_status(state: JournalState, store: Store | None = None) -> dict[str, Any]:
    """Returns counts, the best cell of each dataset so far and the latest failures, as a JSON-able mapping.

    Counts are of the trials that the sweep asks for now. `done` counts those that ended well. `total` counts the
    trials known so far; a search adds trials as it proceeds. `left_out` counts finished trials that the sweep no
    longer asks for, and `data_changed` those of them, by dataset, whose data have changed. `told` counts, by
    earlier sweep, the points that searches were told of before their first point.

    Args:
        store: store of the sweep, which shows whether the driver of a running sweep is alive. `status` is `crashed`
            where the driver died without recording its end; without a store, `status` is then `running`.
    """
    progress = Progress()
    shown = shown_trials(state)
    progress.begin(state, shown)
    results = {key: result for key, result in state.results.items() if progress.asks(key)}
    lost = sum(result.failure is not None and result.failure.of_infrastructure for result in results.values())
    failures = [
        {"key": key, "trial": progress.describe(key), "kind": result.failure.kind, "message": result.failure.message}
        for key, result in results.items()
        if result.failure is not None
    ]
    return {
        "name": state.name,
        "status": CRASHED if store is not None and has_crashed(state, store) else state.status,
        "done": progress.counts[Status.OK],
        "failed": progress.counts[Status.FAILED] - lost,
        "lost": lost,
        "stopped": progress.counts[Status.STOPPED],
        "total": progress.total,
        "left_out": len(state.results) - len(results),
        "data_changed": {
            short_name(dataset, datasets_of(state.plan)): number
            for dataset, number in left_out_as_data_changed(state, shown).items()
        },
        "told": dict(
            Counter(
                point.source
                for search in state.plan.searches
                if search.key in state.told
                for point in state.told[search.key].points
            )
        ),
        "points": sum(len(points_of(state, search)) for search in shown_searches(state)),
        "drivers": len(state.started),
        "trials_lost_and_run_again": sum(state.lost.values()),
        "trials_gone_on_with": sum(result.resumed > 0 for result in results.values()),
        "seconds_of_trials": sum(result.wall_s for result in results.values()),
        "best": [
            {
                "dataset": dataset,
                "model": best.model,
                "metric": best.metric,
                "mean": best.value,
                "seeds": best.seeds,
                "phase": best.phase,
            }
            for dataset, best in progress.best().items()
        ],
        "failures": failures[-LATEST_FAILURES:],
    }


def has_crashed(state: JournalState, store: Store) -> bool:
    """Whether a sweep's driver died without recording its end.

    A driver records its end before it exits. Where there is no driver, the record is therefore read again, as `state`
    may be older than that end.

    Raises:
        JournalError: the record no longer exists.
    """
    if state.status is not SweepStatus.RUNNING or driver_of(store) is not None:
        return False
    return read_journal(store).status is SweepStatus.RUNNING and driver_of(store) is None


def state_words(status: SweepStatus, driver: Driver | None) -> str:
    """Returns a sweep's status in words: `crashed` where its driver died without recording its end."""
    if status is SweepStatus.RUNNING:
        return "running" if driver is not None else CRASHED
    return status.replace("_", " ")


def left_out_words(left_out: int, data_changed: Mapping[str, int]) -> list[str]:
    """Returns why finished trials are left out, a line for each reason.

    Args:
        data_changed: dataset → number of those that ran on other data than the dataset has now.
    """
    shows = "(`crowdsweep results DIR --all-trials` shows them)"
    lines = [
        f"{number} finished trials are left out: {dataset} has changed since they were run {shows}"
        for dataset, number in data_changed.items()
    ]
    if others := left_out - sum(data_changed.values()):
        lines.append(f"{others} finished trials are left out: the sweep file no longer includes them {shows}")
    return lines


def failed_trials(state: JournalState, trials: Iterable[ShownTrial]) -> list[FailedTrial]:
    """Returns the trials that failed, of both phases."""
    failed: list[FailedTrial] = []
    among = {row.dataset for row in state.plan.datasets}
    for key, trial in one_each(trials).items():
        result = state.results.get(key)
        if result is not None and result.failure is not None:
            dataset = describe_dataset(*trial.spec.place, among)
            failed.append(FailedTrial(model=trial.label, dataset=dataset, spec=trial.spec, failure=result.failure))
    return failed


def counted_trials(state: JournalState, trials: Iterable[ShownTrial]) -> dict[str, int]:
    """Returns the number of trials that have finished in any way, are planned, failed, and were stopped early."""
    known = {trial.spec.key for trial in trials}
    ended = Counter(state.results[key].status for key in known if key in state.results)
    return {
        "finished": ended.total(),
        "planned": max(state.plan.n_trials, len(known)),
        "failed": ended[Status.FAILED],
        "stopped": ended[Status.STOPPED],
    }
