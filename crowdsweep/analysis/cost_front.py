"""Score against seconds: which models are worth their cost, the Pareto front of both."""

from collections.abc import Sequence
from dataclasses import dataclass

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.metrics.intervals import Estimate

FEWEST = 3
"""Models of which a picture says more than a table."""


@dataclass(frozen=True, kw_only=True)
class CostPoint:
    """A model at its point, by what it costs and what it reaches.

    Attributes:
        model: its label in the sweep.
        seconds: a trial takes, as a mean over seeds; above 0.
        score: by the metric that ranks.
        on_front: whether no other is better for the same seconds or less, or as good for less.
    """

    model: str
    seconds: float
    score: Estimate
    on_front: bool


def cost_front(block: DatasetComparison) -> Sequence[CostPoint]:
    """Returns all models that were ranked, the fastest first; of fewer than `FEWEST` none. A mean is taken as it
    stands: which differences are significant is the comparison's to say.

    Args:
        block: the comparison on one dataset.
    """
    known = [
        (score.wall_s.mean, score.metrics[block.metric], score.model)
        for score in block.ranked
        if score.wall_s is not None and score.wall_s.mean > 0
    ]
    if len(known) < FEWEST:
        return ()
    sign = 1.0 if block.goal == "maximize" else -1.0
    points: list[CostPoint] = []
    best = float("-inf")
    for seconds, score, model in sorted(known, key=lambda one: (one[0], -sign * one[1].mean)):
        points.append(CostPoint(model=model, seconds=seconds, score=score, on_front=sign * score.mean > best))
        best = max(best, sign * score.mean)
    return points
