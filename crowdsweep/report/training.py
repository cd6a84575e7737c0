"""Scores of dev items while models trained, of the trials that a report counts."""

from crowdsweep.journal.shown import shown_trials
from crowdsweep.journal.state import JournalState
from crowdsweep.report.figures import Steps
from crowdsweep.trial.spec import canonical_json

Curves = dict[str, dict[str, list[Steps]]]
"""Metric → model → the curve of each fit."""


def training_curves(state: JournalState) -> dict[tuple[str, str], Curves]:
    """Returns the curves by dataset and its parameters; of curves with at least two steps."""
    found: dict[tuple[str, str], Curves] = {}
    for trial in shown_trials(state):
        result = state.results.get(trial.spec.key)
        if trial.chosen and result is not None and result.watched and len(result.curve) > 1:
            place = trial.spec.dataset, canonical_json(dict(trial.spec.dataset_params))
            models = found.setdefault(place, {}).setdefault(result.watched, {})
            models.setdefault(trial.label, []).append(result.curve)
    return found
