"""Means over seeds with their uncertainty, computed once for reports and studies alike.

A mean varies over what its seeds draw and, where the score of each item is known, over the items: another test set
would give another mean, even of a model that is the same at every seed. `StandardError` says how far a mean may be off,
and from it come its interval and the test of a paired difference:

- over seeds: the variance of the mean of n independent numbers, n - 1 degrees of freedom;
- over seeds and items: seeds and items are crossed, so the variance of the mean is that of the means of seeds plus
  that of the means of items, less what both count (the interaction), as in a two-way analysis of variance; degrees
  of freedom after Satterthwaite (1946). Of the items only those count that carry the variance, (Σd²)² / Σd⁴: four
  items of 800 that differ are evidence of four, as in McNemar's exact test;
- over held-out splits that overlap: Nadeau and Bengio's (2003) variance, s² (1/n + f / (1 - f)).

The interval of a mean is Student's t. From five seeds on each end is the farther of Student's and of Hall's (1992),
whose monotone cubic transformation undoes the skewness: alone, Student's misses on the side of the long tail and
Hall's, with few seeds, trusts an estimated skewness too much. Three or four seeds show no skewness, but the range of a
metric does: scores that end at a bound lean away from it. There each end is the farther of Student's and of the one
that Student's has on the scale on which the bound is infinitely far (logarithms of the distances). No interval leaves
the range of the metric. Of items that are right or wrong it is Wilson's (1927) score interval, which has an answer
where all are right. Differences of two models are in `metrics.differences`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy import special

from crowdsweep.metrics.metric_table import Goal, info_of

CONFIDENCE = 0.95
FEWEST_FOR_SKEWNESS = 5  # with fewer seeds a third moment says nothing
FEWEST_FOR_SCALE = 3  # two seeds say nothing of any scale: Student's quantile is 12.7
FEWEST_THAT_CARRY = 5  # simulated, with classes of 5 % and 60, 150, 600 items: macro-F1's intervals cover 95 to 97 %
_FARTHEST = 2.0  # times Student's: with so few seeds a logarithm, too, can be led astray
_NEAREST = 0.1  # of the mean distance from a bound: what lies on it is taken to be so far away
Varies = Literal["seeds", "items", "seeds and items", "held-out splits"]
Numbers = Float64[np.ndarray, " rows"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds.

    Attributes:
        n: number of values; at least one.
        sd: sample standard deviation (n - 1); None where n is one.
        low, high: the 95 % interval; None where nothing is known to vary: n is one, or every value is the same, and
            the items' scores are not known. An interval of width zero would claim a certainty that seeds cannot give.
        varies: what the interval varies over.
        n_items: number of items whose scores are known; 0 where they are not.
        collapsed: number of values that lie far apart on the worse side (`collapsed`): the interval does not cover.
    """

    n: int
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    varies: Varies = "seeds"
    n_items: int = 0
    collapsed: int = 0

    @property
    def constant(self) -> bool:
        """Whether several seeds all gave the same number: nothing in data or model depends on the seed."""
        return self.n > 1 and self.sd == 0.0


@dataclass(frozen=True, kw_only=True)
class StandardError:
    """How far means may be off: their standard errors, squared, and how well these are known.

    Attributes:
        variance: of each mean; 0 where nothing varied.
        freedom: degrees of freedom of that variance, at least 1.
        skewness: of the mean; 0 where it is not corrected for.
    """

    variance: Numbers
    freedom: Numbers
    skewness: Numbers


def estimate(
    values: Sequence[float],
    *,
    metric: str = "",
    heldout: float = 0.0,
    item_scores: Float[np.ndarray, "values items"] | None = None,
) -> Estimate:
    """Returns mean, standard deviation and 95 % interval.

    Args:
        values: one for each seed.
        metric: whose values they are, by its full name: its range bounds the interval, its goal says what collapsed.
            Empty for paired differences, which are skewed little: their interval is Student's alone.
        heldout: share of the annotations that each seed held out anew, where the values are scores of these.
        item_scores: of each seed the scores of the items that its value is the mean of.

    Raises:
        ValueError: there are no values, or one is not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not np.isfinite(array).all():
        raise ValueError(f"expected at least one value, all finite, got {list(values)}")
    n, mean = int(array.size), float(array.mean())
    alike = np.ptp(array) <= 1e-12 * max(1.0, abs(mean))
    error, varies = standard_error_of(array, heldout=heldout, item_scores=item_scores)
    found = Estimate(
        n=n,
        mean=mean,
        sd=None if n == 1 else 0.0 if alike else float(array.std(ddof=1)),
        varies=varies,
        n_items=0 if item_scores is None else item_scores.shape[1],
    )
    info = info_of(metric) if metric else None
    if info is not None and info.goal is not None:
        found = replace(found, collapsed=int(collapsed(array[None], info.goal, info.low, info.high)[0]))
    if info is not None and info.is_share and item_scores is not None and item_scores.shape[1] > 1:
        low, high = share_interval(item_scores)
        return replace(found, low=low, high=high)
    if error is None or error.variance[0] <= 1e-24 * max(1.0, mean * mean):
        return found
    if not metric:
        error = replace(error, skewness=np.zeros(1))
    low, high = (float(end[0]) for end in interval(array.mean(keepdims=True), error))
    if info is not None:
        if varies == "seeds" and FEWEST_FOR_SCALE <= n < FEWEST_FOR_SKEWNESS:
            low, high = (float(end[0]) for end in few_seeds_interval(array[None], info.low, info.high))
        # `min` with the mean: a mean that rounding put outside of the range stays inside its interval.
        low, high = max(low, min(info.low, mean)), min(high, max(info.high, mean))
    return replace(found, low=low, high=high)


def standard_error_of(
    values: Float64[np.ndarray, " values"],
    *,
    heldout: float = 0.0,
    item_scores: Float[np.ndarray, "values items"] | None = None,
) -> tuple[StandardError | None, Varies]:
    """Returns how far the mean of some seeds may be off, in one row (None: nothing tells), and what it varies over."""
    if heldout:
        return (split_standard_error(values[None], heldout) if len(values) > 1 else None), "held-out splits"
    if item_scores is not None and item_scores.shape[1] > 1:
        moves = len(values) > 1 and np.ptp(values) > 1e-12 * max(1.0, abs(float(values.mean())))
        return crossed_standard_error(item_scores[None]), "seeds and items" if moves else "items"
    return (seed_standard_error(values[None]) if len(values) > 1 else None), "seeds"


def seed_standard_error(values: Float[np.ndarray, "rows seeds"]) -> StandardError:
    """Returns the standard error of means over the last axis, of at least two independent numbers each."""
    n = values.shape[1]
    variance = values.var(axis=1, ddof=1) / n
    third = _third_moment(values) / n**2
    return StandardError(variance=variance, freedom=np.full_like(variance, n - 1), skewness=_skewness(third, variance))


def split_standard_error(values: Float[np.ndarray, "rows splits"], heldout: float) -> StandardError:
    """Returns the standard error of means over splits, each of which holds another share of the same data out.

    Nadeau and Bengio (2003): the splits overlap, so their mean varies more than their own variance says.

    Args:
        values: at least two along the last axis.
        heldout: share that each split holds out, in (0, 1).
    """
    n = values.shape[1]
    variance = values.var(axis=1, ddof=1) * (1.0 / n + heldout / (1.0 - heldout))
    return StandardError(variance=variance, freedom=np.full_like(variance, n - 1), skewness=np.zeros_like(variance))


def crossed_standard_error(scores: Float[np.ndarray, "rows seeds items"], *, all_count: bool = False) -> StandardError:
    """Returns the standard error of means over the last two axes, seeds (one or more) and items (two or more).

    Args:
        scores: of items.
        all_count: every item counts as evidence, not only those that carry the variance.
    """
    scores = scores.astype(np.float64)
    n_seeds, n_items = scores.shape[1:]
    of_items, mean = scores.mean(axis=1), scores.mean(axis=(1, 2))
    from_mean = of_items - mean[:, None]
    by_items = from_mean.var(axis=1, ddof=1) / n_items
    squares = (from_mean**2).sum(axis=1)
    fourth = (from_mean**4).sum(axis=1)
    carrying = np.divide(squares**2, fourth, out=np.full_like(squares, n_items), where=fourth > 0)
    item_freedom = np.full_like(carrying, n_items - 1) if all_count else np.maximum(carrying - 1.0, 1.0)
    third = _third_moment(of_items) / n_items**2
    if n_seeds == 1:
        return StandardError(variance=by_items, freedom=item_freedom, skewness=_skewness(third, by_items))
    of_seeds = scores.mean(axis=2)
    by_seeds = of_seeds.var(axis=1, ddof=1) / n_seeds
    rest = scores - of_items[:, None, :] - of_seeds[:, :, None] + mean[:, None, None]
    # The interaction's mean square over seeds × items. The variances of the seeds' and of the items' means hold it once
    # each, and that of their common mean only once.
    counted_twice = (rest**2).mean(axis=(1, 2)) / ((n_seeds - 1) * (n_items - 1))
    # What is subtracted is an estimate too, and may be too large; the sum is at least either part.
    variance = np.maximum(by_seeds + by_items - counted_twice, np.maximum(by_seeds, by_items))
    parts = by_seeds**2 / (n_seeds - 1) + by_items**2 / item_freedom
    freedom = np.divide(variance**2, parts, out=np.ones_like(variance), where=parts > 0)
    # Third central moments of independent parts add up, as variances do.
    third = third + _third_moment(of_seeds) / n_seeds**2
    return StandardError(variance=variance, freedom=np.maximum(freedom, 1.0), skewness=_skewness(third, variance))


def interval(mean: Numbers, error: StandardError) -> tuple[Numbers, Numbers]:
    """Returns the ends of 95 % intervals: each the farther of Student's and Hall's."""
    scale = np.sqrt(error.variance)
    quantile = np.asarray(special.stdtrit(error.freedom, (1 + CONFIDENCE) / 2))
    below = np.maximum(quantile, _hall(quantile, error.skewness))
    above = np.maximum(quantile, -_hall(-quantile, error.skewness))
    return mean - scale * below, mean + scale * above


def few_seeds_interval(values: Float[np.ndarray, "rows seeds"], low: float, high: float) -> tuple[Numbers, Numbers]:
    """Returns the ends of 95 % intervals over three or four seeds: each the farther of Student's and of what Student's
    is on the scale on which the bounds of a metric are infinitely far (logits between two bounds, the logarithm of the
    distance from one), but at most `_FARTHEST` times as far as Student's.

    Args:
        values: of a metric.
        low, high: its range; infinite where it has no bound.
    """
    mean, half = _student(values)
    ends = (mean - half, mean + half)
    if np.isfinite(low) or np.isfinite(high):
        middle, width = _student(_log_distance(values - low) - _log_distance(high - values))
        ends = tuple(_from_scale(middle + sign * width, low, high) for sign in (-1.0, 1.0))
    below, above = ((mean - ends[0]) / half, (ends[1] - mean) / half)
    return mean - half * np.clip(below, 1.0, _FARTHEST), mean + half * np.clip(above, 1.0, _FARTHEST)


def _student(values: Float[np.ndarray, "rows seeds"]) -> tuple[Numbers, Numbers]:
    n = values.shape[1]
    quantile = float(special.stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    return values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(n) * quantile


def _from_scale(place: Numbers, low: float, high: float) -> Numbers:
    """Returns the values at these places of the scale of a range with one bound or two."""
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) * special.expit(place)
    return low + np.exp(place) if np.isfinite(low) else high - np.exp(-place)


def _log_distance(distance: Float[np.ndarray, "rows seeds"]) -> Float64[np.ndarray, "rows seeds"]:
    """Returns logarithms of distances from a bound; 0 where that is infinitely far."""
    if not np.isfinite(distance).all():
        return np.zeros(distance.shape)
    least = np.maximum(_NEAREST * distance.mean(axis=1, keepdims=True), 1e-12)
    return np.log(np.maximum(distance, least))


def share_interval(right: Float[np.ndarray, "seeds items"]) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of the share of items that are right, by Wilson's score interval.

    For n right or wrong items, n is what share and variance say of it, m (1 - m) / variance, so that seeds that differ
    count for fewer items; where nothing varies it is the number of items. A share that is no mean of such items, as F1,
    may hang on the few items of a rare class: only those that carry its variance count, `FEWEST_THAT_CARRY` at least.

    Args:
        right: 1 where an item is right, 0 where it is wrong; between them where that is in part (a tie); below 0 or
            above 1 where the share is no mean of them (`metrics.items`).
    """
    mean, n_items = float(right.mean(dtype=np.float64)), right.shape[1]
    of_rights = bool(((right >= 0) & (right <= 1)).all())
    error = crossed_standard_error(right[None], all_count=of_rights)
    variance, freedom = float(error.variance[0]), float(error.freedom[0])
    freedom = freedom if of_rights else max(freedom, min(FEWEST_THAT_CARRY, n_items - 1))
    n, freedom = (mean * (1.0 - mean) / variance, freedom) if variance > 0 else (n_items, n_items - 1)
    square = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) ** 2 / n
    middle = (mean + square / 2) / (1 + square)
    half = float(np.sqrt(square * mean * (1.0 - mean) + square**2 / 4)) / (1 + square)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def p_value(mean: Numbers, error: StandardError) -> Numbers:
    """Returns two-sided p values for the hypothesis that a mean is 0, by Student's t; 1 where nothing varies."""
    t = np.divide(np.abs(mean), np.sqrt(error.variance), out=np.zeros_like(error.variance), where=error.variance > 0)
    return np.asarray(2.0 * special.stdtr(error.freedom, -t))


def collapsed(
    values: Float[np.ndarray, "rows seeds"], goal: Goal, low: float, high: float
) -> Int64[np.ndarray, " rows"]:
    """Returns how many of the seeds along the last axis collapsed: 0 where they do not fall into two groups.

    They do where the larger group, of at least three, lies apart from the smaller by a gap that is more than three
    times as wide as the larger group and a tenth of the metric's range; where that has no two ends, half of the larger
    group's median. The worse of the two groups collapsed; where that is the larger one, the gap is to be three times as
    wide: a lucky seed makes no collapse of the others.

    Args:
        values: at least one along the last axis.
        goal: which side is worse.
        low, high: the range of the metric.
    """
    worst_first = np.sort(values if goal == "maximize" else -values, axis=1)
    n = worst_first.shape[1]
    place = np.arange(1, n)  # so many stand below each gap between two neighbours
    gaps = np.diff(worst_first, axis=1)
    above_is_larger = 2 * place <= n
    first, last = np.where(above_is_larger, place, 0), np.where(above_is_larger, n - 1, place - 1)  # of the larger
    width = worst_first[:, last] - worst_first[:, first]
    if np.isfinite(high - low):
        size = np.full(gaps.shape, (high - low) / 10)
    else:
        size = np.abs((worst_first[:, (first + last) // 2] + worst_first[:, (first + last + 1) // 2]) / 2) / 2
    size = np.where(above_is_larger, size, 3 * size)
    apart = (gaps > 3 * width) & (gaps > size) & (last - first >= 2)
    widest = np.where(apart, gaps, 0.0).argmax(axis=1) if n > 1 else np.zeros(len(values), dtype=np.int64)
    return np.where(apart.any(axis=1), widest + 1, 0)


def _third_moment(values: Float[np.ndarray, "rows n"]) -> Numbers:
    """Returns the unbiased third central moment along the last axis; 0 where there are too few to tell."""
    n = values.shape[1]
    if n < FEWEST_FOR_SKEWNESS:
        return np.zeros(len(values))
    deviations = values - values.mean(axis=1, keepdims=True)
    return (deviations**3).mean(axis=1) * n * n / ((n - 1) * (n - 2))


def _skewness(third: Numbers, variance: Numbers) -> Numbers:
    return np.divide(third, variance**1.5, out=np.zeros_like(variance), where=variance > 0)


def _hall(quantile: Numbers, skewness: Numbers) -> Numbers:
    """Returns the inverse of Hall's transformation, g(t) = t + a t² / 3 + a² t³ / 27 + a / 6, at a quantile."""
    # g(t) = ((1 + a t / 3)³ - 1) / a + a / 6, so that its inverse is a cube root; at a = 0 it is the identity.
    known = np.abs(skewness) > 1e-9
    a = np.where(known, skewness, 1.0)
    return np.where(known, 3.0 / a * (np.cbrt(1.0 + a * (quantile - a / 6.0)) - 1.0), quantile)
