"""The Pareto front of results under several objectives."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64

from crowdsweep.metrics.kinds import Goal


def on_front(values: Float64[np.ndarray, "rows objectives"], goals: Sequence[Goal]) -> Bool[np.ndarray, " rows"]:
    """Returns of each row, all finite, whether no other one is better in one objective and as good in all others; equal
    rows stand or fall together. Takes time in rows × length of the front.
    """
    losses = values * [-1.0 if goal == "maximize" else 1.0 for goal in goals]
    front: list[int] = []
    for row in np.lexsort(losses.T[::-1]).tolist():  # none is dominated by a later one
        better = losses[front] <= losses[row]
        if not (better.all(axis=1) & (losses[front] < losses[row]).any(axis=1)).any():
            front.append(row)
    found = np.zeros(len(values), dtype=np.bool_)
    found[front] = True
    return found
