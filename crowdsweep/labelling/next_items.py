"""Ranking of items by the value of one more label, and choice of annotators to ask.

The gain of a label is the information that it is expected to give about the item's class, in bits. It is the entropy of
the current posterior minus the expected entropy after an annotator's answer (the mutual information of class and
answer).

    gain(q, C) = H(q C) - sum over k of q[k] H(C[k])            q: posterior, C: the annotator's matrix

Items are ranked by the gain of an annotator with the pooled confusion matrix. The annotators to ask are chosen from the
most informative ones: those who have not answered the item and whose label has the highest gain.
"""

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.arrays import LOG_FLOOR, ItemProbs
from crowdsweep.labelling.leave_one_out import Matrices
from crowdsweep.labelling.questions import Questions

CANDIDATES = 50
"""Number of annotators who are considered for each item: those whose label has the highest gain for an average item."""
ASKED = 3
CHUNK = 4096


def gains(
    posterior: ItemProbs, confusion: Float64[np.ndarray, "*annotators true observed"]
) -> Float64[np.ndarray, "*annotators questions"]:
    """Returns the expected information of one answer by an annotator with this confusion matrix, in bits, at least
    0."""
    # Mutual information is never negative; the difference of two entropies can be, by rounding.
    return np.maximum(_entropy(posterior @ confusion) - _entropy(confusion) @ posterior.T, 0.0)


def annotators_to_ask(
    questions: Questions,
    wanted: Int64[np.ndarray, " wanted"],
    matrices: Matrices,
    code: Int64[np.ndarray, " annotators"],
) -> list[list[int]]:
    """Returns for each wanted question the codes of at most `ASKED` annotators who have not answered it, best first.

    Args:
        wanted: numbers of questions.
        code: annotators to choose from.
    """
    mean = questions.posterior.mean(axis=0, keepdims=True)
    worth = [
        gains(mean, matrix)[0]
        for start in range(0, len(code), CHUNK)
        for matrix in matrices(code[start : start + CHUNK])
    ]
    best = code[np.argsort(-np.array(worth), kind="stable")[:CANDIDATES]]
    known = matrices(best)
    asked = np.zeros(int(questions.annotator.max()) + 1, dtype=bool)
    asked[best] = True
    answered = asked[questions.annotator]
    pairs = set(zip(questions.question[answered].tolist(), questions.annotator[answered].tolist(), strict=True))
    found: list[list[int]] = []
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        item_gains = np.stack([gains(questions.posterior[part], matrix) for matrix in known], axis=1)
        for question, order in zip(part.tolist(), np.argsort(-item_gains, axis=1, kind="stable"), strict=True):
            free = [annotator for annotator in best[order].tolist() if (question, annotator) not in pairs]
            found.append(free[:ASKED])
    return found


def _entropy(probs: Float64[np.ndarray, "*rows classes"]) -> Float64[np.ndarray, "*rows"]:
    return -(probs * np.log2(np.maximum(probs, LOG_FLOOR))).sum(axis=-1)
