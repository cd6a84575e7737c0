"""Metrics on an ordinal scale, whose classes are steps of one length.

The predicted class is the most probable one, as for accuracy and as labels are written, not the median of the
distribution, which would have the smaller expected error where a fit is sure of its probabilities. Ties count what they
are worth on average (`items`): a class is drawn uniformly from those of each side, independently, and the expected
distance is given. Against a label distribution, error and kappa take its most probable class; the Wasserstein distance
compares all of it.
"""

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.metrics.items import share_of_ties

PerItem = Float64[np.ndarray, " items"]


def errors_in_steps(reference: ItemProbs, predicted: ItemProbs) -> PerItem:
    """Returns for each item by how many steps the predicted class is expected to miss the reference's. O(N K)."""
    # |j - k| counts the steps between two classes: those up to which one side has come, and the other has not.
    wanted, given = (np.cumsum(share_of_ties(side), axis=1)[:, :-1] for side in (reference, predicted))
    return (wanted * (1.0 - given) + given * (1.0 - wanted)).sum(axis=1)


def weighted_kappa_of_each(reference: ItemProbs, predicted: ItemProbs) -> PerItem:
    """Returns numbers whose mean is Cohen's kappa of the two sides' classes, weighted by squared steps, in [-1, 1].

    Kappa is 1 - (squared steps of the items) / (squared steps expected if the two sides were paired at random); 1 where
    both sides have one and the same class everywhere, so that neither can disagree. It is no mean over items: see the
    infinitesimal jackknife in `items`. Cohen (1968), "Weighted kappa: Nominal scale agreement with provision for scaled
    disagreement or partial credit", Psychological Bulletin 70.
    """
    place = np.arange(reference.shape[1], dtype=np.float64)
    # Mean and mean square of the place of each item's class, on both sides: all that squared steps depend on.
    (first, first_square), (second, second_square) = (
        (classes @ place, classes @ place**2) for classes in map(share_of_ties, (reference, predicted))
    )
    n, squared = len(reference), first_square - 2.0 * first * second + second_square
    at_random = n * (first_square + second_square).sum() - 2.0 * first.sum() * second.sum()  # all pairs of two items
    if at_random <= 0.0:
        return np.ones(n)
    # By how much these sums, and with them kappa, grow with the weight of one item.
    more_squared = squared.sum() + n * squared
    more_at_random = (
        n * (first_square + second_square)
        + (first_square + second_square).sum()
        - 2.0 * (first * second.sum() + second * first.sum())
    )
    share = n * squared.sum() / at_random
    return 1.0 - share - n * (more_squared - share * more_at_random) / at_random


def wasserstein_of_each(reference: ItemProbs, predicted: ItemProbs) -> PerItem:
    """Returns for each item the Wasserstein-1 distance of its two distributions, in steps: on a line, the sum of the
    absolute differences of the two cumulative distributions.
    """
    return np.abs(np.cumsum(reference - predicted, axis=1)[:, :-1]).sum(axis=1)
