"""Waits as long as a file is there; the answer is majority vote's, and a little of chance."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Held:
    by: str = ""

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        while self.by and Path(self.by).exists():
            time.sleep(0.05)
        votes = data.annotations.label_distribution() + 0.5 * context.seeds.numpy("noise").random()
        return FitResult(item_probs=votes / votes.sum(axis=1, keepdims=True))


MODEL = ModelInfo(
    name="held",
    title="Majority vote that waits for a file to go",
    model=Held,
    source="made up",
    cost=lambda shape, params: float(shape.n_annotations),
)
