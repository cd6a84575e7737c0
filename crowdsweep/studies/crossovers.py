"""The places on a study's axis where one model overtakes another, and how sure each is."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log

import numpy as np
from jaxtyping import Float64

from crowdsweep.studies.axis import ModelsAlong

RESAMPLES = 2000
ENDS = (2.5, 97.5)  # percentiles that bound a 95 % interval
CERTAIN = 0.95


@dataclass(frozen=True, kw_only=True)
class Crossover:
    """An overtaking: one model is better below a place on the axis, another one above it.

    Attributes:
        before, after: the model that is better below, and the one that is better above.
        at: the place, interpolated between two values of the axis by straight lines over its logarithm.
        low, high: its 95 % interval over seeds; None where nothing varies over them.
        share: share of the resamples of seeds in which the one overtakes the other at all.
    """

    before: str
    after: str
    at: float
    low: float | None = None
    high: float | None = None
    share: float = 1.0

    def words(self, along: str) -> str:
        """Returns the overtaking as a sentence without a full stop; `along` is what the axis counts."""
        text = f"{self.after} overtakes {self.before} at about {_round(self.at)} {along}"
        if self.low is None or self.high is None:
            return text
        text += f" (95 % interval {_round(self.low)} to {_round(self.high)})"
        if self.share < CERTAIN:
            text += f", which is not certain: in {100 * (1 - self.share):.0f} % of resamples of the seeds it does not"
        return text


def crossovers(models: ModelsAlong, metric: str) -> Iterator[Crossover]:
    """Yields each change of the best model along the axis, with its place between the two values of the axis.

    Means are compared on the seeds that both models have at every value. The interval is a bootstrap over these seeds.
    Its deviations are widened by √(n / (n - 1)), since those of resamples of n numbers are too small by that factor.

    Args:
        models: results at values of the axis that are numbers above 0.
        metric: the metric by which models are compared; higher is better.
    """
    sizes = sorted({size for points in models.values() for size in points if size is not None})
    means = {
        size: {
            name: found.mean
            for name, points in models.items()
            if size in points and (found := points[size].estimate(metric)) is not None
        }
        for size in sizes
    }
    leaders = [(size, max(known, key=lambda name: known[name])) for size, known in means.items() if known]
    for (_, before), (size, after) in pairwise(leaders):
        if before != after:
            found = _between(models, before, after, sizes, metric, size)
            if found is not None:
                yield found


def _between(
    models: ModelsAlong, before: str, after: str, sizes: Sequence[int], metric: str, size: int
) -> Crossover | None:
    """Returns where the second model overtakes the first for the last time up to a size; None where its mean does not.

    In each resample, the crossing nearest to that place counts.
    """
    one, two = models[before], models[after]
    both = [place for place in sizes if place in one and place in two]
    of = [(one[place].by_seed.get(metric, {}), two[place].by_seed.get(metric, {})) for place in both]
    seeds = sorted(set.intersection(*(first.keys() & second.keys() for first, second in of))) if of else []
    if not seeds:
        return None
    ahead = np.array([[second[seed] - first[seed] for first, second in of] for seed in seeds])
    places = np.log(np.array(both, dtype=np.float64))
    mean = ahead.mean(axis=0)
    crossings = _crossings(mean[None], places)[0]
    crossings = crossings[crossings <= log(size)]
    if not len(crossings):
        return None
    at = float(crossings[-1])
    found, n = Crossover(before=before, after=after, at=exp(at)), len(seeds)
    if n < 2 or not np.ptp(ahead, axis=0).any():
        return found
    # A fixed seed: the same results have the same interval in every report.
    draws = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    each = _crossings(mean + (ahead[draws].mean(axis=1) - mean) * (n / (n - 1)) ** 0.5, places)
    nearest = np.nan_to_num(np.abs(each - at), nan=np.inf).argmin(axis=1)
    crossed = each[np.arange(RESAMPLES), nearest]
    known = crossed[~np.isnan(crossed)]
    low, high = np.percentile(known, ENDS) if len(known) else (at, at)
    return replace(found, low=exp(low), high=exp(high), share=len(known) / RESAMPLES)


def _crossings(
    ahead: Float64[np.ndarray, "samples sizes"], places: Float64[np.ndarray, " sizes"]
) -> Float64[np.ndarray, "samples between"]:
    """Returns where each line rises to 0 from below, between each two sizes; NaN where it does not."""
    left, right = ahead[:, :-1], ahead[:, 1:]
    rises = (left < 0) & (right >= 0)
    share = np.divide(-left, right - left, out=np.full(left.shape, np.nan), where=rises)
    return places[:-1] + np.diff(places) * share


def _round(value: float) -> str:
    # Two significant digits. log(1000) / log(10) is just below 3, which the small number makes up for.
    digits = max(0, int(log(value) / log(10) + 1e-9) - 1)
    return f"{round(value / 10**digits) * 10**digits:,}"
