"""Cannot be fitted with some seeds."""

from dataclasses import dataclass
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Poisoned:
    every: int = 4

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        if context.seeds.seed % self.every == 0:
            raise ZeroDivisionError(f"seed {context.seeds.seed} is poison")
        return FitResult(item_probs=data.annotations.label_distribution())


MODEL = ModelInfo(
    name="poisoned",
    title="Majority vote that fails for some seeds",
    model=Poisoned,
    source="made up",
    cost=lambda shape, params: float(shape.n_annotations),
)
