"""Lessons for classifiers: soft targets that they are trained on, and how it is found out how long.

`train_classifiers` trains one classifier for each lesson, all side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float64, Int64

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._soft_targets import LossOf, soft_targets_loss
from crowdsweep.models.classifier import Classifier, ClassifierReplicas, NetworkPredictor, can_read
from crowdsweep.models.contract import Need, Predictor, Report
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.replicas import count_parameters, replica_chunks
from crowdsweep.models.trainer import Course, Schedule, train
from crowdsweep.models.training_length import FEW_UNITS, FOLDS
from crowdsweep.seeds import SeedStream


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """What one classifier is to learn.

    Attributes:
        data: whose items it reads.
        targets: rows summing to one; a row of zeros is left out.
        seeds: the classifier's stream.
        report: is told of each epoch.
        dev_targets: makes targets of dev items of their annotations, for patience to watch; None where annotations do
            not tell what is learned.
    """

    data: TrainingData
    targets: ItemProbs
    seeds: SeedStream
    report: Report
    dev_targets: Callable[[Annotations], ItemProbs] | None = Annotations.label_distribution


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedClassifier:
    """One trained classifier.

    Attributes:
        predictor: with the weights that were kept.
        probs: its probabilities for the lesson's items.
        losses: mean training cross-entropy of each epoch.
        converged: whether a rule stopped it before the last epoch, or its loss had come to rest.
    """

    predictor: NetworkPredictor
    probs: ItemProbs
    losses: Float64[np.ndarray, " epochs"]
    converged: bool


def train_classifiers(
    classifier: Classifier,
    lessons: Sequence[Lesson],
    schedule: Schedule,
    device: str = "cpu",
    *,
    network: Network | None = None,
    loss_of: LossOf = soft_targets_loss,
) -> list[TrainedClassifier]:
    """Trains one classifier for each lesson, as many at a time as the machine's cache holds.

    Patience watches the annotated dev items. Without any, a lesson of many units (items, sentences) sets a tenth of
    them aside, drawn from its seeds; of few units a tenth would tell little and cost much, and a network on features
    trains on all of them, for as many epochs as were best in folds.

    Args:
        classifier: settings.
        lessons: of data that agree in what `contract.fit_all` sees to.
        schedule: how long.
        device: where everything is held.
        network: if not the classifier's own, with as many outputs as there are classes.
        loss_of: makes what is made smaller.

    Raises:
        FitFailed: a lesson has no item to learn from.
    """
    network = classifier.build(lessons[0].data, sentences=True) if network is None else network
    job = _Job(classifier=classifier, network=network, device=device, loss_of=loss_of)
    trained: list[TrainedClassifier] = []
    for part in replica_chunks(len(lessons), count_parameters(network.parameters()), device):
        trained += job.train(lessons[part], job.watches(lessons[part], schedule), schedule)
    return trained


@dataclass(frozen=True, kw_only=True, eq=False)
class _Watch:
    """The items that a lesson is trained on, and what ends that.

    Attributes:
        rows: the items.
        watched: other items, with their targets, if any.
        length: epochs, if that is known.
    """

    rows: Int64[np.ndarray, " rows"]
    watched: tuple[Items, ItemProbs] | None = None
    length: int | None = None

    def loss(self, predictor: NetworkPredictor) -> float | None:
        """Returns the mean cross-entropy on the watched items."""
        if self.watched is None:
            return None
        items, targets = self.watched
        return mean_cross_entropy(targets, predictor.predict(items, "classifier"))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Job:
    """What all lessons that are trained together share."""

    classifier: Classifier
    network: Network
    device: str
    loss_of: LossOf

    def train(
        self, lessons: Sequence[Lesson], watches: Sequence[_Watch], schedule: Schedule
    ) -> list[TrainedClassifier]:
        """Trains a classifier for each lesson, all side by side."""
        n_items, n_outputs = max(lesson.data.n_items for lesson in lessons), self.network.n_classes
        targets = np.zeros((len(lessons), n_items, n_outputs), np.float32)
        for row, lesson in zip(targets, lessons, strict=True):
            row[: len(lesson.targets)] = lesson.targets
        replicas = ClassifierReplicas(
            self.classifier,
            self.network,
            inputs=[self.network.inputs(lesson.data.items) for lesson in lessons],
            rows=[watch.rows for watch in watches],
            targets=torch.from_numpy(targets).to(self.device),
            seeds=[lesson.seeds for lesson in lessons],
            epochs=schedule.epochs,
            layouts=[self.network.layout(lesson.data.items) for lesson in lessons],
            loss_of=self.loss_of,
            device=self.device,
        )
        courses: list[Course[NetworkPredictor]] = train(
            replicas.trainer,
            replicas.loss,
            schedule,
            [lesson.report for lesson in lessons],
            keep=replicas.predictor,
            predictor=lambda _, kept: kept,
            watched=lambda replica, kept: watches[replica].loss(kept),
            lengths=[watch.length for watch in watches],
        )
        return [
            TrainedClassifier(
                predictor=course.end,
                probs=course.end.predict(lesson.data.items, "classifier"),
                losses=np.array(course.losses),
                converged=course.converged,
            )
            for course, lesson in zip(courses, lessons, strict=True)
        ]

    def watches(self, lessons: Sequence[Lesson], schedule: Schedule) -> list[_Watch]:
        """Returns what each lesson is trained on, and what is watched meanwhile."""
        found = [self._watch(lesson, schedule) for lesson in lessons]
        unknown = [place for place, watch in enumerate(found) if watch is None]
        lengths = self._best_lengths([lessons[place] for place in unknown], schedule)
        by_folds = {
            place: _Watch(rows=taught(lessons[place]), length=length)
            for place, length in zip(unknown, lengths, strict=True)
        }
        return [by_folds[place] if watch is None else watch for place, watch in enumerate(found)]

    def _watch(self, lesson: Lesson, schedule: Schedule) -> _Watch | None:
        """Returns what a lesson watches; None where its length is to be found by folds."""
        rows = taught(lesson)
        if not len(rows):
            raise FitFailed("expected at least one item with a label to train a classifier on, got none")
        if schedule.patience is None:
            return _Watch(rows=rows)
        reads = self.classifier.network_for(lesson.data.items).needs()
        if lesson.dev_targets is not None:
            watched = watched_of(lesson.data, reads, lesson.dev_targets)
            if watched is not None:
                return _Watch(rows=rows, watched=watched)
        unit = _units(lesson.data.items)
        units = np.unique(unit[rows])
        if len(units) == 1:
            return _Watch(rows=rows)
        if len(units) < FEW_UNITS and "features" in reads:  # networks on texts cost too much to be trained six times
            return None
        aside = lesson.seeds.numpy("set aside").permutation(units)[: max(1, len(units) // 10)]
        watching = rows[np.isin(unit[rows], aside)]
        watched = (lesson.data.items.take(watching), lesson.targets[watching])
        return _Watch(rows=np.setdiff1d(rows, watching), watched=watched)

    def _best_lengths(self, lessons: Sequence[Lesson], schedule: Schedule) -> list[int]:
        """Returns for each lesson after how many epochs its folds, none of which is trained on itself, lose least."""
        if not lessons:
            return []
        folds = [_folds(lesson, 2 * (schedule.patience or schedule.epochs)) for lesson in lessons]
        own = [lesson for parts in folds for lesson, _ in parts]
        self.train(own, [_Watch(rows=taught(lesson)) for lesson in own], replace(schedule, patience=None))
        found: list[int] = []
        for parts in folds:
            curves = [curve.losses for _, curve in parts]
            epochs = max(map(len, curves))
            # A fold that had long become worse stays as it was.
            total = np.sum([np.pad(curve, (0, epochs - len(curve)), mode="edge") for curve in curves], axis=0)
            found.append(int(total.argmin()) + 1)
        return found


@dataclass(kw_only=True, eq=False)
class _FoldCurve:
    """A `Report` that keeps what the items of one fold lose after each epoch."""

    items: Items
    targets: ItemProbs
    patience: int
    losses: list[float] = field(default_factory=list[float])

    def __call__(self, step: int, objective: float, predictor: Callable[[], Predictor] | None = None) -> bool:  # noqa: ARG002 - a Report
        """See `Report`; ends the fold once it has long become worse."""
        if predictor is not None:
            lost = mean_cross_entropy(self.targets, predictor().predict(self.items, "classifier"))
            self.losses.append(lost * len(self.targets))
        return len(self.losses) - int(np.argmin(self.losses)) <= self.patience


def _folds(lesson: Lesson, patience: int) -> list[tuple[Lesson, _FoldCurve]]:
    """Returns the lesson without each of its folds, and what follows how that goes."""
    rows, unit = taught(lesson), _units(lesson.data.items)
    units = lesson.seeds.numpy("folds of the length").permutation(np.unique(unit[rows]))
    found: list[tuple[Lesson, _FoldCurve]] = []
    for number, part in enumerate(np.array_split(units, min(FOLDS, len(units)))):
        left = rows[np.isin(unit[rows], part)]
        targets = lesson.targets.copy()
        targets[left] = 0.0
        curve = _FoldCurve(items=lesson.data.items.take(left), targets=lesson.targets[left], patience=patience)
        seeds = lesson.seeds.child(f"length {number}")
        found.append((replace(lesson, targets=targets, seeds=seeds, report=curve), curve))
    return found


def taught(lesson: Lesson) -> Int64[np.ndarray, " rows"]:
    """Returns the items that have something to teach."""
    return np.flatnonzero(lesson.targets.sum(axis=1) > 0)


def _units(items: Items) -> Int64[np.ndarray, " items"]:
    return np.arange(items.n_items) if items.unit is None else items.unit.astype(np.int64)


def mean_cross_entropy(wanted: ItemProbs, probs: ItemProbs) -> float:
    """Returns the mean over the items of -sum over classes of wanted * log probs, in nats."""
    return float(-(wanted * floored_log(probs)).sum(axis=1).mean())


def watched_of(
    data: TrainingData,
    needs: frozenset[Need] = frozenset({"features"}),
    targets_of: Callable[[Annotations], ItemProbs] = Annotations.label_distribution,
) -> tuple[Items, ItemProbs] | None:
    """Returns the annotated dev items and their targets; None where there are none with what is read of them.

    Args:
        data: whose dev items are looked at.
        needs: what is read.
        targets_of: makes targets of annotations; a row of zeros is left out.
    """
    if data.validation is None or not can_read(needs, data.validation.items):
        return None
    targets = targets_of(data.validation.annotations)
    labelled = np.flatnonzero((data.validation.annotations.labels_per_item > 0) & (targets.sum(axis=1) > 0))
    if not len(labelled):
        return None
    return data.validation.items.take(labelled), targets[labelled]
