"""What two-stage models share: targets made of the labels, then a classifier trained on the targets.

A model file makes targets; `fit_two_stage` trains all replicas on them and puts the results together. The labels of the
training items are then the classifier's: what it says of the items that it was trained on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from crowdsweep.arrays import AnnotatorCodes, Confusion, ItemCodes, ItemProbs, RowProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._classifiers import ClassifierSettings, Protocols, build_network, features_of
from crowdsweep.models._em import label_probs_of
from crowdsweep.models._training import Lesson, TrainedClassifier, schedule_of, train_classifiers
from crowdsweep.models.contract import AnnotatorModel, FitContext, FitResult, LabelProbs


@runtime_checkable
class TwoStageSettings(ClassifierSettings, Protocol):
    """The hyper-parameters of every two-stage model."""

    @property
    def epochs(self) -> int: ...
    @property
    def protocol(self) -> Protocols: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Aggregated:
    """What the first stage found.

    Attributes:
        targets: float64 [items, classes]; rows of zeros are not trained on.
        annotators: how annotators answer, if the aggregation says so.
        extras: further arrays for the result.
    """

    targets: ItemProbs
    annotators: AnnotatorModel | None = None
    extras: Mapping[str, np.ndarray] | None = None


def fit_two_stage(
    settings: TwoStageSettings,
    data: Sequence[TrainingData],
    contexts: Sequence[FitContext],
    aggregated: Sequence[Aggregated],
) -> list[FitResult]:
    """Trains a classifier on each data set's targets, all side by side."""
    lessons = [
        Lesson(features=features_of(part.items), targets=stage.targets, seeds=context.seeds.child("classifier"))
        for part, context, stage in zip(data, contexts, aggregated, strict=True)
    ]
    network = build_network(settings, lessons[0].features.shape[1], data[0].n_classes)
    schedule = schedule_of(settings, epochs=settings.epochs, protocol=settings.protocol)
    trained = train_classifiers(network, lessons, schedule, contexts[0].device)
    return [
        result_of(classifier, context, stage)
        for classifier, context, stage in zip(trained, contexts, aggregated, strict=True)
    ]


def result_of(classifier: TrainedClassifier, context: FitContext, stage: Aggregated) -> FitResult:
    """Puts a trained classifier and its aggregation together; the objective is minus the training loss."""
    report_losses(classifier, context)
    return FitResult(
        item_probs=classifier.probs,
        annotators=stage.annotators,
        label_probs=None if stage.annotators is None else _label_probs(classifier.probs, stage.annotators),
        predictor=classifier.predictor,
        objective=-classifier.losses,
        converged=classifier.converged,
        iterations=len(classifier.losses),
        extras=stage.extras or {},
    )


def report_losses(classifier: TrainedClassifier, context: FitContext) -> None:
    """Reports minus the training loss of each epoch, if anybody listens."""
    for step, loss in enumerate(classifier.losses, start=1):
        context.report(step, -float(loss))


def answered(data: TrainingData, probs: ItemProbs) -> ItemProbs:
    """Returns the probabilities with zeros for items that nobody labelled."""
    return np.where((data.annotations.labels_per_item > 0)[:, None], probs, 0.0)


def _label_probs(probs: ItemProbs, annotators: AnnotatorModel) -> LabelProbs:
    shared = annotators.global_confusion()
    return _through_crowd(probs, shared) if shared is not None else label_probs_of(probs, annotators)


def _through_crowd(probs: ItemProbs, shared: Confusion) -> LabelProbs:
    expected: Float64[np.ndarray, "items classes"] = probs @ shared

    def label_probs(item: ItemCodes, _: AnnotatorCodes) -> RowProbs:
        return expected[item]

    return label_probs
