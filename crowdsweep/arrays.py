"""Array types with named axes, the one floor under logarithms, and division by what may be zero.

Axis names used everywhere: `annotations` (A rows), `items` (N), `annotators` (T), `classes` (K; `true` and
`observed` where a matrix has two class axes; of multi-label answers these are 0 not chosen, 1 chosen), `features` (D),
`groups`, `steps`, `replicas`.
"""

import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64

# Under every probability whose logarithm is taken. It is part of the definition of unsmoothed models: with exact
# zeros, a lower floor moves the accuracy of Dawid-Skene by up to two points.
LOG_FLOOR = 1e-12

ItemCodes = Int32[np.ndarray, " annotations"]
AnnotatorCodes = Int32[np.ndarray, " annotations"]
LabelCodes = Int32[np.ndarray, " annotations"]
RowWeights = Float32[np.ndarray, " annotations"]
RowProbs = Float64[np.ndarray, "annotations classes"]
Pointers = Int64[np.ndarray, " pointers"]
ItemProbs = Float64[np.ndarray, "items classes"]
ItemFeatures = Float32[np.ndarray, "items features"]
AnnotatorFeatures = Float32[np.ndarray, "annotators annotator_features"]
Confusions = Float64[np.ndarray, "annotators true observed"]
Confusion = Float64[np.ndarray, "true observed"]
ClassConfusions = Float64[np.ndarray, "annotators classes true observed"]
ClassConfusion = Float64[np.ndarray, "classes true observed"]
ClassProbs = Float64[np.ndarray, " classes"]
Objective = Float64[np.ndarray, " steps"]


def read_only(array: np.ndarray) -> np.ndarray:
    """Returns a C-contiguous view (or copy) that cannot be written to."""
    frozen = np.ascontiguousarray(array).view()
    frozen.flags.writeable = False
    return frozen


def floored_log(probs: np.ndarray) -> np.ndarray:
    """Returns log(max(probs, LOG_FLOOR)), elementwise."""
    return np.log(np.maximum(probs, LOG_FLOOR))


def ratio(part: np.ndarray, whole: np.ndarray, *, at_zero: np.ndarray | float) -> np.ndarray:
    """Returns part / whole, elementwise; `at_zero` where the whole is zero.

    Args:
        part: numerators.
        whole: at least 0; the three broadcast.
        at_zero: what stands where nothing was there to divide by.
    """
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), at_zero)


def normalised_rows(table: np.ndarray) -> np.ndarray:
    """Returns each row (along the last axis) divided by its sum; a row of zeros becomes uniform.

    Args:
        table: at least 0 everywhere [..., classes].
    """
    return ratio(table, table.sum(axis=-1, keepdims=True), at_zero=1.0 / table.shape[-1])
