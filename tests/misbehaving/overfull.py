"""Wants more memory than a GPU has for more than a few data sets at once, and for some seeds at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, final

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Overfull:
    most: Annotated[int, Ge(1)] = 2
    every: Annotated[int, Ge(2)] = 4
    of_torch: bool = True

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        if len(data) > self.most or any(context.seeds.seed % self.every == 0 for context in contexts):
            if not self.of_torch:
                raise MemoryError("Unable to allocate 2.00 GiB for an array with shape (16384, 16384)")
            import torch

            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return [FitResult(item_probs=part.annotations.label_distribution()) for part in data]


MODEL = ModelInfo(
    name="overfull",
    title="Majority vote that runs out of memory",
    model=Overfull,
    source="made up",
    cost=lambda shape, params: float(shape.n_annotations),
)
