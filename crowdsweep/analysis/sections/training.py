"""Scores of dev items while models trained, of the trials that a report counts, or of a search."""

from collections.abc import Iterable, Sequence

from crowdsweep.analysis.counted import Place
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState

Steps = Sequence[tuple[int, float]]
"""(step, score) pairs of one fit."""
Curves = dict[str, dict[str, list[Steps]]]
"""Metric → model → the curve of each fit."""


def training_curves(
    state: JournalState, trials: Iterable[ShownTrial], *, searched: bool = False
) -> dict[Place, Curves]:
    """Returns the curves by dataset and its parameters; of curves with at least two steps.

    Args:
        state, trials: of the sweep.
        searched: those of its searches, in place of those that the report counts.
    """
    found: dict[Place, Curves] = {}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        counts = trial.spec.phase == "search" if searched else trial.chosen
        if counts and result is not None and result.watched and len(result.curve) > 1:
            place = trial.spec.dataset, canonical_json(dict(trial.spec.dataset_params))
            models = found.setdefault(place, {}).setdefault(result.watched, {})
            models.setdefault(trial.label, []).append(result.curve)
    return found
