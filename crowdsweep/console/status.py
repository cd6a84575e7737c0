"""How far a sweep is, from its record alone: it may be running, done, or dead."""

from typing import Any

from crowdsweep.console.progress import Progress
from crowdsweep.journal.state import JournalState

LATEST_FAILURES = 5


def sweep_status(state: JournalState) -> dict[str, Any]:
    """Returns counts, the best cell of each dataset so far and the latest failures, JSON-able.

    `status` is `running` also where the driver died without a word: the record cannot tell. `total` is what is known
    of: a search adds trials as it goes.
    """
    progress = Progress(state)
    planned = state.plan.get("trials")
    total = planned.get("total") if isinstance(planned, dict) else None
    failures = [
        {"key": key, "trial": progress.describe(key), "kind": result.failure.kind, "message": result.failure.message}
        for key, result in state.results.items()
        if result.failure is not None
    ]
    return {
        "name": state.name,
        "status": state.status,
        "done": progress.done,
        "failed": progress.failed,
        "total": max(progress.total, total or 0),
        "points": sum(map(len, state.proposals.values())),
        "drivers": len(state.started),
        "trials_lost_and_run_again": sum(state.lost.values()),
        "seconds_of_trials": sum(result.wall_s for result in state.results.values()),
        "best": [
            {"dataset": dataset, "model": best.model, "metric": best.metric, "mean": best.value, "seeds": best.seeds}
            for dataset, best in progress.best().items()
        ],
        "failures": failures[-LATEST_FAILURES:],
    }


def describe_status(found: dict[str, Any]) -> str:
    """Returns what `sweep_status` found as lines."""
    left = found["total"] - found["done"] - found["failed"]
    lines = [
        f"{found['name']}: {found['status']}",
        f"  {found['done']} done, {found['failed']} failed, {left} to go of {found['total']} trials",
    ]
    if found["trials_lost_and_run_again"]:
        lines.append(f"  {found['trials_lost_and_run_again']} times a trial's slot was lost and it ran again")
    lines += [
        f"  best on {best['dataset']}: {best['model']}, {best['metric']} {best['mean']:.4f} over {best['seeds']} seeds"
        for best in found["best"]
    ]
    lines += [
        f"  failed: {failure['trial']} ({failure['key']}): {failure['kind']}: {failure['message']}"
        for failure in found["failures"]
    ]
    return "\n".join(lines)
