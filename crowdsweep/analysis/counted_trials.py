"""The successful trials that a report counts, and their scores."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from jaxtyping import Float

from crowdsweep.analysis.paired import SeedScores
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.state import JournalState


def counted_results(state: JournalState, trials: Iterable[ShownTrial]) -> Iterator[tuple[ShownTrial, TrialResult]]:
    """Yields the trials that a report counts (`ShownTrial.chosen`) and that succeeded, with their results."""
    for trial in trials:
        result = state.results.get(trial.spec.key) if trial.chosen else None
        if result is not None and result.status is Status.OK:
            yield trial, result


def scores_of(
    state: JournalState, by_item: Mapping[str, Float[np.ndarray, " items"]], metric: str, keys: Mapping[int, str]
) -> SeedScores:
    """Returns the scores of a model's trials.

    Args:
        by_item: key of a trial → scores of its items, for trials that stored them.
        metric: full name of the metric; seeds without it are left out.
        keys: seed → key of the trial.
    """
    metrics = {seed: state.results[key].metrics for seed, key in keys.items()}
    return SeedScores(
        by_seed={seed: found[metric] for seed, found in metrics.items() if metric in found},
        by_item={seed: by_item[key] for seed, key in keys.items() if key in by_item},
    )
