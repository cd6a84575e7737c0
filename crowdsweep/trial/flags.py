"""Marks fits that ended where a fit should not end, as far as that shows without gold: held against their items' votes.

Most answers are right, or nothing can be learned from them. So a model may well know better than the vote, yet not be
far from all of it. With `vote` the share of all answers that the majority vote agrees with, and `constant` the share
that the best single class for all items agrees with, what a model says of the items should agree with most of the
difference.
"""

from collections.abc import Iterable
from enum import StrEnum

import numpy as np

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._votes import agreement, exchanged_classes
from crowdsweep.models.contract import ModelInfo

# How much more often two answers to one item must agree than two to different items; below, nothing follows from
# disagreeing with the votes.
_LEAST_AGREEMENT = 0.05
_KEPT = 0.5  # of what the vote knows beyond one class for all items


class Flag(StrEnum):
    """What is wrong with a fit."""

    PERMUTED = "permuted"
    COLLAPSED = "collapsed"
    BELOW_VOTE = "below_vote"


_WORDS = {
    Flag.PERMUTED: "its classes are those of the votes in another order",
    Flag.COLLAPSED: "it agrees with the votes no more than one class for all items does",
    Flag.BELOW_VOTE: "it agrees with the votes far less than majority vote does",
}


def flags_of(info: ModelInfo, item_probs: ItemProbs, training: TrainingData) -> tuple[str, ...]:
    """Returns what is wrong with a fit, at most one flag; none where nothing can be told.

    Nothing can be told of models that were given gold, of those that say the same of every item by design, of
    multi-label data, and where the answers to an item hardly agree, or no item has two.

    Args:
        info: the model's.
        item_probs: what it says of the training items.
        training: what it was fitted to.
    """
    answered = training.annotations.labels_per_item > 0
    by_design = "gold" in info.needs or "unanimous_items_keep_their_label" in info.waived
    if by_design or training.scale == "multilabel" or not answered.any():
        return ()
    votes = training.annotations.label_distribution()[answered]
    if _agreement_of_answers(training) - float((votes.mean(axis=0) ** 2).sum()) < _LEAST_AGREEMENT:
        return ()
    constant = float(votes.mean(axis=0).max())
    known = float(votes.max(axis=1).mean()) - constant
    agreeing = agreement(votes, item_probs[answered])
    if exchanged_classes(agreeing, len(votes)) is not None:
        return (Flag.PERMUTED,)
    own = float(np.trace(agreeing)) - constant
    if own <= 1e-9:
        return (Flag.COLLAPSED,)
    return (Flag.BELOW_VOTE,) if own < _KEPT * known else ()


def _agreement_of_answers(training: TrainingData) -> float:
    """Returns how often two answers to the same item agree, averaged over the items that have two; 0 without any."""
    counts = training.annotations.counts
    given = np.asarray(counts.sum(axis=1))
    several = given > 1
    same = np.asarray((counts * counts).sum(axis=1)) - given
    return float((same[several] / (given[several] * (given[several] - 1))).mean()) if several.any() else 0.0


def flag_words(flags: Iterable[str]) -> str:
    """Returns flags as people read them: `permuted (its classes are …)`; empty for none."""
    return "; ".join(f"{flag.replace('_', ' ')} ({_WORDS[Flag(flag)]})" for flag in flags)
