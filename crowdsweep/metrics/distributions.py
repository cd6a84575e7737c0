"""Distances of predicted label distributions from the reference's (KL, JS, Manhattan), and the predictions' entropy.

The cross-entropy of a prediction under its reference is `items.log_loss_of_each`.
"""

import numpy as np
from jaxtyping import Float64
from scipy.special import xlogy

from crowdsweep.arrays import ItemProbs

# Added to every entry of both distributions, which are not normalised again: as in the public code of the
# label-distribution papers, whose printed values depend on it.
KL_EPSILON = 1e-5


def kl_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns for each item KL(reference || predicted) in nats, 1e-5 added to every entry of both."""
    wanted, given = reference + KL_EPSILON, predicted + KL_EPSILON
    return (wanted * np.log(wanted / given)).sum(axis=1)


def js_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns for each item the Jensen-Shannon divergence in bits, in [0, 1]; exact, zero entries adding nothing."""
    middle = 0.5 * (reference + predicted)
    in_nats = [-xlogy(probs, probs).sum(axis=1) for probs in (middle, reference, predicted)]
    return (in_nats[0] - 0.5 * (in_nats[1] + in_nats[2])) / np.log(2.0)


def manhattan_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns for each item the absolute differences summed over the classes, in [0, 2].

    The third LeWiDi shared task scores soft labels so (Leonardelli et al. 2025), of multi-label items each class as a
    distribution of two. (0.5, 0.5) against (0.8, 0.2) is 0.6.
    """
    return np.abs(reference - predicted).sum(axis=1)


def entropy(predicted: ItemProbs) -> float:
    """Returns the mean entropy of the predictions in nats, in [0, log classes]; exact, zero entries adding nothing."""
    return float(-xlogy(predicted, predicted).sum(axis=1).mean())
