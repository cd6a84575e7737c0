"""Scores of dev items while models trained, of the trials that a report counts."""

from collections.abc import Iterable, Sequence

from crowdsweep.analysis.counted import Place
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState

Steps = Sequence[tuple[int, float]]
"""(step, score) pairs of one fit."""
Curves = dict[str, dict[str, list[Steps]]]
"""Metric → model → the curve of each fit."""


def training_curves(state: JournalState, trials: Iterable[ShownTrial]) -> dict[Place, Curves]:
    """Returns the curves by dataset and its parameters; of curves with at least two steps."""
    found: dict[Place, Curves] = {}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        if trial.chosen and result is not None and result.watched and len(result.curve) > 1:
            place = trial.spec.dataset, canonical_json(dict(trial.spec.dataset_params))
            models = found.setdefault(place, {}).setdefault(result.watched, {})
            models.setdefault(trial.label, []).append(result.curve)
    return found
