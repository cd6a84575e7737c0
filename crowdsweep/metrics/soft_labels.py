"""Statistics of Fornaciari et al. (NAACL 2021) on two models' predictions: a bootstrap test, kurtosis of votes."""

import numpy as np
from jaxtyping import Bool, Float, Float64

from crowdsweep.arrays import ItemProbs
from crowdsweep.seeds import SeedStream

SAMPLES = 1_000
SHARE = 0.33  # of the pooled predictions in a sample


def bootstrap_p(differences: Float[np.ndarray, " predictions"], *, samples: int = SAMPLES, seed: int = 0) -> float:
    """Returns the share of samples whose mean difference exceeds twice the observed one, in its direction.

    A sample draws a third of the predictions, with replacement; the rule of twice the observed difference is that of
    Berg-Kirkpatrick et al. (2012). Predictions of several runs are pooled as if they were independent, which they are
    not where runs share items: the p is then smaller than that of a test that knows better.

    Returns:
        1 where the two do not differ at all, or there are no predictions.
    """
    observed = float(differences.mean()) if len(differences) else 0.0
    if observed == 0.0:
        return 1.0
    # A sample's mean depends only on how often it draws each distinct value.
    values, counts = np.unique(differences.astype(np.float64), return_counts=True)
    size = max(1, round(SHARE * len(differences)))
    drawn = SeedStream(seed).numpy("bootstrap").multinomial(size, counts / counts.sum(), size=samples)
    means = drawn @ values / size
    return float((np.sign(observed) * means > 2 * abs(observed)).mean())


def kurtosis_of(soft_labels: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns the excess kurtosis (Fisher's, biased) over the K entries of each soft label: high where one class stands
    out; one-hot with K = 12 gives 7.09. NaN where all entries are equal. With two classes it is always -2."""
    flat = np.ptp(soft_labels, axis=1) == 0
    found = np.full(len(soft_labels), np.nan)
    away = soft_labels[~flat] - soft_labels[~flat].mean(axis=1, keepdims=True)
    found[~flat] = (away**4).mean(axis=1) / (away**2).mean(axis=1) ** 2 - 3
    return found


def kurtosis_by_outcome(
    kurtosis: Float[np.ndarray, " predictions"],
    first_right: Bool[np.ndarray, " predictions"],
    second_right: Bool[np.ndarray, " predictions"],
) -> tuple[tuple[float, int], ...]:
    """Returns the mean kurtosis of the soft labels, and the number of predictions, of items that both models get right,
    only the first, only the second, and neither; NaN where there are none.

    Args:
        kurtosis: of each prediction's item (`kurtosis_of`); NaN is left out.
        first_right, second_right: whether each model was right.
    """
    known = ~np.isnan(kurtosis)
    groups = (
        first_right & second_right,
        first_right & ~second_right,
        ~first_right & second_right,
        ~first_right & ~second_right,
    )
    picked = [kurtosis[known & group] for group in groups]
    return tuple((float(part.mean()) if len(part) else np.nan, len(part)) for part in picked)
