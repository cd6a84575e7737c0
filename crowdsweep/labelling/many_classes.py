"""Labels with very many classes, without tables that have a cell for each pair of classes or a column for each class.

A matrix of 10,000 × 10,000 numbers takes 0.8 GB, and every annotator has one. So above `MANY_CLASSES` classes each
annotator has one accuracy (the one-coin model of Dawid and Skene), with errors spread evenly over the other classes.
Only the most probable classes of an item are written. The leave-one-out probability of an answer is the share of the
other annotators' answers to the item that are the same.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int32, Int64

from crowdsweep.arrays import LOG_FLOOR, ItemProbs, ratio
from crowdsweep.data.annotations import Annotations
from crowdsweep.labelling.accuracies import accuracies
from crowdsweep.labelling.temperature import said_by

MANY_CLASSES = 1_000
LIKELIEST, LEAST = 20, 0.001
"""Greatest number of classes that are written of an item, and least probability of a class that is written."""
NOTE = (
    f"of more than {MANY_CLASSES:,} classes annotators are known by one accuracy each, without confusion matrices, and "
    f"probabilities are written of each item's {LIKELIEST} likeliest classes; merge rare classes where you want more"
)

Column = Float64[np.ndarray, " annotators"]


@dataclass(frozen=True, kw_only=True, eq=False)
class OneCoins:
    """Accuracies of the annotators with an answer, by ascending code: posterior means, and 95 % intervals."""

    code: Int64[np.ndarray, " annotators"]
    answers: Int64[np.ndarray, " annotators"]
    accuracy: Column
    low: Column
    high: Column


def one_coins(annotations: Annotations) -> OneCoins:
    """Returns how often annotators are right, by the other annotators' answers to the same items. O(A log A)."""
    size = annotations.n_classes
    weight = np.ones(len(annotations)) if annotations.weight is None else annotations.weight.astype(np.float64)
    right = _share_of_others(annotations, weight)
    if annotations.probability is not None:
        right = said_by(annotations.probability.astype(np.float64), right, size)
    order = annotations.by_annotator
    code, place, answers = np.unique(annotations.annotator[order], return_inverse=True, return_counts=True)
    wrong = (1.0 - right[order]) / max(size - 1, 1)
    mean, low, high = accuracies(place, right[order], wrong, weight[order], 1.0)
    return OneCoins(code=code.astype(np.int64), answers=answers, accuracy=mean, low=low, high=high)


def _share_of_others(rows: Annotations, weight: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " rows"]:
    """Returns for each answer the share of the other annotators' answers to its item that agree; 1 / classes where
    there are no others."""
    starts = np.zeros(len(rows), dtype=np.int64)
    starts[rows.pair_starts] = 1
    pair = np.cumsum(starts) - 1
    label = rows.label.astype(np.int64)
    same = _sums(rows.item.astype(np.int64) * rows.n_classes + label, weight)
    own_same = _sums(pair * rows.n_classes + label, weight)
    of_item = np.bincount(rows.item, weight)[rows.item]
    of_pair = np.bincount(pair, weight)[pair]
    others = np.maximum(of_item - of_pair, 0.0)
    return ratio(np.maximum(same - own_same, 0.0), np.where(others > 1e-9, others, 0.0), at_zero=1.0 / rows.n_classes)


def _sums(key: Int64[np.ndarray, " rows"], weight: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " rows"]:
    """Returns for each row the sum of the weights of all rows with its key."""
    place = np.unique(key, return_inverse=True)[1]
    return np.bincount(place, weight)[place]


def gains_of_one_coin(posterior: ItemProbs, accuracy: float) -> Float64[np.ndarray, " items"]:
    """Returns the expected information of one label by an annotator of this accuracy about each item, in bits, at least
    0."""
    wrong = (1.0 - accuracy) / max(posterior.shape[1] - 1, 1)
    own = -(accuracy * np.log2(max(accuracy, LOG_FLOOR)) + (1.0 - accuracy) * np.log2(max(wrong, LOG_FLOOR)))
    said = posterior * (accuracy - wrong) + wrong
    return np.maximum(-(said * np.log2(np.maximum(said, LOG_FLOOR))).sum(axis=1) - own, 0.0)


def likeliest(probs: ItemProbs) -> tuple[Int64[np.ndarray, " cells"], Int32[np.ndarray, " cells"]]:
    """Returns row and class of each cell to write: the most probable classes of each row in descending order; none for
    a row of NaN."""
    most = min(LIKELIEST, probs.shape[1])
    first = np.sort(np.argpartition(-probs, most - 1, axis=1)[:, :most], axis=1)
    values = np.take_along_axis(probs, first, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    values, first = np.take_along_axis(values, order, axis=1), np.take_along_axis(first, order, axis=1)
    there = values >= LEAST
    there[:, 0] |= ~np.isnan(values[:, 0])
    return np.nonzero(there)[0], first[there].astype(np.int32)
