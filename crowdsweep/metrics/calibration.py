"""Whether predicted probabilities mean what they say."""

import numpy as np

from crowdsweep.arrays import ItemProbs
from crowdsweep.metrics.items import agreement

N_BINS = 15


def ece(reference: ItemProbs, predicted: ItemProbs) -> float:
    """Returns the expected calibration error of the most probable class, in [0, 1].

    Items fall by their largest probability into 15 bins of equal width, closed above; the score is the mean over items
    of their bin's |mean accuracy - mean confidence|. Ties count as in `items.accuracy`.
    """
    confidence = predicted.max(axis=1)
    bins = np.clip(np.ceil(confidence * N_BINS).astype(np.int64) - 1, 0, N_BINS - 1)
    gap = np.bincount(bins, weights=agreement(reference, predicted) - confidence, minlength=N_BINS)
    return float(np.abs(gap).sum() / len(predicted))
