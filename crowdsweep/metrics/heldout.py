"""The log-likelihood of labels that were held out of a fit. Needs no gold."""

from collections.abc import Callable

import numpy as np

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs, floored_log
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import choices_of

CHUNK_ENTRIES = 8_000_000  # rows × classes at a time: 64 MB

LabelProbs = Callable[[ItemCodes, AnnotatorCodes], RowProbs]


def heldout_loglik(label_probs: LabelProbs, heldout: Annotations) -> float:
    """Returns the mean log-probability of one held-out label, in nats; `LOG_FLOOR` bounds it at -27.6.

    A row with a probability of its own (a soft answer) counts its expected log-probability; weights weigh the mean.

    Raises:
        ValueError: nothing is held out.
    """

    def scores(rows: slice) -> np.ndarray:
        logs = floored_log(label_probs(heldout.item[rows], heldout.annotator[rows]))
        if heldout.soft_labels is None:
            return logs[np.arange(len(logs)), heldout.label[rows]]
        return (heldout.soft_labels[rows] * logs).sum(axis=1)

    weight = np.ones(len(heldout)) if heldout.weight is None else heldout.weight.astype(np.float64)
    return _weighted_mean(scores, weight, heldout.n_classes)


def heldout_choices_loglik(label_probs: LabelProbs, heldout: Annotations) -> float:
    """Returns the mean log-probability of one held-out multi-label answer, in nats: the sum over all classes, chosen or
    not, of the log-probability of that choice, each at least -27.6 (`LOG_FLOOR`).

    A choice with a probability of its own counts its expected log-probability; weights weigh the mean.

    Raises:
        ValueError: nothing is held out.
    """
    choices = choices_of(heldout)

    def scores(answers: slice) -> np.ndarray:
        probs = label_probs(choices.item[answers], choices.annotator[answers])
        chosen = choices.chosen[answers].toarray()
        return (chosen * floored_log(probs) + (1.0 - chosen) * floored_log(1.0 - probs)).sum(axis=1)

    return _weighted_mean(scores, choices.weight, heldout.n_classes)


def _weighted_mean(scores: Callable[[slice], np.ndarray], weight: np.ndarray, n_classes: int) -> float:
    if not len(weight):
        raise ValueError("no annotations are held out")
    step = max(CHUNK_ENTRIES // n_classes, 1)
    parts = (slice(start, start + step) for start in range(0, len(weight), step))
    return sum(float(weight[part] @ scores(part)) for part in parts) / float(weight.sum())
