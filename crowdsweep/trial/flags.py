"""Flags fits that went wrong.

Two marks are seen in the training answers: classes in another order, and one class for all items. A model may well know
better than the vote, so no other disagreement with the votes counts against it. A model is flagged as worse than the
vote only on evidence: gold of training items, or answers that were held out. Let `vote` be how often the majority vote
is right there, and `constant` how often the best single class for all items is: a model that reaches less than half of
the difference is flagged, if a sign test over the items rules out chance. Evidence on which a model is as often right
as the vote clears it of every mark.

Trials of a search are checked on held-out answers alone: gold that chose among points would rank them afterwards.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy import special

from crowdsweep.arrays import ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.dataset import TrainingData, TrialData
from crowdsweep.models._em import winners
from crowdsweep.models._votes import agreement, exchanged_classes
from crowdsweep.models.contract import ModelInfo
from crowdsweep.record.flags import Flag

# How much more often two answers to one item must agree than two to different items; below, nothing follows from
# disagreeing with the votes.
_LEAST_AGREEMENT = 0.05
_KEPT = 0.5  # of what the vote knows beyond one class for all items
_CHANCE = 0.01  # p of the sign test: every trial is tested


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What is known of training items beside the answers that trained: a row for each item with gold, or for each
    answer that was held out.

    Attributes:
        item: of each row, among the training items.
        reference: its class, one-hot.
    """

    item: ItemCodes
    reference: RowProbs


def evidence_of(trial: TrialData, *, gold: bool) -> Evidence | None:
    """Returns what fits can be checked against: gold, else held-out answers; None where there is neither.

    Args:
        trial: the data.
        gold: whether gold may be looked at.
    """
    part = trial.evaluation.get("train")
    if trial.training.scale == "multilabel":
        return None
    if gold and part is not None and part.has_gold.any():
        return Evidence(item=part.scored[part.has_gold], reference=part.reference[part.has_gold])
    if trial.heldout is not None and len(trial.heldout):
        return Evidence(item=trial.heldout.item, reference=np.eye(trial.training.n_classes)[trial.heldout.label])
    return None


def flags_of(
    info: ModelInfo, item_probs: ItemProbs, training: TrainingData, evidence: Evidence | None = None
) -> tuple[str, ...]:
    """Returns what is wrong with a fit, at most one flag; none where nothing can be told.

    Nothing can be told of models that were given gold, of those that say the same of every item by design, of
    multi-label data, and, without evidence, where the answers to an item hardly agree, or no item has two.

    Args:
        info: the model's.
        item_probs: what it says of the training items.
        training: what it was fitted to.
        evidence: that it is held against.
    """
    answered = training.annotations.labels_per_item > 0
    by_design = "gold" in info.needs or info.constant
    if by_design or training.scale == "multilabel" or not answered.any():
        return ()
    votes = training.annotations.label_distribution()
    shape = _shape(item_probs[answered], votes[answered], training)
    if evidence is None:
        return shape
    own, vote = (
        (evidence.reference * winners(probs)[evidence.item]).sum(axis=1, dtype=np.float64)
        for probs in (item_probs, votes)
    )
    if own.mean() >= vote.mean():
        return ()
    constant = float(evidence.reference.mean(axis=0).max())
    if own.mean() - constant >= _KEPT * (vote.mean() - constant) or not _is_no_chance(own - vote, evidence.item):
        return shape
    return shape or (Flag.WORSE_THAN_VOTE,)


def _shape(item_probs: ItemProbs, votes: ItemProbs, training: TrainingData) -> tuple[str, ...]:
    """Returns what the votes of the answered items show by themselves."""
    if training.annotations.agreement - float((votes.mean(axis=0) ** 2).sum()) < _LEAST_AGREEMENT:
        return ()
    agreeing = agreement(votes, item_probs)
    if exchanged_classes(agreeing, len(votes)) is not None:
        return (Flag.PERMUTED,)
    own = float(np.trace(agreeing)) - float(votes.mean(axis=0).max())
    return (Flag.COLLAPSED,) if own <= 1e-9 else ()


def _is_no_chance(difference: Float64[np.ndarray, " annotations"], item: ItemCodes) -> bool:
    """Whether more items speak against a model than chance allows, each counted once."""
    of_items = np.bincount(item, weights=difference)
    better, worse = int((of_items > 1e-9).sum()), int((of_items < -1e-9).sum())
    return better < worse and bool(special.bdtr(better, better + worse, 0.5) < _CHANCE)
