"""Racing: prunes a point when a paired test over seeds finds it worse than the best one."""

from collections.abc import Mapping
from statistics import fmean

import numpy as np

from crowdsweep.metrics.permutation import signed_rank_p
from crowdsweep.search.contract import Goal

FEWEST_SEEDS = 4  # three seeds that are all worse give p = 1/8, above the level


def should_prune(
    scores_by_seed: Mapping[int, float], best_by_seed: Mapping[int, float], goal: Goal = "maximize", p: float = 0.1
) -> bool:
    """Returns whether a point is significantly worse than the best one: Wilcoxon's signed-rank test on shared seeds.

    With p = 0.1, at least `FEWEST_SEEDS` shared seeds are needed. A point whose mean is not worse is never pruned, nor
    is one with a difference that is not finite.
    """
    shared = sorted(scores_by_seed.keys() & best_by_seed.keys())
    sign = 1.0 if goal == "maximize" else -1.0
    behind = np.array([sign * (best_by_seed[seed] - scores_by_seed[seed]) for seed in shared])
    if not np.isfinite(behind).all() or len(behind) == 0 or fmean(behind) <= 0:
        return False
    return signed_rank_p(behind, "greater", rank_zeros=True) < p
