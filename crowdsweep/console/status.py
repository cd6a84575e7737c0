"""How far a sweep is, from its record alone: it may be running, done, or dead."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from crowdsweep.console.best import BEST_COLUMNS
from crowdsweep.console.messages import wrapped
from crowdsweep.console.progress import Progress
from crowdsweep.console.tables import Grid, render
from crowdsweep.console.wording import number_words
from crowdsweep.errors import plain
from crowdsweep.journal.journal import read_journal
from crowdsweep.journal.shown import datasets_of, left_out_as_data_changed, points_of, shown_searches, shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.journal.stores import Driver, driver_of
from crowdsweep.metrics.wording import words
from crowdsweep.trial.events import SweepStatus
from crowdsweep.trial.naming import short_name
from crowdsweep.trial.result import Status

LATEST_FAILURES = 5
BROKEN_OFF = "broken_off"
"""What a sweep is called that its record says to run and that no process works on."""


def sweep_status(state: JournalState, store: Path | None = None) -> dict[str, Any]:
    """Returns counts, the best cell of each dataset so far and the latest failures, JSON-able.

    All of it is about the trials that the sweep asks for now. `total` is what is known of: a search adds trials as it
    goes. `left_out` counts the finished trials that it does not ask for, and `data_changed` by dataset those of them
    whose data are others now.

    Args:
        state: what the journal says.
        store: its folder, which tells whether the driver of a running sweep lives: `status` is `broken_off` where it
            died without a word. Without, the record alone cannot tell, and it is `running`.
    """
    progress = Progress()
    progress.begin(state)
    results = {key: result for key, result in state.results.items() if progress.asks(key)}
    lost = sum(result.failure is not None and result.failure.of_infrastructure for result in results.values())
    failures = [
        {"key": key, "trial": progress.describe(key), "kind": result.failure.kind, "message": result.failure.message}
        for key, result in results.items()
        if result.failure is not None
    ]
    return {
        "name": state.name,
        "status": BROKEN_OFF if store is not None and is_broken_off(state, store) else state.status,
        "done": progress.counts[Status.OK],
        "failed": progress.counts[Status.FAILED] - lost,
        "lost": lost,
        "stopped": progress.counts[Status.STOPPED],
        "total": progress.total,
        "left_out": len(state.results) - len(results),
        "data_changed": {
            short_name(dataset, datasets_of(state.plan)): number
            for dataset, number in left_out_as_data_changed(state, shown_trials(state)).items()
        },
        "points": sum(len(points_of(state, search)) for search in shown_searches(state)),
        "drivers": len(state.started),
        "trials_lost_and_run_again": sum(state.lost.values()),
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


def is_broken_off(state: JournalState, store: Path) -> bool:
    """Whether a sweep's driver died without a word. A driver writes its end before it goes, so the record is read again
    where it is gone.

    Raises:
        JournalError: the record is gone.
    """
    if state.status is not SweepStatus.RUNNING or driver_of(store) is not None:
        return False
    return read_journal(store).status is SweepStatus.RUNNING and driver_of(store) is None


def state_words(status: SweepStatus, driver: Driver | None) -> str:
    """Returns a sweep's state as people say it; a sweep whose driver died without a word is `broken off`."""
    if status is SweepStatus.RUNNING:
        return "running" if driver is not None else BROKEN_OFF.replace("_", " ")
    return status.replace("_", " ")


def left_out_words(left_out: int, data_changed: Mapping[str, int]) -> list[str]:
    """Returns why finished trials are left out, a line for each reason.

    Args:
        left_out: how many there are.
        data_changed: dataset → how many of them were run on other data than it has now.
    """
    shows = "(`crowdsweep results DIR --all-trials` shows them)"
    lines = [
        f"{number} finished trials are left out: {dataset} has changed since they were run {shows}"
        for dataset, number in data_changed.items()
    ]
    if others := left_out - sum(data_changed.values()):
        lines.append(f"{others} finished trials are left out: the sweep file does not ask for them any more {shows}")
    return lines


def describe_status(found: dict[str, Any], state: str, width: int | None) -> str:
    """Returns what `sweep_status` found as lines.

    Args:
        found: of `sweep_status`.
        state: in words.
        width: of the terminal; None where there is none.
    """
    left = found["total"] - found["done"] - found["failed"] - found["stopped"] - found["lost"]
    lost = f"{found['lost']} lost with their slots, " if found["lost"] else ""
    stopped = f"{found['stopped']} stopped early, " if found["stopped"] else ""
    lines = [
        f"{found['name']}: {state}",
        f"{found['done']} done, {found['failed']} failed, {lost}{stopped}{left} to go of {found['total']} trials",
    ]
    if state == "broken off":
        lines.append("its process is gone without a word; run the sweep again and it goes on, nothing is lost")
    if found["lost"]:
        lines.append("`crowdsweep run` tries those again that were lost: they say nothing of their models")
    if found["failed"]:
        lines.append("`crowdsweep run SWEEP --retry-failed` tries the failed trials again")
    if found["trials_lost_and_run_again"]:
        lines.append(f"{found['trials_lost_and_run_again']} times a trial's slot was lost and it ran again")
    lines += left_out_words(found["left_out"], found["data_changed"])
    lines += [
        f"failed: {failure['trial']} ({failure['key']}): {failure['kind']}: {failure['message']}"
        for failure in found["failures"]
    ]
    rows = [
        (
            best["dataset"],
            best["model"],
            number_words(best["mean"], best["metric"]),
            words(best["metric"]),
            f"{best['seeds']} seeds" + (" of a search" if best["phase"] == "search" else ""),
        )
        for best in found["best"]
    ]
    table = ["", render(Grid(columns=BEST_COLUMNS, groups={"": rows}), width)] if rows else []
    return "\n".join([wrapped(plain("\n".join(lines)), width), *table])
