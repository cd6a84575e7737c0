"""The second stage of a two-stage model: a classifier trained on the targets that the first made.

The training items then have the classifier's probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, final, runtime_checkable

from annotated_types import Ge

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models.classifier import Classifier, TrainingProtocol, schedule_of
from crowdsweep.models.contract import FitContext, FitResult
from crowdsweep.models.networks.automatic import Auto
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.training_jobs import TrainingJob, train_classifiers
from crowdsweep.models.training_length import SEARCHED
from crowdsweep.models.two_stage._targets import Aggregated


@runtime_checkable
class SecondStage(Protocol):
    """Hyper-parameters of how a classifier is trained on targets."""

    def fit(
        self, data: Sequence[TrainingData], contexts: Sequence[FitContext], stages: Sequence[Aggregated]
    ) -> list[FitResult]:
        """Trains a classifier on each data set's targets, all side by side."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Training:
    """Hyper-parameters of the second stage.

    Attributes:
        classifier: what is trained.
        epochs: passes over the items; the most unless `protocol: equal_budget`.
        patience: under `protocol: until_trained`, stop after so many epochs without a better loss on the answers to dev
            items (to a tenth of the training items where there are none), and keep the best; null trains all epochs.
        protocol: `until_trained` has `steps` and `patience`; `paper` stops once the training loss gains less than 3 %
            over the best; `equal_budget` does not stop.
    """

    classifier: Classifier = Classifier()
    epochs: Annotated[int, Ge(1)] = 50
    patience: Annotated[int, Ge(1)] | None = 10
    protocol: TrainingProtocol = "until_trained"

    @property
    def schedule(self) -> Schedule:
        return schedule_of(self.epochs, self.protocol, self.patience)

    def fit(
        self, data: Sequence[TrainingData], contexts: Sequence[FitContext], stages: Sequence[Aggregated]
    ) -> list[FitResult]:
        return fit_stages(self.classifier.under(self.protocol), self.schedule, data, contexts, stages)


@final
@dataclass(frozen=True, kw_only=True)
class ValidatedTraining:
    """Hyper-parameters of a classifier whose best epoch is chosen by validation labels.

    Attributes:
        classifier: what is trained.
        epochs: the most passes over the items.
        patience: stop after so many epochs without a better loss on dev items (a tenth of the training items where
            there are none); null trains all epochs and keeps the last.
    """

    classifier: Classifier = Classifier(network=Auto(hidden=(256,)))
    epochs: Annotated[int, Ge(1)] = 100
    patience: Annotated[int, Ge(1)] | None = 10

    @property
    def schedule(self) -> Schedule:
        return Schedule(epochs=self.epochs, patience=self.patience)

    def fit(
        self, data: Sequence[TrainingData], contexts: Sequence[FitContext], stages: Sequence[Aggregated]
    ) -> list[FitResult]:
        return fit_stages(self.classifier, self.schedule, data, contexts, stages)


def fit_stages(
    classifier: Classifier,
    schedule: Schedule,
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
    stages: Sequence[Aggregated],
    network: Network | None = None,
) -> list[FitResult]:
    """Trains a classifier on each data set's targets, all side by side; the objective is minus the training loss.

    `network` is what is trained; by default what the classifier's settings say of the items.
    """
    jobs = [
        TrainingJob(
            data=part,
            targets=stage.targets,
            seeds=context.seeds.child("classifier"),
            report=context.report,
            dev_targets=stage.dev_targets,
            checkpoint=context.checkpoint,
        )
        for part, context, stage in zip(data, contexts, stages, strict=True)
    ]
    trained = train_classifiers(classifier, jobs, schedule, contexts[0].device, network=network)
    return [
        one.result(
            annotators=stage.annotators,
            label_probs=stage.label_probs(one.probs),
            unseen_label_probs=stage.unseen_label_probs(one.predictor),
            extras=stage.extras,
        )
        for one, stage in zip(trained, stages, strict=True)
    ]


CLASSIFIER_SPACE: Mapping[str, Any] = {
    "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
    "dropout": {"values": [0.0, 0.2, 0.5]},
    "epochs": {"values": [10, 20, 50]},
    "steps": {"values": SEARCHED},
}
# Of pairs that are compared with models trained end to end: as long as those.
LONG_SPACE: Mapping[str, Any] = {
    "learning_rate": {"values": [1e-4, 1e-3, 1e-2]},
    "epochs": {"values": [50, 200, 1000]},
    "steps": {"values": SEARCHED},
}
VALIDATED_SPACE: Mapping[str, Any] = {
    "hidden": {"values": [[64], [128], [256], [256, 64]]},
    "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
    "dropout": {"values": [0.0, 0.25, 0.5]},
}
