"""Takes its time and says so at every step; the answer is majority vote's."""

import time
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Slow:
    steps: Annotated[int, Ge(1)] = 10
    pause_s: Annotated[float, Ge(0)] = 0.01
    smoothing: Annotated[float, Ge(0)] = 0.0

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        step = 0
        for step in range(1, self.steps + 1):
            time.sleep(self.pause_s)
            if not context.report(step, float(step)):
                break
        votes = data.annotations.label_distribution() + self.smoothing * context.seeds.numpy("noise").random()
        return FitResult(item_probs=votes / votes.sum(axis=1, keepdims=True), iterations=step)


MODEL = ModelInfo(
    name="slow",
    title="Majority vote after a while",
    model=Slow,
    source="made up",
    cost=lambda shape, params: float(shape.n_annotations),
)
