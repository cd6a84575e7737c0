"""The classifier that most models hold: its settings, its replicas in training, and what labels unseen items.

`Classifier` is a part of a model's hyper-parameters (`registry.parameters` writes it flat). `ClassifierReplicas` are
many classifiers of one shape in training on soft targets, which may change from one epoch to the next, as EM does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, final, runtime_checkable

import numpy as np
import torch
from annotated_types import Ge, Gt
from jaxtyping import Float64, Int64, Shaped

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._batches import StackedRows
from crowdsweep.models._soft_targets import Targets, soft_targets_loss
from crowdsweep.models.contract import Report
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.replicas import Adam, count_parameters, replica_chunks
from crowdsweep.models.networks.tensors import ReplicaValues
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import Course, ReplicaTrainer, Schedule, train
from crowdsweep.registry.parameters import Variants
from crowdsweep.seeds import SeedStream

TrainingProtocol = Literal["paper", "equal_budget"]

PAPER_IMPROVEMENT = 0.03  # the paper protocol's stop rule: the training loss must fall by more than this share


@runtime_checkable
class NetworkSettings(Protocol):
    """The hyper-parameters of a network, `network: its name` among them."""

    def build(self, items: Items, n_classes: int) -> Network:
        """Returns the network that reads these items.

        Raises:
            FitFailed: the items lack what it reads.
        """
        ...


def known_networks() -> dict[str, type[NetworkSettings]]:
    """Returns the settings of each network that `network` may name."""
    return {"linear": Dense, "mlp": Dense}


@final
@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Hyper-parameters of a classifier.

    Attributes:
        network: what it is.
        learning_rate: of Adam.
        batch_size: items in a step.
    """

    network: Annotated[NetworkSettings, Variants(known_networks)] = Dense()
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64

    def build(self, data: TrainingData) -> Network:
        """Returns the network for data of these sizes."""
        return self.network.build(data.items, data.n_classes)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkPredictor:
    """One trained classifier: labels items from what its network reads."""

    network: Network
    values: ReplicaValues
    device: str = "cpu"

    @property
    def uses(self) -> tuple[str, ...]:
        return ("classifier",)

    def predict(self, items: Items, use: str) -> ItemProbs:  # noqa: ARG002 - there is one use
        """Returns the classifier's probabilities."""
        return self.probabilities(self.network.inputs(items))

    def probabilities(self, inputs: Shaped[np.ndarray, " items *shape"]) -> ItemProbs:
        """Returns the classifier's probabilities for what its network reads of the items."""
        return self.network.probabilities(*self._stacked(inputs))[0].cpu().numpy()

    @torch.no_grad()
    def logits(self, items: Items) -> Float64[np.ndarray, "classes items"]:
        """Returns what the network gives before softmax."""
        logits = self.network.logits(*self._stacked(self.network.inputs(items)), masks=None)
        return logits[0].to(torch.float64).cpu().numpy()

    def _stacked(
        self, inputs: Shaped[np.ndarray, " rows *shape"]
    ) -> tuple[Values, Shaped[torch.Tensor, "1 rows *shape"]]:
        return Values.of_one(self.values, self.device), torch.from_numpy(np.array(inputs)).to(self.device)[None]


@final
class ClassifierReplicas:
    """S classifiers of one shape in training, each on its own rows of its own data."""

    def __init__(
        self,
        classifier: Classifier,
        network: Network,
        *,
        inputs: Sequence[Shaped[np.ndarray, " _ *shape"]],
        rows: Sequence[Int64[np.ndarray, " _"]],
        targets: Targets,
        seeds: Sequence[SeedStream],
        device: str = "cpu",
    ) -> None:
        """Draws the initial weights.

        Args:
            classifier: settings.
            network: the shape of all.
            inputs: what the network reads of each replica's items; equal arrays are held once.
            rows: the items that each replica trains on.
            targets: of as many items as the longest has; those that a replica lacks are padding. They may be changed
                in place between epochs.
            seeds: a stream for each replica.
            device: where everything is held.
        """
        self.network, self._device = network, device
        self._lengths = list(map(len, inputs))
        self._inputs = StackedRows.of(inputs, device)
        self.targets = targets
        self.loss = soft_targets_loss(network, self._inputs, targets)
        self.trainer = ReplicaTrainer(
            network.parameters(),
            rows=rows,
            seeds=seeds,
            optimiser=Adam(learning_rate=classifier.learning_rate),
            batch_size=classifier.batch_size,
            device=device,
            dropout=network.dropouts,
            row_size=network.row_size,
        )

    @torch.no_grad()
    def probabilities(self) -> Float64[torch.Tensor, "active items classes"]:
        """Returns what active replicas say, ascending; rows that one lacks are uniform."""
        active = self.trainer.active
        shape = (len(active), self.targets.shape[1], self.network.n_classes)
        found = torch.full(shape, 1.0 / shape[2], dtype=torch.float64, device=self._device)
        groups: dict[int, list[int]] = {}
        for place, replica in enumerate(active):
            groups.setdefault(int(self._inputs.starts[replica]), []).append(place)
        for places in groups.values():
            replica = active[places[0]]
            length = self._lengths[replica]
            values = self.trainer.values([active[place] for place in places])
            found[places, :length] = self.network.probabilities(
                Values(values), self._inputs.of_replica(replica, length)[None]
            )
        return found

    def predictor(self, replica: int) -> NetworkPredictor:
        """Returns a copy of an active replica as it is now."""
        return NetworkPredictor(network=self.network, values=self.trainer.snapshot(replica).values, device=self._device)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Lesson:
    """What one classifier is to learn.

    Attributes:
        data: whose items it reads.
        targets: rows summing to one; a row of zeros is left out.
        seeds: the classifier's stream.
        report: is told of each epoch.
    """

    data: TrainingData
    targets: ItemProbs
    seeds: SeedStream
    report: Report


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainedClassifier:
    """One trained classifier.

    Attributes:
        predictor: with the weights that were kept.
        probs: its probabilities for the lesson's items.
        losses: mean training cross-entropy of each epoch.
        converged: whether a rule stopped it before the last epoch; true where there is no rule.
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
    network: Network | None = None,
) -> list[TrainedClassifier]:
    """Trains one classifier for each lesson, as many at a time as the machine's cache holds.

    Patience watches the annotated dev items, or a tenth of a lesson's own, drawn from its seeds and set aside.

    Args:
        classifier: settings.
        lessons: one for each.
        schedule: how long.
        device: where.
        network: what is trained; by default what the settings say of the lessons' items.

    Raises:
        FitFailed: a lesson has no item to learn from.
    """
    network = network or classifier.build(lessons[0].data)
    trained: list[TrainedClassifier] = []
    for part in replica_chunks(len(lessons), count_parameters(network.parameters()), device):
        trained += _train_together(classifier, network, lessons[part], schedule, device)
    return trained


def _train_together(
    classifier: Classifier, network: Network, lessons: Sequence[Lesson], schedule: Schedule, device: str
) -> list[TrainedClassifier]:
    inputs = [network.inputs(lesson.data.items) for lesson in lessons]
    watches = [_watch(lesson, network, own, schedule) for lesson, own in zip(lessons, inputs, strict=True)]
    targets = np.zeros((len(lessons), max(map(len, inputs)), network.n_classes), np.float32)
    for row, lesson in zip(targets, lessons, strict=True):
        row[: len(lesson.targets)] = lesson.targets
    replicas = ClassifierReplicas(
        classifier,
        network,
        inputs=inputs,
        rows=[watch.rows for watch in watches],
        targets=torch.from_numpy(targets).to(device),
        seeds=[lesson.seeds for lesson in lessons],
        device=device,
    )
    courses: list[Course[NetworkPredictor]] = train(
        replicas.trainer,
        replicas.loss,
        schedule,
        [lesson.report for lesson in lessons],
        keep=replicas.predictor,
        predictor=lambda _, kept: kept,
        watched=lambda replica, kept: watches[replica].loss(kept),
    )
    return [
        TrainedClassifier(
            predictor=course.end,
            probs=course.end.probabilities(own),
            losses=np.array(course.losses),
            converged=course.converged,
        )
        for course, own in zip(courses, inputs, strict=True)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Watch:
    """The items that a lesson is trained on, and what is watched meanwhile (nothing: two empty arrays)."""

    rows: Int64[np.ndarray, " rows"]
    inputs: Shaped[np.ndarray, " watched *shape"]
    targets: Float64[np.ndarray, "watched classes"]

    def loss(self, predictor: NetworkPredictor) -> float | None:
        """Returns the mean cross-entropy on the watched items."""
        if not len(self.targets):
            return None
        return mean_cross_entropy(self.targets, predictor.probabilities(self.inputs))


def _watch(lesson: Lesson, network: Network, inputs: Shaped[np.ndarray, " items *shape"], schedule: Schedule) -> _Watch:
    rows = np.flatnonzero(lesson.targets.sum(axis=1) > 0)
    if not len(rows):
        raise FitFailed("expected at least one item with a label to train a classifier on, got none")
    if schedule.patience is None:
        return _Watch(rows=rows, inputs=inputs[:0], targets=lesson.targets[:0])
    if (watched := watched_of(lesson.data)) is not None:
        return _Watch(rows=rows, inputs=network.inputs(watched[0]), targets=watched[1])
    aside = lesson.seeds.numpy("set aside").permutation(rows)[: max(1, len(rows) // 10)]
    kept = np.setdiff1d(rows, aside) if len(rows) > 1 else rows
    return _Watch(rows=kept, inputs=inputs[aside], targets=lesson.targets[aside])


def mean_cross_entropy(wanted: ItemProbs, probs: ItemProbs) -> float:
    """Returns the mean over the items of -sum over classes of wanted * log probs, in nats."""
    return float(-(wanted * floored_log(probs)).sum(axis=1).mean())


def watched_of(data: TrainingData) -> tuple[Items, ItemProbs] | None:
    """Returns the annotated dev items and their label distributions; None where there are none with features."""
    if data.validation is None or data.validation.items.features is None:
        return None
    labelled = np.flatnonzero(data.validation.annotations.labels_per_item > 0)
    if not len(labelled):
        return None
    return data.validation.items.take(labelled), data.validation.annotations.label_distribution()[labelled]


WATCHED_SPACE: Mapping[str, Any] = {
    "hidden": {"values": [[64], [128], [256], [256, 64]]},
    "learning_rate": {"values": [3e-4, 1e-3, 3e-3]},
    "dropout": {"values": [0.0, 0.25, 0.5]},
}


@final
@dataclass(frozen=True, kw_only=True)
class WatchedTraining:
    """Hyper-parameters of a classifier whose best epoch is chosen on items that are not trained on.

    Attributes:
        classifier: what is trained.
        epochs: the most passes over the items.
        patience: stop after so many epochs without a better loss on dev items (a tenth of the training items where
            there are none); null trains all epochs and keeps the last.
    """

    classifier: Classifier = Classifier(network=Dense(hidden=(256,)))
    epochs: Annotated[int, Ge(1)] = 100
    patience: Annotated[int, Ge(1)] | None = 10

    @property
    def schedule(self) -> Schedule:
        return Schedule(epochs=self.epochs, patience=self.patience)


def schedule_of(epochs: int, protocol: TrainingProtocol) -> Schedule:
    """Returns the schedule of a model with a protocol: `paper` may stop early, `equal_budget` trains all epochs."""
    return Schedule(epochs=epochs, least_improvement=PAPER_IMPROVEMENT if protocol == "paper" else None)
