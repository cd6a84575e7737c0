"""Class vote: each class of a multi-label answer is a vote by itself, and every annotator has matrices of their own.

item_probs[i, k] is the share of the annotators of item i who chose class k. An annotator's matrix for class k (rows:
whether it applies, columns: whether it was chosen) is counted against these shares, with `smoothing` pseudo-counts in
each cell, and held-out answers are predicted through it. Nominal data have one matrix over all classes instead.
"""

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Gt
from jaxtyping import Float64

from crowdsweep.arrays import AnnotatorCodes, ItemCodes, RowProbs, normalised_rows, ratio
from crowdsweep.data.choices import choice_counts, choices_of
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import ConfusionMatrices, FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class ClassVote:
    """Hyper-parameters of class vote.

    Attributes:
        smoothing: pseudo-counts in each cell of the annotators' matrices.
    """

    smoothing: Annotated[float, Gt(0)] = 0.5

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        """Counts."""
        return self._fit_choices(data) if data.scale == "multilabel" else self._fit_labels(data)

    def _fit_choices(self, data: TrainingData) -> FitResult:
        choices = choices_of(data.annotations)
        probs = choices.shares()
        counts = choice_counts(choices, probs).of(np.arange(data.n_annotators))
        matrices = self._matrices(counts, data)

        def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
            chosen = matrices[annotator, :, :, 1]
            return probs[item] * chosen[..., 1] + (1.0 - probs[item]) * chosen[..., 0]

        return FitResult(item_probs=probs, annotators=ConfusionMatrices(matrices=matrices), label_probs=label_probs)

    def _fit_labels(self, data: TrainingData) -> FitResult:
        rows, probs = data.annotations, data.annotations.label_distribution()
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        counts = np.zeros((data.n_annotators, data.n_classes, data.n_classes))
        by_answer = counts.transpose(0, 2, 1)
        np.add.at(by_answer, (rows.annotator, rows.label), weight[:, None] * probs[rows.item])
        matrices = self._matrices(counts, data)

        def label_probs(item: ItemCodes, annotator: AnnotatorCodes) -> RowProbs:
            return np.einsum("rk,rkl->rl", probs[item], matrices[annotator])

        return FitResult(item_probs=probs, annotators=ConfusionMatrices(matrices=matrices), label_probs=label_probs)

    def _matrices(
        self, counts: Float64[np.ndarray, "annotators ..."], data: TrainingData
    ) -> Float64[np.ndarray, "annotators ..."]:
        """Returns the matrices of all annotators; one who answered nothing answers as the crowd does."""
        idle = data.annotations.labels_per_annotator == 0
        own = normalised_rows(counts + self.smoothing)
        met = counts.sum(axis=-1, keepdims=True)
        crowd = ratio((met * own).sum(axis=0), met.sum(axis=0), at_zero=1.0 / counts.shape[-1])
        return np.where(idle.reshape(-1, *[1] * (counts.ndim - 1)), crowd, own)


MODEL = ModelInfo(
    name="class-vote",
    title="Class vote: each class by itself, annotators by their own matrices",
    model=ClassVote,
    predicts_labels=True,
    source="example",
    supports=frozenset({"votes", "multilabel"}),
    deterministic=True,
)
