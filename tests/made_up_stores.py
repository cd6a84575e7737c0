"""Stores of made-up sweeps, and what lies in a folder."""

from pathlib import Path

from journals import made_up_sweep, made_up_trials

from crowdsweep.record.journal import Journal


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def sweep(store: Path) -> Path:
    """A finished sweep of made-up trials."""
    journal = Journal(store)
    trials = made_up_trials("a", "d", [{"test_accuracy": 0.8}, {"test_accuracy": 0.9}])
    journal.handle_many(made_up_sweep(trials, models=[{"name": "a"}]))
    journal.close()
    return store
