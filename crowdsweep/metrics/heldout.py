"""How well a fitted model foretells annotations that were taken out before the fit. Needs no gold."""

from collections.abc import Callable

import numpy as np

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs, floored_log
from crowdsweep.data.annotations import Annotations

CHUNK_ENTRIES = 8_000_000  # rows × classes at a time: 64 MB


def heldout_loglik(label_probs: Callable[[ItemCodes, AnnotatorCodes], RowProbs], heldout: Annotations) -> float:
    """Returns the mean log-probability of one held-out annotation, in nats; `LOG_FLOOR` bounds it at -27.6.

    A row with a probability of its own (a soft answer) counts its expected log-probability; weights weigh the mean.

    Raises:
        ValueError: nothing is held out.
    """
    if not len(heldout):
        raise ValueError("no annotations are held out")
    total = 0.0
    step = max(CHUNK_ENTRIES // heldout.n_classes, 1)
    weight = np.ones(len(heldout)) if heldout.weight is None else heldout.weight.astype(np.float64)
    for start in range(0, len(heldout), step):
        rows = slice(start, start + step)
        logs = floored_log(label_probs(heldout.item[rows], heldout.annotator[rows]))
        if heldout.soft_labels is None:
            scores = logs[np.arange(len(logs)), heldout.label[rows]]
        else:
            scores = (heldout.soft_labels[rows] * logs).sum(axis=1)
        total += float(weight[rows] @ scores)
    return total / float(weight.sum())
