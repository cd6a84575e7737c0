"""Majority vote: an item has the class that most of its answers name.

`soft` takes each class's share of an item's answers, `hard` the class with the largest share. All annotators count
alike and need not be known. It is the baseline of every report.

    votes: soft   item_probs[i, k] = n_ik / n_i                                (uniform where an item has no answer)
    votes: hard   item_probs[i, k] = 1 for the largest n_ik, shared evenly among classes that tie

Ties stay ties, so the model is deterministic; accuracy is then the expected one over random tie-breaking.

Multi-label data: item_probs[i, k] is the share of the item's annotators who chose class k, and under `hard` one above a
half, zero below, a half on the tie. An item that nobody answered has one half everywhere.

The confusion matrices of annotators and crowd (multi-label: two by two for each class) are counted with `smoothing`
pseudo-counts in each cell, every answer against the vote of the *other* annotators on its item: counted against a vote
that includes it, a single answer per item would make its annotator perfect. Held-out answers are scored by the pooled
matrix: the answers of one annotator are too few for a model without annotators.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Int

from crowdsweep.arrays import (
    AnnotatorCodes,
    ClassConfusion,
    ClassConfusions,
    Confusion,
    Confusions,
    ItemCodes,
    ItemProbs,
    RowProbs,
    normalised_rows,
)
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.choices import ChoiceCounts, choices_of, counts_against
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._em import (
    SparseConfusions,
    annotator_model,
    columns_of_counts,
    evenly,
    label_probs_of_items,
    stack,
    winners,
)
from crowdsweep.models.aggregate._weighted_votes import counts_against_others
from crowdsweep.models.contract import FitContext, FitResult, LabelProbs, ModelInfo


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
        return [self._fit(part) for part in data]

    def _fit(self, data: TrainingData) -> FitResult:
        if data.scale == "multilabel":
            return self._fit_choices(data)
        item_probs = self._posterior(data.annotations.label_distribution())
        annotators = VotingAnnotators(annotations=data.annotations, vote=self)
        return FitResult(
            item_probs=item_probs, annotators=annotators, label_probs=annotators.label_probs_of(item_probs)
        )

    def confusions(self, annotations: Annotations) -> tuple[SparseConfusions, Confusion]:
        """Returns the matrices of the annotators, and that of the crowd."""
        crowds = stack([annotations])
        counts = counts_against_others(crowds, np.ones(crowds.n_annotators), self._posterior)
        crowd = normalised_rows((crowds.label_indicator.T @ counts).T + self.smoothing)
        columns = columns_of_counts(crowds, counts, evenly(crowds, self.smoothing))
        return annotator_model(crowds, columns, smoothing=self.smoothing, shared=crowd), crowd

    def _posterior(self, shares: ItemProbs) -> ItemProbs:
        return winners(shares) if self.votes == "hard" else shares

    def _fit_choices(self, data: TrainingData) -> FitResult:
        choices = choices_of(data.annotations)
        decided: Callable[[ItemProbs], ItemProbs] = _majority if self.votes == "hard" else lambda shares: shares
        item_probs = decided(choices.shares())
        counts = counts_against(choices, lambda answers: decided(choices.shares_of_others(answers)))
        annotators = CountedChoices(counts=counts, smoothing=self.smoothing, n_annotators=data.n_annotators)
        crowd = annotators.global_confusion()
        expected = item_probs * crowd[:, 1, 1] + (1.0 - item_probs) * crowd[:, 0, 1]
        return FitResult(item_probs=item_probs, annotators=annotators, label_probs=label_probs_of_items(expected))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class VotingAnnotators:
    """An `AnnotatorModel` whose matrices are counted when one is first asked for: that takes longer than the vote."""

    annotations: Annotations
    vote: MajorityVote

    @cached_property
    def _counted(self) -> tuple[SparseConfusions, Confusion]:
        return self.vote.confusions(self.annotations)

    @property
    def n_annotators(self) -> int:
        return self.annotations.n_annotators

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> Confusions:
        return self._counted[0].confusion(annotators)

    def global_confusion(self) -> Confusion | None:
        return self._counted[1]

    def label_probs_of(self, item_probs: ItemProbs) -> LabelProbs:
        """Returns the function rows (item, annotator) -> item_probs[item] @ the crowd's matrix."""

        def label_probs(item: ItemCodes, _: AnnotatorCodes) -> RowProbs:
            return item_probs[item] @ self._counted[1]

        return label_probs


@dataclass(frozen=True, kw_only=True, eq=False)
class CountedChoices:
    """An `AnnotatorModel` of smoothed counts, for each class two by two; matrices are made when they are asked for.

    Attributes:
        counts: of the answers, expected under the posterior of the items.
        smoothing: pseudo-counts in every cell, at least 0; a row without any mass is uniform.
        n_annotators: declared.
    """

    counts: ChoiceCounts
    smoothing: float
    n_annotators: int

    def confusion(self, annotators: Int[np.ndarray, " annotators"]) -> ClassConfusions:
        """Returns the row-stochastic matrices of these annotators [n, classes, true, observed]; idle ones answer as the
        crowd does."""
        matrices = normalised_rows(self.counts.of(annotators) + self.smoothing)
        idle = ~np.isin(annotators, self.counts.code)
        matrices[idle] = self.global_confusion()
        return matrices

    def global_confusion(self) -> ClassConfusion:
        """Returns the matrices of all annotators together, counted and smoothed alike [classes, true, observed]."""
        return normalised_rows(self.counts.pooled() + self.smoothing)


def _majority(chosen: ItemProbs) -> ItemProbs:
    return np.where(np.isclose(chosen, 0.5, rtol=0, atol=1e-9), 0.5, (chosen > 0.5).astype(np.float64))


MODEL = ModelInfo(
    name="majority-vote",
    title="Majority vote: shares of the votes, or their winner",
    model=MajorityVote,
    predicts_labels=True,
    source="folklore",
    supports=frozenset({"votes", "multilabel", "soft_answers", "many_classes"}),
    space={"votes": {"values": ["soft", "hard"]}},
    cost=lambda shape, _: 4.0 * shape.n_annotations,
    version=2,
    deterministic=True,
)
