"""Summaries of sweeps for people: a line per record, as in `crowdsweep list`, and the progress of one sweep."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from crowdsweep.analysis.status import left_out_words, state_words
from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.errors import JournalDamaged, JournalError, error_words, plain
from crowdsweep.metrics.shown import number_words, score_words
from crowdsweep.metrics.wording import words
from crowdsweep.record.journal import read_journal
from crowdsweep.record.naming import told_words
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import driver_of, written_at
from crowdsweep.units import when_words
from crowdsweep.views.terminal.grid import Column, Grid, render
from crowdsweep.views.terminal.live import BEST_COLUMNS
from crowdsweep.views.terminal.messages import wrapped

LIST_COLUMNS = (
    Column(title="name"),
    Column(title="state", wraps=True),
    Column(title="models × datasets", right=True, drop=2),
    Column(title="trials", right=True, drop=1),
    Column(title="best", wraps=True),
    Column(title="when", drop=3),
)


def listed(store: Store) -> dict[str, Any]:
    """Returns a summary of a sweep, JSON-able: name, folder, state, number of models and datasets, trials that have
    finished (in any way) and are known, the best model, and when its record was last written (UTC).

    If a record cannot be read, the state is its error, and the rest is empty.
    """
    written = (written_at(store) or datetime.now(UTC)).isoformat(timespec="seconds")
    found = {"name": store.name, "folder": str(store), "when": written}
    try:
        state = read_journal(store)
    except JournalError as error:
        begins = not isinstance(error, JournalDamaged) and driver_of(store) is not None
        words = "begins" if begins else f"cannot be read: {error_words(error)}"
        return {**found, "state": words, "models": None, "datasets": None, "finished": None, "total": None, "best": ""}
    progress = Progress()
    progress.begin(state)
    return {
        **found,
        "name": state.name,
        "state": state_words(state.status, driver_of(store)),
        "models": len(state.config.get("models", ())),
        "datasets": len(state.plan.datasets) or len(state.config.get("datasets", ())),
        "finished": progress.finished,
        "total": progress.total,
        "best": _best_words(progress, state),
    }


def _best_words(progress: Progress, state: JournalState) -> str:
    """Returns the best model with its score; for several datasets, the model that is best on most of them, and on how
    many."""
    bests = progress.best()
    if not bests:
        return ""
    if len(bests) == 1 and len(state.plan.datasets) < 2:
        (best,) = bests.values()
        return f"{best.model}, {score_words(best.value, best.metric)}"
    wins = Counter(best.model for best in bests.values()).most_common()
    if wins[0][1] == 1 and len(wins) > 1:
        return f"{len(wins)} models, one a dataset"
    return f"{wins[0][0]} on {wins[0][1]} of {len(bests)}"


def list_rows(found: Sequence[dict[str, Any]], now: datetime) -> list[list[str]]:
    """Returns the cells of a table: name, state, models × datasets, trials, best, when."""
    rows: list[list[str]] = []
    for one in found:
        size = "" if one["models"] is None else f"{one['models']} × {one['datasets']}"
        trials = "" if one["total"] is None else f"{one['finished']}/{one['total']}"
        rows.append([one["name"], one["state"], size, trials, one["best"], when_words(one["when"], now)])
    return rows


def describe_status(found: dict[str, Any], state: str, width: int | None) -> str:
    """Returns the result of `sweep_status` as lines."""
    left = found["total"] - found["done"] - found["failed"] - found["stopped"] - found["lost"]
    lost = f"{found['lost']} lost with their slots, " if found["lost"] else ""
    stopped = f"{found['stopped']} stopped early, " if found["stopped"] else ""
    lines = [
        f"{found['name']}: {state}",
        f"{found['done']} done, {found['failed']} failed, {lost}{stopped}{left} to go of {found['total']} trials",
    ]
    if state == "crashed":
        lines.append("its process died without recording an end; run the sweep again to continue, nothing is lost")
    if found["lost"]:
        lines.append(
            "`crowdsweep run` runs those again that were lost with their slots, which is not their models' fault"
        )
    if found["failed"]:
        lines.append("`crowdsweep run SWEEP --retry-failed` tries the failed trials again")
    if found["trials_lost_and_run_again"]:
        lines.append(f"{found['trials_lost_and_run_again']} times a trial's slot was lost and it ran again")
    if found["trials_gone_on_with"]:
        lines.append(f"{found['trials_gone_on_with']} trials continued from a checkpoint")
    if found["told"]:
        lines.append(f"its searches began with points of earlier sweeps: {told_words(found['told'])}")
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
