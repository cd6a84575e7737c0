"""Whether predicted probabilities mean what they say."""

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.metrics.items import agreement

N_BINS = 15


def ece(reference: ItemProbs, predicted: ItemProbs) -> float:
    """Returns the expected calibration error of the most probable class, in [0, 1].

    Items fall by their largest probability into 15 bins of equal width, closed above; the score is the mean over items
    of their bin's |mean accuracy - mean confidence|. Ties count as in `items.accuracy`.
    """
    return float(ece_of_each(reference, predicted).mean())


def ece_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns for each item accuracy less confidence, or the other way round where its bin is surer than right: their
    mean is `ece`."""
    confidence = predicted.max(axis=1)
    bins = np.clip(np.ceil(confidence * N_BINS).astype(np.int64) - 1, 0, N_BINS - 1)
    gap = agreement(reference, predicted) - confidence
    return np.sign(np.bincount(bins, weights=gap, minlength=N_BINS))[bins] * gap
