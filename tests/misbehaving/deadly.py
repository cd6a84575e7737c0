"""Kills its process when it meets one seed: always, or until a file says that it has."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo


@final
@dataclass(frozen=True, kw_only=True)
class Deadly:
    seed: int = 3
    once: str = ""  # this file is made at the first kill, and prevents a second

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        if context.seeds.seed == self.seed and not (self.once and Path(self.once).exists()):
            if self.once:
                Path(self.once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return FitResult(item_probs=data.annotations.label_distribution())


MODEL = ModelInfo(
    name="deadly",
    title="Majority vote that kills its process",
    model=Deadly,
    source="made up",
    cost=lambda shape, params: float(shape.n_annotations),
)
