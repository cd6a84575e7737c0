"""Metrics of predictions for items against a reference: accuracy, macro F1, log-loss, Brier score.

The reference of an item is one-hot where there is gold, else a distribution over the classes. Ties count as what they
are worth on average: where several classes share the largest probability, in the prediction or in the reference, one
is taken to be drawn uniformly, and the expected score is given.

Multi-label data score each (item, class) as an item of its own with the two classes "not chosen" and "chosen"
(`as_binary`); macro F1 is the mean over the classes of the F1 of "chosen".

F1 is no mean over items. An item's number is F1 plus how much F1 would change if that item had more weight (times the
number of items): the infinitesimal jackknife. The mean of these numbers is F1, and their standard deviation is to first
order that of the bootstrap (Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, chapter 6).
"""

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import ItemProbs, floored_log

# Probabilities this close to the largest one are tied with it: two ways to sum the same votes differ by rounding.
TIE_TOLERANCE = 1e-9


def accuracy_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns for each item the probability that its predicted class is the reference's, ties broken uniformly."""
    return (share_of_ties(reference) * share_of_ties(predicted)).sum(axis=1)


def macro_f1(reference: ItemProbs, predicted: ItemProbs) -> float:
    """Returns the plain mean over classes of F1 of the expected confusion matrix, in [0, 1].

    Classes that neither the reference nor the prediction ever chooses are left out, as scikit-learn does.
    """
    confusion = share_of_ties(reference).T @ share_of_ties(predicted)
    chosen = confusion.sum(axis=1) + confusion.sum(axis=0)
    present = chosen > 0
    return float((2.0 * np.diagonal(confusion)[present] / chosen[present]).mean())


def macro_f1_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns a number for each item, whose mean is `macro_f1` (infinitesimal jackknife)."""
    wanted, given = share_of_ties(reference), share_of_ties(predicted)
    return f1_of_each(wanted * given, wanted + given)


def multilabel_macro_f1(reference: ItemProbs, predicted: ItemProbs) -> float:
    """Returns the plain mean over classes of the F1 of "chosen" (probability above one half; at one half, by half).

    Classes that neither side ever chooses are left out; where that is all of them, the score is 1: nothing was to be
    chosen and nothing was.
    """
    wanted, given = _chosen(reference), _chosen(predicted)
    both, either = (wanted * given).sum(axis=0), wanted.sum(axis=0) + given.sum(axis=0)
    present = either > 0
    return float((2.0 * both[present] / either[present]).mean()) if present.any() else 1.0


def multilabel_macro_f1_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns a number for each item, whose mean is `multilabel_macro_f1` (infinitesimal jackknife)."""
    wanted, given = _chosen(reference), _chosen(predicted)
    return f1_of_each(wanted * given, wanted + given)


def f1_of_each(
    both: Float64[np.ndarray, "parts classes"], either: Float64[np.ndarray, "parts classes"]
) -> Float64[np.ndarray, " parts"]:
    """Returns a number for each part, whose mean is the plain mean over classes of F1; all ones where nothing was ever
    chosen.

    Args:
        both: how often a part has a class on both sides.
        either: how often on the one side and on the other, added.
    """
    total = either.sum(axis=0)
    present = total > 0
    if not present.any():
        return np.ones(len(both))
    both, either, total = both[:, present], either[:, present], total[present]
    # F1 plus n times its derivative by the part's weight. Derivatives sum to zero over the parts, so the mean is F1.
    f1 = 2.0 * both.sum(axis=0) / total
    return (f1 + len(both) * (2.0 * both - f1 * either) / total).mean(axis=1)


def log_loss_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns for each item the cross-entropy of the prediction under the reference, in nats; at most 27.6."""
    return -(reference * floored_log(predicted)).sum(axis=1)


def brier_of_each(reference: ItemProbs, predicted: ItemProbs) -> Float64[np.ndarray, " items"]:
    """Returns for each item the squared differences summed over the classes, in [0, 2]."""
    return ((predicted - reference) ** 2).sum(axis=1)


def as_binary(probs: ItemProbs) -> Float64[np.ndarray, "pairs 2"]:
    """Returns independent probabilities [items, classes] as rows (not chosen, chosen), one for each item and class."""
    flat = probs.reshape(-1)
    return np.stack([1.0 - flat, flat], axis=1)


def share_of_ties(probs: ItemProbs) -> ItemProbs:
    """Returns one for the most probable class of each row, shared evenly where several tie."""
    tied = probs >= probs.max(axis=1, keepdims=True) - TIE_TOLERANCE
    return tied / tied.sum(axis=1, keepdims=True)


def _chosen(probs: ItemProbs) -> ItemProbs:
    return np.where(np.abs(probs - 0.5) <= TIE_TOLERANCE, 0.5, (probs > 0.5).astype(np.float64))
