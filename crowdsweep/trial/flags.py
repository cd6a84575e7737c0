"""Flags fits that went wrong.

Two flags need only the training labels: `PERMUTED` (the model's classes are those of the votes in another order) and
`COLLAPSED` (it predicts one class for all items). A model may well know better than the vote, so no other disagreement
with the votes counts against it.

`WORSE_THAN_VOTE` needs evidence: gold of training items, or labels that were held out. Let `vote` be how often the
majority vote is right on it, and `constant` how often the best single class for all items is. A model whose gain over
`constant` is less than half of the vote's is flagged, if a sign test over the items rules out chance. A model that is
right on the evidence at least as often as the vote gets no flag at all.

Trials of a search are checked on held-out labels only: gold that helped to select points must not rank them afterwards.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy import special

from crowdsweep.arrays import ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.dataset import TrainingData, TrialData
from crowdsweep.models._em import winners
from crowdsweep.models._votes import agreement, permuted_classes
from crowdsweep.models.contract import ModelInfo
from crowdsweep.record.flags import Flag

# How much more often two labels of one item must agree than two of different items; below this, disagreement with the
# votes shows nothing.
_LEAST_AGREEMENT = 0.05
_KEPT = 0.5  # share of the vote's gain over one class for all items that a model has to reach
_CHANCE = 0.01  # level of the sign test: low, since every trial is tested


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """References for training items besides their training labels, one row per item with gold or per held-out label.

    Attributes:
        item: each row's position among the training items.
        reference: each row's class, one-hot.
    """

    item: ItemCodes
    reference: RowProbs


def evidence_of(trial: TrialData, *, gold: bool) -> Evidence | None:
    """Returns the evidence to check fits against: gold, else held-out labels; None where there is neither.

    None also for multi-label data.
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
    """Returns the flag of a fit, or nothing; a fit has at most one.

    Never flagged are models that were given gold, models that predict the same for every item by design, and fits of
    multi-label data; nor, without evidence, fits of data where labels of the same item hardly agree, or no item has
    two labels.
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
    """Returns `PERMUTED` or `COLLAPSED` where the votes of the labelled items show it, else nothing."""
    if training.annotations.agreement - float((votes.mean(axis=0) ** 2).sum()) < _LEAST_AGREEMENT:
        return ()
    agreeing = agreement(votes, item_probs)
    if permuted_classes(agreeing, len(votes)) is not None:
        return (Flag.PERMUTED,)
    own = float(np.trace(agreeing)) - float(votes.mean(axis=0).max())
    return (Flag.COLLAPSED,) if own <= 1e-9 else ()


def _is_no_chance(difference: Float64[np.ndarray, " annotations"], item: ItemCodes) -> bool:
    """Whether a sign test over items (each counted once) finds a model worse than the vote, one-sided.

    Args:
        difference: model minus vote, for each row of the evidence.
    """
    of_items = np.bincount(item, weights=difference)
    better, worse = int((of_items > 1e-9).sum()), int((of_items < -1e-9).sum())
    return better < worse and bool(special.bdtr(better, better + worse, 0.5) < _CHANCE)
