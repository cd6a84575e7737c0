"""A network whose process is killed after an epoch, until a file says that it was."""

import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.classifier import Classifier
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo, Predictor, Report
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.training_jobs import TrainingJob, train_classifiers


@final
@dataclass(frozen=True, kw_only=True)
class Revoked:
    once: str = ""  # this file is made at the kill, and prevents a second
    at: int = 4
    seed: int = 0
    epochs: int = 6
    classifier: Classifier = Classifier()

    def fit_batch(self, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[FitResult]:
        jobs = [
            TrainingJob(
                data=part,
                targets=part.annotations.label_distribution() * (part.annotations.labels_per_item > 0)[:, None],
                seeds=context.seeds,
                report=self.reporting(context),
                checkpoint=context.checkpoint,
            )
            for part, context in zip(data, contexts, strict=True)
        ]
        schedule = Schedule(epochs=self.epochs, patience=3)
        trained = train_classifiers(self.classifier, jobs, schedule, contexts[0].device)
        return [one.result() for one in trained]

    def reporting(self, context: FitContext) -> Report:
        def report(step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:
            if step == self.at and context.seeds.seed == self.seed and not Path(self.once).exists():
                Path(self.once).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return context.report(step, objective, predictor)

        return report


MODEL = ModelInfo(
    name="revoked",
    title="A network whose slot is lost once",
    model=Revoked,
    steps="epochs",
    source="made up",
    needs=frozenset({"features"}),
    cost=lambda shape, params: float(shape.n_annotations),
    checkpoints=True,
)
