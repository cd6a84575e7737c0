"""Calibration of predicted probabilities."""

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.metrics.items import accuracy_of_each

N_BINS = 15


def ece_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns numbers whose mean is the expected calibration error (ECE) of the most probable class, in [0, 1].

    Items fall by their largest probability into 15 bins of equal width, closed above; the ECE is the mean over items of
    their bin's |mean accuracy - mean confidence|. An item's number is its accuracy (ties as in `accuracy_of_each`)
    minus its confidence, with the sign that makes the sum of its bin positive.
    """
    confidence = predicted.max(axis=1)
    bins = np.clip(np.ceil(confidence * N_BINS).astype(np.int64) - 1, 0, N_BINS - 1)
    gap = accuracy_of_each(reference, predicted) - confidence
    return np.sign(np.bincount(bins, weights=gap, minlength=N_BINS))[bins] * gap
