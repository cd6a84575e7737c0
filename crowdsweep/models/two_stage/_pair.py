"""What two-stage models share: targets made of the labels, then a classifier trained on the targets.

A model file makes targets; `Training.fit` trains all replicas on them and puts the results together. The labels of the
training items are then the classifier's: what it says of the items that it was trained on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, final

import numpy as np
from annotated_types import Ge
from jaxtyping import Shaped

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._cost import training_cost
from crowdsweep.models._em import label_probs_of, label_probs_of_anybody, winners
from crowdsweep.models.classifier import Classifier, TrainingProtocol, schedule_of
from crowdsweep.models.contract import (
    AnnotatorModel,
    FitContext,
    FitResult,
    LabelProbs,
    Model,
    ModelInfo,
    Need,
    fit_unchecked,
    nobody_listens,
)
from crowdsweep.models.lessons import Lesson, train_classifiers
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.trainer import Schedule
from crowdsweep.models.training_length import SEARCHED


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Aggregated:
    """What the first stage found.

    Attributes:
        targets: rows of zeros are not trained on.
        annotators: how annotators answer, if the aggregation says so.
        extras: further arrays for the result.
        dev_targets: makes targets of the answers to dev items, of the kind that is learned; None where answers do not
            tell it, as they do not tell gold.
    """

    targets: ItemProbs
    annotators: AnnotatorModel | None = None
    extras: Mapping[str, Shaped[np.ndarray, "..."]] | None = None
    dev_targets: Callable[[Annotations], ItemProbs] | None = Annotations.label_distribution


def aggregated(model: Model, data: Sequence[TrainingData], contexts: Sequence[FitContext]) -> list[Aggregated]:
    """Fits an aggregator, which reports nothing; what it says of items that nobody labelled is left out."""
    quiet = [replace(context, report=nobody_listens) for context in contexts]
    return [
        Aggregated(targets=answered(part, found.item_probs), annotators=found.annotators, extras=found.extras)
        for part, found in zip(data, fit_unchecked(model, data, quiet), strict=True)
    ]


def answered(data: TrainingData, probs: ItemProbs) -> ItemProbs:
    """Returns the probabilities with zeros for items that nobody labelled."""
    return np.where((data.annotations.labels_per_item > 0)[:, None], probs, 0.0)


def one_hot(winners: ItemProbs, context: FitContext, *, draw: bool) -> ItemProbs:
    """Returns rows with a single class for rows in which tied winners share one; rows of zeros stay.

    Args:
        winners: above zero for the winning classes.
        context: of the fit, whose stream `ties` draws.
        draw: one of the tied classes at random; else the first.
    """
    scores = winners > 0
    if draw:
        scores = scores * (1.0 + context.seeds.numpy("ties").random(winners.shape))
    return np.eye(winners.shape[1])[scores.argmax(axis=1)] * winners.any(axis=1, keepdims=True)


def hardened(stages: Sequence[Aggregated], contexts: Sequence[FitContext], *, draw: bool = True) -> list[Aggregated]:
    """Returns the same with each item's likeliest class as its target: one at random where several tie, or the first.

    Of dev items the class that most annotators chose is watched: the distribution of answers would have a classifier of
    single classes stopped as soon as it is surer than annotators are of one mind.
    """
    return [
        replace(
            stage,
            targets=one_hot(winners(stage.targets) * (stage.targets > 0), context, draw=draw),
            dev_targets=most_votes,
        )
        for stage, context in zip(stages, contexts, strict=True)
    ]


def most_votes(annotations: Annotations) -> ItemProbs:
    """Returns rows of one for the class with the most votes, shared evenly by those that tie; zeros without votes."""
    votes = annotations.label_distribution()
    return winners(votes) * (votes > 0)


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
        """Trains a classifier on each data set's targets, all side by side."""
        return fit_pairs(self.classifier.under(self.protocol), self.schedule, data, contexts, stages)


def fit_pairs(
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
    lessons = [
        Lesson(
            data=part,
            targets=stage.targets,
            seeds=context.seeds.child("classifier"),
            report=context.report,
            dev_targets=stage.dev_targets,
        )
        for part, context, stage in zip(data, contexts, stages, strict=True)
    ]
    trained = train_classifiers(classifier, lessons, schedule, contexts[0].device, network=network)
    return [
        FitResult(
            item_probs=one.probs,
            annotators=stage.annotators,
            label_probs=None if stage.annotators is None else _label_probs(one.probs, stage.annotators),
            predictor=one.predictor,
            objective=-one.losses,
            converged=one.converged,
            iterations=len(one.losses),
            extras=stage.extras or {},
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


def two_stage(
    name: str,
    title: str,
    model: type[Any],
    source: str,
    *,
    needs: frozenset[Need] = frozenset(),
    predicts_labels: bool = True,
    space: Mapping[str, Any] = CLASSIFIER_SPACE,
    version: int = 1,
) -> ModelInfo:
    """Returns what the platform knows of a model that holds a `Training`.

    Args:
        name: what a user types.
        title: one line.
        model: the dataclass.
        source: paper, section, equations.
        needs: besides features.
        predicts_labels: see `ModelInfo`.
        space: of the search; the classifier's alone by default.
        version: raised when the same parameters give other numbers.
    """
    return ModelInfo(
        name=name,
        title=title,
        model=model,
        steps="epochs",
        predicts_labels=predicts_labels,
        source=source,
        needs=needs | frozenset[Need]({"features"}),
        supports=frozenset({"votes", "soft_answers"}),
        space=space,
        cost=training_cost,
        version=version,
        label_symmetric=False,
    )


def _label_probs(probs: ItemProbs, annotators: AnnotatorModel) -> LabelProbs:
    shared = annotators.global_confusion()
    return label_probs_of(probs, annotators) if shared is None else label_probs_of_anybody(probs @ shared)
