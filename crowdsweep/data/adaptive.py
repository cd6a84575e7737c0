"""Selects existing labels in the order in which adaptive labelling would have asked for them.

First, every item gets one label. Then, in each round, the next labels go to the items for which a label is expected to
be most informative. These are the items that `next.csv` lists first, by the information gain of a label from an
annotator of average accuracy. With accuracy a and K classes, the answer is k with probability

    p[k] = q[k] a + (1 - q[k]) (1 - a) / (K - 1)                q: current posterior of the item

The gain is the entropy of p minus the entropy of the annotator's own answers, which is the same for all items. The
posterior is that of a one-coin model (Dawid and Skene (1979) with one accuracy per annotator), fitted in each round to
the labels given so far. The annotator of an item's next label is drawn evenly from those who did label the item, since
it is unknown who else could have been asked.
"""

import numpy as np
from jaxtyping import Bool, Float64, Int64

from crowdsweep.arrays import LOG_FLOOR
from crowdsweep.data.annotations import Annotations

_ROUND = 0.2  # labels per round, as a share of the items
_STEPS = 5  # iterations of the one-coin model per round; it starts from the accuracies of the previous round
_ACCURACY, _STRENGTH = 0.75, 4.0  # accuracy of annotators at first; number of labels that the crowd's mean counts as
_MOST = 1.0 - 1e-6
RowMask = Bool[np.ndarray, " annotations"]


def keep_most_informative(annotations: Annotations, labels: int, draws: np.random.Generator) -> RowMask:
    """Keeps at most that many labels per item on average, in the order of adaptive labelling. O(rounds × labels).

    If there are fewer labels, all are kept. With the same generator, a smaller sample lies inside a larger one.

    Args:
        annotations: annotations to thin; each row is one label of one class.
        labels: mean number of labels to keep per item that has any; every such item keeps at least one.
        draws: decides the order of each item's labels, and breaks ties between items.
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
    """Returns a mask of the rows given so far: `given[i]` rows from the front of the queue of item i."""
    place = np.arange(len(queue)) - np.repeat(first, sizes)
    kept = np.zeros(len(queue), dtype=bool)
    kept[queue[place < np.repeat(given, sizes)]] = True
    return kept


def _one_coin(
    annotations: Annotations, kept: RowMask, accuracy: Float64[np.ndarray, " annotators"]
) -> tuple[Float64[np.ndarray, "items classes"], Float64[np.ndarray, " annotators"]]:
    """Returns the posterior of the items and the accuracies of the annotators, given the kept labels."""
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
    """Returns, for each item, the entropy of one more answer, in bits."""
    other = (1.0 - accuracy) / max(posterior.shape[1] - 1, 1)
    # An annotator of one accuracy is as unsure of any class, H(answer | class) being the same for all items: the
    # entropy of the answer ranks items as the information about their class does.
    answer = posterior * accuracy + (1.0 - posterior) * other
    return -(answer * np.log2(np.maximum(answer, LOG_FLOOR))).sum(axis=1)
