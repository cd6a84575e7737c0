"""Learning curves: scores on dev items during training, for the trials that a report counts or those of searches."""

from collections.abc import Iterable, Sequence

from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import Place
from crowdsweep.record.state import JournalState

Steps = Sequence[tuple[int, float]]
"""(step, score) pairs of one fit."""
Curves = dict[str, dict[str, list[Steps]]]
"""Metric → model → the curve of each fit."""


def training_curves(
    state: JournalState, trials: Iterable[ShownTrial], *, searched: bool = False
) -> dict[Place, Curves]:
    """Returns (dataset, parameters) → curves, leaving out curves of fewer than two steps.

    Args:
        searched: whether to return curves of search trials, in place of those of trials that the report counts.
    """
    found: dict[Place, Curves] = {}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        counts = trial.spec.phase == "search" if searched else trial.chosen
        if counts and result is not None and result.watched and len(result.curve) > 1:
            models = found.setdefault(trial.spec.place, {}).setdefault(result.watched, {})
            models.setdefault(trial.label, []).append(result.curve)
    return found
