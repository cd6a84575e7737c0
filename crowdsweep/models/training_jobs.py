"""Training jobs of classifiers: soft targets that they are trained on, and early stopping on validation labels.

`train_classifiers` trains one classifier for each job, all side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Int64

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._soft_targets import LossOf, soft_targets_loss
from crowdsweep.models.checkpoints import NO_CHECKPOINT, Checkpoint, CheckpointPart
from crowdsweep.models.classifier import Classifier, ClassifierReplicas, NetworkPredictor, can_read
from crowdsweep.models.contract import FitResult, Need, Report, no_op
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.replicas import count_parameters, numbers_held, replica_chunks
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.train import train
from crowdsweep.models.trainer import Snapshot
from crowdsweep.models.training_length import FEW_UNITS, FOLDS
from crowdsweep.seeds import SeedStream


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingJob:
    """The training of one classifier.

    Attributes:
        data: whose items it reads.
        targets: rows summing to one; a row of zeros is left out.
        dev_targets: makes the targets of dev items from their annotations, to validate on; None where annotations
            cannot tell them.
        checkpoint: of the fit that the job is a part of (`FitContext.checkpoint`).
    """

    data: TrainingData
    targets: ItemProbs
    seeds: SeedStream
    report: Report
    dev_targets: Callable[[Annotations], ItemProbs] | None = Annotations.label_distribution
    checkpoint: Checkpoint = NO_CHECKPOINT


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedClassifier:
    """One trained classifier.

    Attributes:
        predictor: with the weights that were kept.
        probs: its probabilities for the job's items.
        losses: mean training cross-entropy of each epoch.
        scores: mean cross-entropy on the validation items after each epoch; empty where nobody looked.
        converged: whether a rule stopped it before the last epoch, or its loss had converged.
    """

    predictor: NetworkPredictor
    probs: ItemProbs
    losses: Float64[np.ndarray, " epochs"]
    scores: Float64[np.ndarray, " looks"]
    converged: bool

    def result(self, **fields: Any) -> FitResult:
        """Returns the result of a fit that ends with this training: its objective and convergence, the classifier's
        probabilities and predictor; `fields` of `FitResult` that are given come on top, or in their place."""
        trained: dict[str, Any] = {
            "item_probs": self.probs,
            "predictor": self.predictor,
            "objective": -self.losses,
            "converged": self.converged,
            "iterations": len(self.losses),
        }
        return FitResult(**{**trained, **fields})


def train_classifiers(
    classifier: Classifier,
    jobs: Sequence[TrainingJob],
    schedule: Schedule,
    device: str = "cpu",
    *,
    network: Network | None = None,
    loss_of: LossOf = soft_targets_loss,
) -> list[TrainedClassifier]:
    """Trains one classifier for each job, as many at a time as the machine's cache holds.

    Patience validates on the annotated dev items. Without any, a job of many units (items, sentences) keeps a tenth of
    them for that, drawn from its seeds; with few units a tenth would say little and cost much: a network on features
    then trains on all of them, for as many epochs as were best in cross-validation.

    Args:
        classifier: settings.
        jobs: of data that agree in what `fitting.fit_all` sees to.
        schedule: how long.
        network: if not the classifier's own, with as many outputs as there are classes.

    Raises:
        FitFailed: a job has no item to learn from.
    """
    network = classifier.build(jobs[0].data, sentences=True) if network is None else network
    shared = _Shared(classifier=classifier, network=network, device=device, loss_of=loss_of)
    trained: list[TrainedClassifier] = []
    floats, numbers = count_parameters(network.parameters()), numbers_held([job.data for job in jobs])
    for part in replica_chunks(len(jobs), floats, device, numbers):
        trained += shared.train(jobs[part], shared.splits(jobs[part], schedule), schedule)
    return trained


@dataclass(frozen=True, kw_only=True, eq=False)
class _Split:
    """The items that a job trains on, and what ends that.

    Attributes:
        validation: other items, with their targets, if any.
        length: epochs, if that is known.
    """

    rows: Int64[np.ndarray, " rows"]
    validation: tuple[Items, ItemProbs] | None = None
    length: int | None = None

    def loss(self, predictor: NetworkPredictor) -> float | None:
        """Returns the mean cross-entropy on the validation items."""
        if self.validation is None:
            return None
        items, targets = self.validation
        return mean_cross_entropy(targets, predictor.predict(items, "classifier"))

    @property
    def n_validating(self) -> int:
        """Number of validation items."""
        return 0 if self.validation is None else len(self.validation[1])


@dataclass(frozen=True, kw_only=True, eq=False)
class _Shared:
    """The settings that jobs trained together share."""

    classifier: Classifier
    network: Network
    device: str
    loss_of: LossOf

    def train(
        self, jobs: Sequence[TrainingJob], splits: Sequence[_Split], schedule: Schedule
    ) -> list[TrainedClassifier]:
        """Trains a classifier for each job, all side by side."""
        n_items, n_outputs = max(job.data.n_items for job in jobs), self.network.n_classes
        targets = np.zeros((len(jobs), n_items, n_outputs), np.float32)
        for row, job in zip(targets, jobs, strict=True):
            row[: len(job.targets)] = job.targets
        replicas = ClassifierReplicas(
            [self.classifier] * len(jobs),
            self.network,
            inputs=[self.network.inputs(job.data.items) for job in jobs],
            rows=[split.rows for split in splits],
            targets=torch.from_numpy(targets).to(self.device),
            seeds=[job.seeds for job in jobs],
            epochs=[schedule.epochs] * len(jobs),
            layouts=[self.network.layout(job.data.items) for job in jobs],
            loss_of=self.loss_of,
            device=self.device,
        )

        def predictor(_: int, kept: Snapshot) -> NetworkPredictor:
            return replicas.predictor(kept)

        histories = train(
            replicas.trainer,
            replicas.loss,
            schedule,
            [job.report for job in jobs],
            predictor=predictor,
            validation=lambda replica, kept: splits[replica].loss(predictor(replica, kept)),
            lengths=[split.length for split in splits],
            parts=[CheckpointPart.of(job.checkpoint, job.seeds) for job in jobs],
        )
        return [
            TrainedClassifier(
                predictor=(ended := predictor(replica, history.end)),
                probs=ended.predict(job.data.items, "classifier"),
                losses=np.array(history.losses),
                scores=np.array(history.scores),
                converged=history.converged,
            )
            for replica, (history, job) in enumerate(zip(histories, jobs, strict=True))
        ]

    def splits(self, jobs: Sequence[TrainingJob], schedule: Schedule) -> list[_Split]:
        """Returns what each job trains and validates on."""
        found = [self._split(job, schedule) for job in jobs]
        unknown = [place for place, split in enumerate(found) if split is None]
        lengths = self._best_lengths([jobs[place] for place in unknown], schedule)
        by_folds = {
            place: _Split(rows=labelled_rows(jobs[place]), length=length)
            for place, length in zip(unknown, lengths, strict=True)
        }
        return [by_folds[place] if split is None else split for place, split in enumerate(found)]

    def _split(self, job: TrainingJob, schedule: Schedule) -> _Split | None:
        """Returns what a job trains and validates on; None where its length is to be found by folds."""
        rows = labelled_rows(job)
        if not len(rows):
            raise FitFailed("expected at least one item with a label to train a classifier on, got none")
        if schedule.patience is None:
            return _Split(rows=rows)
        reads = self.classifier.network_for(job.data.items).needs()
        if job.dev_targets is not None:
            validation = validation_of(job.data, reads, job.dev_targets)
            if validation is not None:
                return _Split(rows=rows, validation=validation)
        unit = _units(job.data.items)
        units = np.unique(unit[rows])
        if len(units) == 1:
            return _Split(rows=rows)
        if len(units) < FEW_UNITS and "features" in reads:  # networks on texts cost too much to be trained six times
            return None
        validation_units = job.seeds.numpy("set aside").permutation(units)[: max(1, len(units) // 10)]
        validating = rows[np.isin(unit[rows], validation_units)]
        validation = (job.data.items.take(validating), job.targets[validating])
        return _Split(rows=np.setdiff1d(rows, validating), validation=validation)

    def _best_lengths(self, jobs: Sequence[TrainingJob], schedule: Schedule) -> list[int]:
        """Returns for each job the number of epochs with the least cross-validated loss."""
        if not jobs:
            return []
        patience = 2 * (schedule.patience or schedule.epochs)
        folds = [_folds(job) for job in jobs]
        own = [job for parts in folds for job, _ in parts]
        splits = [split for parts in folds for _, split in parts]
        trained = iter(self.train(own, splits, replace(schedule, patience=patience)))
        found: list[int] = []
        for parts in folds:
            curves = [next(trained).scores * split.n_validating for _, split in parts]
            epochs = max(map(len, curves))
            # A fold that had long become worse stays as it was.
            total = np.sum([np.pad(curve, (0, epochs - len(curve)), mode="edge") for curve in curves], axis=0)
            found.append(int(total.argmin()) + 1)
        return found


def _folds(job: TrainingJob) -> list[tuple[TrainingJob, _Split]]:
    """Returns the job without each of its folds, which validates."""
    rows, unit = labelled_rows(job), _units(job.data.items)
    units = job.seeds.numpy("folds of the length").permutation(np.unique(unit[rows]))
    found: list[tuple[TrainingJob, _Split]] = []
    for number, part in enumerate(np.array_split(units, min(FOLDS, len(units)))):
        left = rows[np.isin(unit[rows], part)]
        targets = job.targets.copy()
        targets[left] = 0.0
        seeds = job.seeds.child(f"length {number}")
        fold = replace(job, targets=targets, seeds=seeds, report=no_op)
        found.append(
            (fold, _Split(rows=labelled_rows(fold), validation=(job.data.items.take(left), job.targets[left])))
        )
    return found


def labelled_rows(job: TrainingJob) -> Int64[np.ndarray, " rows"]:
    """Returns the items with a target."""
    return np.flatnonzero(job.targets.sum(axis=1) > 0)


def _units(items: Items) -> Int64[np.ndarray, " items"]:
    return np.arange(items.n_items) if items.unit is None else items.unit.astype(np.int64)


def mean_cross_entropy(wanted: ItemProbs, probs: ItemProbs) -> float:
    """Returns the mean over the items of -sum over classes of wanted * log probs, in nats."""
    return float(-(wanted * floored_log(probs)).sum(axis=1).mean())


def validation_of(
    data: TrainingData,
    needs: frozenset[Need] = frozenset({"features"}),
    targets_of: Callable[[Annotations], ItemProbs] = Annotations.label_distribution,
) -> tuple[Items, ItemProbs] | None:
    """Returns the annotated dev items and their targets; None where there are none with what is read of them.

    Args:
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
