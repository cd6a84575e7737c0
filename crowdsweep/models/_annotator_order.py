"""An order of the annotators that does not depend on their codes, for drawing initial values."""

import numpy as np
from jaxtyping import Int64

from crowdsweep.data.annotations import Annotations


def annotator_order(annotations: Annotations, rng: np.random.Generator) -> Int64[np.ndarray, " annotators"]:
    """Returns the codes of the annotators in an order that depends on their answers alone.

    Each (item, label) gets a random number and annotators are sorted by the sums of theirs. O(N K + A + T log T).
    """
    numbers = rng.random((annotations.n_classes, annotations.n_items))
    signature = np.bincount(
        annotations.annotator, weights=numbers[annotations.label, annotations.item], minlength=annotations.n_annotators
    )
    return np.argsort(signature, kind="stable")
