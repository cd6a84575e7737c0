"""Majority vote: an item is what most of its answers say.

`soft` takes each class's share of an item's answers, `hard` the class with the largest share. It trusts everybody
alike, needs no annotators, and stands in every report because nothing should do worse.

    votes: soft   item_probs[i, k] = n_ik / n_i                                (uniform where an item has no answer)
    votes: hard   item_probs[i, k] = 1 for the largest n_ik, shared evenly among classes that tie

Ties stay ties, so the model is deterministic; accuracy is then the expected one over random tie-breaking.

Multi-label data: item_probs[i, k] is the share of the item's annotators who chose class k, and under `hard` one above a
half, zero below, a half on the tie. An item that nobody answered has one half everywhere.

The annotators' confusion matrices (multi-label: two by two for each class) are counted against the model's own
item_probs, with `smoothing` pseudo-counts in each cell. Held-out answers are scored by the crowd's matrix, counted and
smoothed likewise over all annotators together: one annotator's answers are too few for a model that says nothing of
annotators.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge

from crowdsweep.arrays import ItemProbs, normalised_rows
from crowdsweep.data.choices import choice_counts, choices_of
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._choices import CountedChoices
from crowdsweep.models._em import (
    annotator_model,
    confusion_columns,
    label_probs_of_anybody,
    soft_vote,
    stack,
    winners,
)
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class MajorityVote:
    """Hyper-parameters of majority vote.

    Attributes:
        votes: keep the shares of the votes, or take the winner.
        smoothing: pseudo-counts in each cell of the confusion matrices; the item probabilities do not depend on it.
    """

    votes: Literal["soft", "hard"] = "soft"
    smoothing: Annotated[float, Ge(0)] = 0.01

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:  # noqa: ARG002 (contract)
        """Counts."""
        return [self._fit(part) for part in data]

    def _fit(self, data: TrainingData) -> FitResult:
        if data.scale == "multilabel":
            return self._fit_choices(data)
        crowds = stack([data.annotations])
        shares = soft_vote(crowds)
        item_probs = winners(shares) if self.votes == "hard" else shares
        crowd = normalised_rows((data.annotations.counts.T @ item_probs).T + self.smoothing)
        columns = confusion_columns(crowds, item_probs, self.smoothing)
        return FitResult(
            item_probs=item_probs,
            annotators=annotator_model(crowds, columns, shared=crowd),
            label_probs=label_probs_of_anybody(item_probs @ crowd),
        )

    def _fit_choices(self, data: TrainingData) -> FitResult:
        choices = choices_of(data.annotations)
        shares = choices.shares()
        item_probs = _majority(shares) if self.votes == "hard" else shares
        annotators = CountedChoices(
            counts=choice_counts(choices, item_probs), smoothing=self.smoothing, n_annotators=data.n_annotators
        )
        crowd = annotators.global_confusion()
        expected = item_probs * crowd[:, 1, 1] + (1.0 - item_probs) * crowd[:, 0, 1]
        return FitResult(item_probs=item_probs, annotators=annotators, label_probs=label_probs_of_anybody(expected))


def _majority(chosen: ItemProbs) -> ItemProbs:
    return np.where(np.isclose(chosen, 0.5, rtol=0, atol=1e-9), 0.5, (chosen > 0.5).astype(np.float64))


MODEL = ModelInfo(
    name="majority-vote",
    title="Majority vote: shares of the votes, or their winner",
    model=MajorityVote,
    source="folklore",
    supports=frozenset({"votes", "multilabel", "soft_answers"}),
    space={"votes": {"values": ["soft", "hard"]}},
    cost=lambda shape, _: 4.0 * shape.n_annotations,
    deterministic=True,
)
