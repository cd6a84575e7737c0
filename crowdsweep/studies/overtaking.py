"""Where along a study's axis one model overtakes another, and how sure that is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from typing import Literal

import numpy as np
from jaxtyping import Float64

from crowdsweep.studies.axis import AxisPoint, ModelsAlong

RESAMPLES = 2000
ENDS = (2.5, 97.5)  # percent: of a 95 % interval
CERTAIN = 0.95


@dataclass(frozen=True, kw_only=True)
class Overtaking:
    """One model is better below a place of the axis, another one above.

    Attributes:
        before, after: who is better below and above.
        at: the place, between two values of the axis by straight lines over its logarithm.
        low, high: its 95 % interval over seeds; None where nothing varies over them.
        share: of the resamples of seeds, those in which the one overtakes the other at all.
    """

    before: str = ""
    after: str = ""
    at: float
    low: float | None = None
    high: float | None = None
    share: float = 1.0

    def words(self, along: str) -> str:
        """Returns it as a sentence without its full stop; `along` is what the axis counts."""
        told = f"{self.after} overtakes {self.before} at about {_round(self.at)} {along}"
        if self.low is None or self.high is None:
            return told
        told += f" (95 % interval {_round(self.low)} to {_round(self.high)})"
        if self.share < CERTAIN:
            told += f", which is not certain: in {100 * (1 - self.share):.0f} % of resamples of the seeds it does not"
        return told


def overtakings(models: ModelsAlong, metric: str, goal: Literal["maximize", "minimize"]) -> Iterator[Overtaking]:
    """Yields each change of the best model along the axis.

    Means are compared on the seeds that both models have at every value. The interval is a bootstrap over these, with
    deviations widened by √(n / (n - 1)), which a resample of n numbers lacks.

    Args:
        models: with numbers as values of the axis, all above 0.
        metric: by which they are compared.
        goal: which way it is better.
    """
    sizes = sorted({size for points in models.values() for size in points if size is not None})
    sign = 1.0 if goal == "maximize" else -1.0
    means = {
        size: {
            name: sign * found.mean
            for name, points in models.items()
            if size in points and (found := points[size].estimate(metric)) is not None
        }
        for size in sizes
    }
    leaders = [(size, max(known, key=lambda name: known[name])) for size, known in means.items() if known]
    seen: set[tuple[str, str]] = set()
    for (_, before), (_, after) in pairwise(leaders):
        if before == after or (before, after) in seen:
            continue
        seen.add((before, after))
        found = _between(models[before], models[after], sizes, metric, sign)
        if found is not None:
            yield replace(found, before=before, after=after)


def _between(
    before: Mapping[int | None, AxisPoint],
    after: Mapping[int | None, AxisPoint],
    sizes: Sequence[int],
    metric: str,
    sign: float,
) -> Overtaking | None:
    """Returns where the second overtakes the first, still without names; None where its mean never does."""
    both = [size for size in sizes if size in before and size in after]
    of = [(before[size].by_seed.get(metric, {}), after[size].by_seed.get(metric, {})) for size in both]
    seeds = sorted(set.intersection(*(one.keys() & two.keys() for one, two in of))) if of else []
    if not seeds:
        return None
    ahead = sign * np.array([[two[seed] - one[seed] for one, two in of] for seed in seeds])
    places = np.log(np.array(both, dtype=np.float64))
    at = _crossing(ahead.mean(axis=0)[None], places)[0]
    if np.isnan(at):
        return None
    n = len(seeds)
    if n < 2 or not np.ptp(ahead, axis=0).any():
        return Overtaking(at=exp(at))
    draws = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    mean = ahead.mean(axis=0)
    resampled = mean + (ahead[draws].mean(axis=1) - mean) * (n / (n - 1)) ** 0.5
    crossed = _crossing(resampled, places)
    known = crossed[~np.isnan(crossed)]
    low, high = np.percentile(known, ENDS) if len(known) else (at, at)
    return Overtaking(at=exp(at), low=exp(low), high=exp(high), share=len(known) / RESAMPLES)


def _crossing(
    ahead: Float64[np.ndarray, "samples sizes"], places: Float64[np.ndarray, " sizes"]
) -> Float64[np.ndarray, " samples"]:
    """Returns where each line comes up to 0 from below for the first time; NaN where it never does."""
    rises = (ahead[:, :-1] < 0) & (ahead[:, 1:] >= 0)
    first = rises.argmax(axis=1)
    rows = np.arange(len(ahead))
    left, right = ahead[rows, first], ahead[rows, first + 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        at = places[first] + (places[first + 1] - places[first]) * -left / (right - left)
    return np.where(rises.any(axis=1), at, np.nan)


def _round(value: float) -> str:
    digits = max(0, int(log(value) / log(10) + 1e-9) - 1)
    return f"{round(value / 10**digits) * 10**digits:,}"
