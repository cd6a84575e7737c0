"""A learning curve, top - drop × labels^-rate, fitted to means, and its predictions beyond them.

    f(r) = a - b r^-c             a: its limit, b: how far one label is below that, c: how fast the gap closes

For one c the least squares of a and b are closed, so the fit is a search over a grid of c, the same for the means and
for each of their bootstrap draws (`metrics.resampling`): nothing depends on a starting point, nothing fails to
converge. The gain of more labels is read along the law, from the most that were tried: the last mean may lie off the
curve, as votes of an even number of labels do, which tie. An interval combines three errors: the spread of the draws;
the distance of the means from the law; and the law's error where it could be checked, predicting the last mean from all
others. Such a miss grows with the distance on the scale of logarithms. The latter two are standard deviations, and
count with the normal quantile.

Three numbers are read from few means, so a law is refused where these do not determine it: fewer than four numbers of
labels, or four within a factor of less than `_WIDE`; no rise that is more than chance; no bend, so that where it ends
is open; means that zigzag about it; and for a prediction, an interval wider than all of the rise that was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy import special

from crowdsweep.metrics.intervals import CONFIDENCE
from crowdsweep.metrics.resampling import Draws

FEWEST_NUMBERS = 4
"""Numbers of labels that a law of three parameters is read from."""
FARTHEST = 2.0
"""Times the most labels that were tried: no prediction goes beyond."""
_RATES = np.geomspace(0.1, 4.0, 160)
_STRAIGHT = 0.1  # share of draws at the slowest rate that leaves the end of the curve open
_WIDE = 6.0  # times the least: what four numbers of labels have to span; of 38 predictions from less, 7 missed
_ZIGZAG = 0.15  # of the rise: means that lie so far from the law, as a root mean square, follow another one
Laws = Float64[np.ndarray, "draws 3"]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """A number that a law predicts, with its 95 % interval; `high` may be infinite.

    Attributes:
        refused: why there is none, a phrase; empty where there is one.
    """

    value: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    refused: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class PowerLaw:
    """A law that was fitted to means.

    Attributes:
        labels: per item, ascending, at which there was a mean.
        rise: from the first mean to the last.
        last, last_draws: the last mean, and in each bootstrap draw.
        law: top, drop and rate.
        draws: the same of each bootstrap draw.
        beside: how far means lie beside the law, as a standard deviation.
        miss: what the law misses for each factor of e beyond the last number of labels.
        highest: that the metric can be; infinite where it has no bound.
    """

    labels: tuple[float, ...]
    rise: float
    last: float
    last_draws: Float64[np.ndarray, " draws"]
    law: Float64[np.ndarray, "3"]
    draws: Laws
    beside: float
    miss: float
    highest: float

    @property
    def most(self) -> float:
        """The most labels per item that it was fitted to."""
        return self.labels[-1]

    def gain(self, end: float) -> Predicted:
        """Returns what `end` labels per item bring beyond the most that were tried, in the metric's units."""
        if end > FARTHEST * self.most + 1e-9:
            return Predicted(refused=f"more than {FARTHEST:g} times the most labels that were tried")
        value = float((at(self.law[None], end) - at(self.law[None], self.most))[0])
        gains, off = at(self.draws, end) - at(self.draws, self.most), _QUANTILE * self._off(end)
        low, high = (float(one) for one in np.quantile(gains, _TAILS))
        below, above = (float(np.hypot(value - one, off)) for one in (low, high))
        found = Predicted(value=value, low=value - below, high=value + above)
        if found.high - found.low > self.rise:
            return Predicted(refused="the interval would be wider than all of the rise that was seen")
        left = self.highest - self.last
        return Predicted(value=min(found.value, left), low=min(found.low, left), high=min(found.high, left))

    def labels_for(self, target: float) -> Predicted:
        """Returns how many labels per item reach a target, in labels that may be a fraction; an infinite high end where
        no bound within `FARTHEST` times the most that were tried is known.

        Beyond the most that were tried the law is the one that `gain` adds to the last mean; what that reaches needs no
        more than was tried.
        """
        farthest = FARTHEST * self.most
        beyond = target > self.last
        ahead = target - (self.last - float(at(self.law[None], self.most)[0])) if beyond else target
        value = float(_inverse(self.law[None], ahead)[0])
        value = max(value, self.most) if beyond else min(value, self.most)
        if value > farthest:
            return Predicted(refused=f"not within {FARTHEST:g} times the most labels that were tried")
        off = np.random.default_rng(0).normal(0.0, self._off(value), len(self.draws))
        lasts = self.last_draws - at(self.draws, self.most) if beyond else 0.0
        # `inverted_cdf` returns one of the draws: between infinite ones nothing can be interpolated.
        needed = np.quantile(_inverse(self.draws, target - lasts + off), _TAILS, method="inverted_cdf")
        low, high = min(float(needed[0]), value), max(float(needed[1]), value)
        return Predicted(value=value, low=low, high=high if high <= farthest else float("inf"))

    def _off(self, labels: float) -> float:
        """Returns how far the law itself may be off at so many labels, whatever the items, as a standard deviation."""
        return float(np.hypot(self.beside, self.miss * max(float(np.log(labels / self.most)), 0.0)))


_TAILS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
_QUANTILE = float(special.ndtri(_TAILS[1]))


def fit(
    labels: Sequence[float], means: Float64[np.ndarray, " settings"], draws: Draws, highest: float
) -> PowerLaw | str:
    """Fits a law; returns why not, a phrase, where the means do not determine one.

    Args:
        labels: per item, ascending.
        means: at these.
        draws: bootstrap draws of the means.
        highest: that the metric can be; infinite where it has no bound.
    """
    if len(labels) < FEWEST_NUMBERS:
        return f"fewer than {FEWEST_NUMBERS} numbers of labels were scored"
    if len(labels) == FEWEST_NUMBERS and labels[-1] < _WIDE * labels[0]:
        return (
            f"{FEWEST_NUMBERS} numbers of labels within a factor of {labels[-1] / labels[0]:.2g} are too close together"
        )
    x, rise = np.array(labels, dtype=np.float64), float(means[-1] - means[0])
    if rise <= 0 or np.quantile(draws[:, -1] - draws[:, 0], _TAILS[0]) <= 0:
        return "no rise with more labels, or one that may be chance"
    law, laws = _fitted(x, means[None], highest)[0], _fitted(x, draws, highest)
    if float(np.mean(laws[:, 2] <= _RATES[0] * (1 + 1e-9))) > _STRAIGHT:
        return "the curve does not bend within what was tried, so its limit is not known"
    off = means - at(law[None], x[:, None])[:, 0]
    if float(np.sqrt((off**2).mean())) > _ZIGZAG * rise:
        return "the means do not follow a power law"
    return PowerLaw(
        labels=tuple(map(float, x)),
        rise=rise,
        last=float(means[-1]),
        last_draws=draws[:, -1],
        law=law,
        draws=laws,
        beside=float(np.sqrt((off**2).sum() / (len(x) - 3))),
        miss=_miss(x, means, highest),
        highest=highest,
    )


def at(laws: Laws, labels: float | Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
    """Returns the values of laws at so many labels per item; an array of labels has a last axis of one."""
    return laws[:, 0] - laws[:, 1] * np.power(labels, -laws[:, 2])


def _fitted(x: Float64[np.ndarray, " settings"], y: Draws, highest: float) -> Laws:
    """Returns the laws of least squares, a row each, with top at most `highest` and no drop below zero."""
    basis = x[None, :] ** -_RATES[:, None]
    spread = basis - basis.mean(axis=1, keepdims=True)
    centre = y.mean(axis=1, keepdims=True)
    drop = np.maximum(-((y - centre) @ spread.T) / (spread**2).sum(axis=1), 0.0)
    top = centre + drop * basis.mean(axis=1)
    if np.isfinite(highest):
        # With the top held at the metric's bound, the drop alone is fitted again.
        bounded = np.maximum((highest - y) @ basis.T / (basis**2).sum(axis=1), 0.0)
        drop, top = np.where(top > highest, bounded, drop), np.minimum(top, highest)
    errors = np.zeros(drop.shape)
    # One number of labels at a time: all at once would be a table of draws × rates × numbers of labels.
    for place in range(len(x)):
        errors += (top - drop * basis[:, place] - y[:, place, None]) ** 2
    best = errors.argmin(axis=1)
    rows = np.arange(len(y))
    return np.stack([top[rows, best], drop[rows, best], _RATES[best]], axis=1)


def _miss(x: Float64[np.ndarray, " settings"], means: Float64[np.ndarray, " settings"], highest: float) -> float:
    """Returns how far a law of all means but the last is from that one, for each factor of e between the last two."""
    before = _fitted(x[:-1], means[None, :-1], highest)
    return abs(float(at(before, float(x[-1]))[0]) - float(means[-1])) / float(np.log(x[-1] / x[-2]))


def _inverse(laws: Laws, target: float | Float64[np.ndarray, " draws"]) -> Float64[np.ndarray, " draws"]:
    """Returns at how many labels laws reach a target; infinite where they never do, no fewer than one."""
    left = laws[:, 0] - target
    reached = (left > 0) & (laws[:, 1] > 0)
    needed = np.full(len(laws), np.inf)
    with np.errstate(over="ignore"):
        needed[reached] = np.maximum((laws[reached, 1] / left[reached]) ** (1.0 / laws[reached, 2]), 1.0)
    flat = (left >= 0) & (laws[:, 1] <= 0)
    needed[flat] = 1.0
    return needed
