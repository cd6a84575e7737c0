"""Marginal: every item, seen or not, gets the crowd's mean label distribution.

The best constant prediction: it uses the labels and nothing of the items. A model of label distributions that does not
beat it has learned nothing about the items.

    item_probs[i] = mean over the items with answers of their label distributions (multi-label: of their shares)

Each item counts alike, however many answers it has: of all constants this one has the smallest mean KL divergence from
the training items' distributions. Without any answer it is uniform. Held-out answers are scored by the same constant.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from crowdsweep.arrays import ClassProbs, ItemProbs
from crowdsweep.data.choices import choices_of
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models._em import label_probs_of_items
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Marginal:
    """Has no hyper-parameters."""

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:  # noqa: ARG002 (contract)
        annotations = data.annotations
        multilabel = data.scale == "multilabel"
        shares = choices_of(annotations).shares() if multilabel else annotations.label_distribution()
        answered = annotations.labels_per_item > 0
        everywhere = np.full(data.n_classes, 0.5 if multilabel else 1.0 / data.n_classes)
        return constant_result(shares[answered].mean(axis=0) if answered.any() else everywhere, data)


@dataclass(frozen=True, eq=False)
class ConstantPredictor:
    """Gives every item the same probabilities."""

    probs: ClassProbs
    uses = ("constant",)

    def predict(self, items: Items, use: str) -> ItemProbs:  # noqa: ARG002 (contract)
        return np.tile(self.probs, (items.n_items, 1))


def constant_result(probs: ClassProbs, data: TrainingData) -> FitResult:
    """Returns the fit that answers `probs` for every item, and for every held-out answer."""
    item_probs = np.tile(probs, (data.n_items, 1))
    return FitResult(
        item_probs=item_probs,
        label_probs=label_probs_of_items(item_probs),
        predictor=ConstantPredictor(probs),
    )


MODEL = ModelInfo(
    name="marginal",
    title="Marginal: the crowd's mean label distribution for every item",
    model=Marginal,
    predicts_labels=True,
    source="baseline",
    supports=frozenset({"votes", "multilabel", "soft_answers"}),
    cost=lambda shape, _: 2.0 * shape.n_annotations,
    deterministic=True,
    constant=True,
    waived={"no_corner_flips_a_unanimous_item": "predicts the same for every item: the crowd's mean distribution"},
)
