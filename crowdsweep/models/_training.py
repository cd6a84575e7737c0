"""Trains many small classifiers to the end on soft targets that stand, each with its own rule to stop."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._classifiers import (
    ClassifierSettings,
    NetworkPredictor,
    Protocols,
    StackedClassifiers,
)
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.replicas import (
    Adam,
    count_parameters,
    replica_chunks,
)
from crowdsweep.seeds import SeedStream

PAPER_IMPROVEMENT = 0.03  # the paper protocol's stop rule: the training loss must fall by more than this share


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """What one classifier is to learn.

    Attributes:
        features: float32 [items, features].
        targets: float64 [items, classes], rows summing to one; a row of zeros is left out.
        weights: how much each item counts [items], 0 leaves it out; None counts each once.
        seeds: the classifier's stream.
        watched: features and target distributions of other items, on which the best epoch is chosen; only with
            `Schedule.patience`. None sets a tenth of this lesson's own items aside, drawn from `seeds`.
    """

    features: Float32[np.ndarray, "items features"]
    targets: Float64[np.ndarray, "items classes"]
    weights: Float64[np.ndarray, " items"] | None = None
    seeds: SeedStream
    watched: tuple[Float32[np.ndarray, "watched features"], Float64[np.ndarray, "watched classes"]] | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long to train, and how.

    Attributes:
        epochs: the most.
        batch_size, learning_rate: of Adam, in items.
        least_improvement: stop at the first epoch whose training loss is not below (1 - this) times the best; None
            does not look.
        patience: watch items that are not trained on, stop after so many epochs without a better mean cross-entropy
            on them, and keep the best epoch's weights; None does not watch.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    least_improvement: float | None = None
    patience: int | None = None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedClassifier:
    """One trained classifier.

    Attributes:
        predictor: with the weights that were kept.
        probs: float64 [items, classes], its probabilities for the lesson's items.
        losses: mean training cross-entropy of each epoch.
        converged: whether a rule stopped it before the last epoch; true where there is no rule.
    """

    predictor: NetworkPredictor
    probs: ItemProbs
    losses: Float64[np.ndarray, " steps"]
    converged: bool


def schedule_of(settings: ClassifierSettings, *, epochs: int, protocol: Protocols) -> Schedule:
    """Returns the schedule of a two-stage model: `paper` may stop early, `equal_budget` trains `epochs` epochs."""
    return Schedule(
        epochs=epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        least_improvement=PAPER_IMPROVEMENT if protocol == "paper" else None,
    )


def train_classifiers(
    network: DenseNetwork, lessons: Sequence[Lesson], schedule: Schedule, device: str = "cpu"
) -> list[TrainedClassifier]:
    """Trains one classifier for each lesson, as many at a time as the machine's cache holds.

    Raises:
        FitFailed: a lesson has no item to learn from.
    """
    trained: list[TrainedClassifier] = []
    for part in replica_chunks(len(lessons), count_parameters(network.parameters()), device):
        trained += _train_together(network, lessons[part], schedule, device)
    return trained


def _train_together(
    network: DenseNetwork, lessons: Sequence[Lesson], schedule: Schedule, device: str
) -> list[TrainedClassifier]:
    splits = [_split(lesson, watch=schedule.patience is not None) for lesson in lessons]
    targets = np.zeros((len(lessons), max(len(lesson.features) for lesson in lessons), network.n_classes), np.float32)
    for row, lesson in zip(targets, lessons, strict=True):
        weights = 1.0 if lesson.weights is None else lesson.weights[:, None]
        row[: len(lesson.features)] = lesson.targets * weights
    stack = StackedClassifiers(
        network,
        features=[lesson.features for lesson in lessons],
        rows=[split.rows for split in splits],
        seeds=[lesson.seeds for lesson in lessons],
        adam=Adam(learning_rate=schedule.learning_rate),
        batch_size=schedule.batch_size,
        device=device,
    )
    stacked_targets = torch.from_numpy(targets).to(device)
    progress = [_Progress() for _ in lessons]
    predictors: dict[int, NetworkPredictor] = {}
    for epoch in range(schedule.epochs):
        losses = stack.run_epoch(stacked_targets)
        stopping: list[int] = []
        for replica, loss in losses.items():
            state = progress[replica]
            state.losses.append(loss)
            if schedule.patience is not None:
                watched = splits[replica].watched
                state.look(stack.predictor(replica), watched[0], watched[1])
            if state.should_stop(schedule):
                state.stopped = True
                stopping.append(replica)
        last = stack.active if epoch == schedule.epochs - 1 else stopping
        predictors.update({replica: stack.predictor(replica) for replica in last})
        stack.drop(stopping)
        if not stack.active:
            break
    ruled = schedule.patience is not None or schedule.least_improvement is not None
    return [
        _finished(state.best or predictors[replica], lesson, state, ruled=ruled)
        for replica, (lesson, state) in enumerate(zip(lessons, progress, strict=True))
    ]


def _finished(predictor: NetworkPredictor, lesson: Lesson, state: "_Progress", *, ruled: bool) -> TrainedClassifier:
    return TrainedClassifier(
        predictor=predictor,
        probs=predictor.network.predict(predictor.values, lesson.features, predictor.device),
        losses=np.array(state.losses),
        converged=state.stopped or not ruled,
    )


@dataclass(kw_only=True)
class _Progress:
    """What is remembered of one classifier in training."""

    losses: list[float] = field(default_factory=list)
    stopped: bool = False
    best: NetworkPredictor | None = None
    best_score: float = np.inf
    worse_since: int = 0

    def look(self, predictor: NetworkPredictor, features: np.ndarray, targets: np.ndarray) -> None:
        probs = predictor.network.predict(predictor.values, features, predictor.device)
        score = float(-(targets * floored_log(probs)).sum(axis=1).mean())
        if score < self.best_score:
            self.best, self.best_score, self.worse_since = predictor, score, 0
        else:
            self.worse_since += 1

    def should_stop(self, schedule: Schedule) -> bool:
        if not np.isfinite(self.losses[-1]):
            return True
        if schedule.patience is not None and self.worse_since >= schedule.patience:
            return True
        if schedule.least_improvement is None or len(self.losses) == 1:
            return False
        return self.losses[-1] >= (1 - schedule.least_improvement) * min(self.losses[:-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Split:
    """The items that a lesson is trained on, and what is watched (nothing: two empty arrays)."""

    rows: Int64[np.ndarray, " rows"]
    watched: tuple[np.ndarray, np.ndarray]


def _split(lesson: Lesson, *, watch: bool) -> _Split:
    counting = lesson.targets.sum(axis=1) > 0
    if lesson.weights is not None:
        counting &= lesson.weights > 0
    rows = np.flatnonzero(counting)
    if not len(rows):
        raise FitFailed("expected at least one item with a label to train a classifier on, got none")
    if not watch:
        return _Split(rows=rows, watched=(lesson.features[:0], lesson.targets[:0]))
    if lesson.watched is not None and len(lesson.watched[0]):
        return _Split(rows=rows, watched=lesson.watched)
    aside = lesson.seeds.numpy("set aside").permutation(rows)[: max(1, len(rows) // 10)]
    kept = np.setdiff1d(rows, aside) if len(rows) > 1 else rows
    return _Split(rows=kept, watched=(lesson.features[aside], lesson.targets[aside]))


def watched_of(data: TrainingData) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns features and label distributions of the annotated dev items; None where there are none."""
    if data.validation is None or data.validation.items.features is None:
        return None
    labelled = data.validation.annotations.labels_per_item > 0
    if not labelled.any():
        return None
    return data.validation.items.features[labelled], data.validation.annotations.label_distribution()[labelled]
