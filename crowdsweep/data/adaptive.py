"""The labels at hand in the order in which adaptive labelling would have asked for them.

Every item has one label first. Then, round by round, the next label goes to the items of which it is expected to tell
most: those that `next.csv` puts first, by the gain of a label by an annotator of average accuracy. For accuracy a
and K classes an answer is k with probability

    p[k] = q[k] a + (1 - q[k]) (1 - a) / (K - 1)                q: what is believed of the item now

and its gain is the entropy of p less that of the annotator's own answers, the same for all items. What is believed is a
one-coin model's (Dawid and Skene (1979) with one accuracy per annotator), fitted anew to the labels given so far. Who
gives an item's next label is drawn evenly among those who did label it: who could have been asked, nobody knows.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int64

from crowdsweep.arrays import LOG_FLOOR
from crowdsweep.data.annotations import Annotations

_ROUND = 0.2  # labels of a round, as a share of the items
_STEPS = 5  # of the one-coin model in a round; it goes on from the one before
_ACCURACY, _STRENGTH = 0.75, 4.0  # what is believed of an annotator at first, and as how many labels that counts
_MOST = 1.0 - 1e-6
RowMask = Bool[np.ndarray, " annotations"]


def keep_most_informative(annotations: Annotations, labels: int, draws: np.random.Generator) -> RowMask:
    """Keeps at most that many labels per item on average, by the order of adaptive labelling; all, where there are
    fewer. A smaller sample lies inside a larger one of the same generator. O(rounds × labels).

    Args:
        annotations: what is thinned: one label a row, of one class each.
        labels: how many are kept for each item that has any, on average; every such item keeps one.
        draws: decides in which order each item's labels come, and between items that are alike.
    """
    queue = np.lexsort((draws.random(len(annotations)), annotations.item))
    sizes = annotations.labels_per_item.astype(np.int64)
    first = np.cumsum(sizes) - sizes
    tie_break = draws.permutation(annotations.n_items)
    given = (sizes > 0).astype(np.int64)
    n_items = int(given.sum())
    left, a_round = (labels - 1) * n_items, max(1, int(_ROUND * n_items))
    accuracy = np.full(annotations.n_annotators, _ACCURACY)
    while left > 0 and (given < sizes).any():
        kept = _kept(queue, first, given, sizes)
        posterior, accuracy = _one_coin(annotations, kept, accuracy)
        active = np.unique(annotations.annotator[kept])
        gain = _entropy_of_an_answer(posterior, float(accuracy[active].mean()))
        gain[given >= sizes] = -np.inf
        chosen = np.lexsort((tie_break, -gain))[: min(a_round, left, int((given < sizes).sum()))]
        given[chosen] += 1
        left -= len(chosen)
    return _kept(queue, first, given, sizes)


def _kept(
    queue: Int64[np.ndarray, " annotations"],
    first: Int64[np.ndarray, " items"],
    given: Int64[np.ndarray, " items"],
    sizes: Int64[np.ndarray, " items"],
) -> RowMask:
    """Returns which rows were given, so many of each item from the front of its queue."""
    place = np.arange(len(queue)) - np.repeat(first, sizes)
    kept = np.zeros(len(queue), dtype=bool)
    kept[queue[place < np.repeat(given, sizes)]] = True
    return kept


def _one_coin(
    annotations: Annotations, kept: RowMask, accuracy: Float64[np.ndarray, " annotators"]
) -> tuple[Float64[np.ndarray, "items classes"], Float64[np.ndarray, " annotators"]]:
    """Returns what is believed of items and of annotators by the labels that were given."""
    item, annotator, label = annotations.item[kept], annotations.annotator[kept], annotations.label[kept]
    n_items, n_classes = annotations.n_items, annotations.n_classes
    flat, counts = item.astype(np.int64) * n_classes + label, np.bincount(annotator, minlength=len(accuracy))
    posterior = np.full((n_items, n_classes), 1.0 / n_classes)
    shares = np.full(n_classes, 1.0 / n_classes)
    for _ in range(_STEPS):
        vote = np.log(accuracy * max(n_classes - 1, 1) / (1.0 - accuracy))
        logits = np.bincount(flat, weights=vote[annotator], minlength=n_items * n_classes).reshape(n_items, n_classes)
        logits += np.log(np.maximum(shares, LOG_FLOOR))
        posterior = np.exp(logits - logits.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        right = np.bincount(annotator, weights=posterior[item, label], minlength=len(accuracy))
        crowd = float(right.sum() / max(len(item), 1))
        accuracy = np.clip((right + _STRENGTH * crowd) / (counts + _STRENGTH), 1.0 - _MOST, _MOST)
        shares = posterior.mean(axis=0)
    return posterior, accuracy


def _entropy_of_an_answer(
    posterior: Float64[np.ndarray, "items classes"], accuracy: float
) -> Float64[np.ndarray, " items"]:
    """Returns the entropy of one more answer, in bits, for each item."""
    other = (1.0 - accuracy) / max(posterior.shape[1] - 1, 1)
    answer = posterior * accuracy + (1.0 - posterior) * other
    return -(answer * np.log2(np.maximum(answer, LOG_FLOOR))).sum(axis=1)
