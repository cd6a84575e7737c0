"""The sweeps of a folder, a line each: what `crowdsweep list` shows."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from crowdsweep.analysis.standing import state_words
from crowdsweep.analysis.underway.progress import Progress
from crowdsweep.errors import JournalDamaged, JournalError, error_words
from crowdsweep.metrics.shown import score_words
from crowdsweep.record.journal import read_journal
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store
from crowdsweep.record.stores import driver_of, written_at
from crowdsweep.units import when_words
from crowdsweep.views.terminal.grid import Column

LIST_COLUMNS = (
    Column(title="name"),
    Column(title="state", wraps=True),
    Column(title="models × datasets", right=True, drop=2),
    Column(title="trials", right=True, drop=1),
    Column(title="best", wraps=True),
    Column(title="when", drop=3),
)


def listed(store: Store) -> dict[str, Any]:
    """Returns what a sweep is and how far, JSON-able: name, folder, state, number of models and datasets, trials that
    are done and known, the best model, and when its record was last written (UTC).

    A record that cannot be read has its error for a state, and nothing else.
    """
    written = (written_at(store) or datetime.now(UTC)).isoformat(timespec="seconds")
    found = {"name": store.name, "folder": str(store), "when": written}
    try:
        state = read_journal(store)
    except JournalError as error:
        begins = not isinstance(error, JournalDamaged) and driver_of(store) is not None
        words = "begins" if begins else f"cannot be read: {error_words(error)}"
        return {**found, "state": words, "models": None, "datasets": None, "done": None, "total": None, "best": ""}
    progress = Progress()
    progress.begin(state)
    return {
        **found,
        "name": state.name,
        "state": state_words(state.status, driver_of(store)),
        "models": len(state.config.get("models", ())),
        "datasets": len(state.plan.datasets) or len(state.config.get("datasets", ())),
        "done": progress.finished,
        "total": progress.total,
        "best": _best_words(progress, state),
    }


def _best_words(progress: Progress, state: JournalState) -> str:
    """Returns the best model with its score; of several datasets, who is best on how many."""
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
        trials = "" if one["total"] is None else f"{one['done']}/{one['total']}"
        rows.append([one["name"], one["state"], size, trials, one["best"], when_words(one["when"], now)])
    return rows
