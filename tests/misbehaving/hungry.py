"""Takes much memory for a moment; the answer is majority vote's, and a little of chance."""

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Hungry:
    mib: Annotated[int, Ge(0)] = 64

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        eaten = np.ones(self.mib << 20, np.uint8)
        votes = data.annotations.label_distribution() + 0.5 * context.seeds.numpy("noise").random() * eaten[-1]
        return FitResult(item_probs=votes / votes.sum(axis=1, keepdims=True))


MODEL = ModelInfo(
    name="hungry",
    title="Majority vote that takes much memory",
    model=Hungry,
    source="made up",
    cost=lambda shape, params: float(shape.n_annotations),
)
