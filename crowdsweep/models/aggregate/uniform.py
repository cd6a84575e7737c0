"""Uniform: every class is equally probable for every item (multi-label: one half each).

The prediction without any information, a reference point for the scores of other models.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.aggregate.marginal import constant_result
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Uniform:
    """Has no hyper-parameters."""

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:  # noqa: ARG002 (contract)
        share = 0.5 if data.scale == "multilabel" else 1.0 / data.n_classes
        return constant_result(np.full(data.n_classes, share), data)


MODEL = ModelInfo(
    name="uniform",
    title="Uniform: every class equally probable",
    model=Uniform,
    predicts_labels=True,
    source="baseline",
    supports=frozenset({"votes", "multilabel", "soft_answers"}),
    cost=lambda shape, _: float(shape.n_items),
    deterministic=True,
    constant=True,
    waived={"no_corner_flips_a_unanimous_item": "predicts the same for every item, whatever the answers"},
)
