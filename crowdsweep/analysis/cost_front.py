"""Pareto front of score and cost in seconds: the models that are worth their cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from crowdsweep.analysis.compare import DatasetComparison
from crowdsweep.metrics.intervals import Estimate

FEWEST = 3
"""Least number of models for which a figure is worth drawing."""


@dataclass(frozen=True, kw_only=True)
class CostPoint:
    """Cost and score of one model at its point.

    Attributes:
        seconds: seconds per trial, as a mean over seeds; above 0.
        score: estimate of the metric that ranks.
        on_front: whether no other model is better for the same seconds or fewer, or as good for fewer.
    """

    model: str
    seconds: float
    score: Estimate
    on_front: bool


def cost_front(block: DatasetComparison) -> Sequence[CostPoint]:
    """Returns the ranked models with a known cost, the fastest first; none where there are fewer than `FEWEST`.

    The front compares means alone; the comparison says which differences are significant.
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
