"""The classifier that most models hold: its settings, its replicas in training, and what labels unseen items.

`Classifier` is a part of a model's hyper-parameters (`registry.parameters` writes it flat). `ClassifierReplicas` are
many classifiers of one shape in training on soft targets, which may change from one epoch to the next, as EM does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, final, runtime_checkable

import numpy as np
import torch
from annotated_types import Ge, Gt
from jaxtyping import Float64, Int64, Shaped

from crowdsweep.arrays import ItemProbs, floored_log
from crowdsweep.data.annotations import Annotations
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._batches import StackedRows
from crowdsweep.models._soft_targets import Lessons, LossOf, Targets, soft_targets_loss
from crowdsweep.models.contract import Need, Report
from crowdsweep.models.networks.contract import Layout, Network, places_of
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.replicas import Adam, count_parameters, replica_chunks
from crowdsweep.models.networks.tagger import Tagger
from crowdsweep.models.networks.tensors import ReplicaValues
from crowdsweep.models.networks.text_cnn import TextCNN
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import Course, ReplicaTrainer, Schedule, train
from crowdsweep.registry.parameters import Variants
from crowdsweep.seeds import SeedStream

TrainingProtocol = Literal["paper", "equal_budget"]

PAPER_IMPROVEMENT = 0.03  # the paper protocol's stop rule: the training loss must fall by more than this share


@runtime_checkable
class NetworkSettings(Protocol):
    """The hyper-parameters of a network, `network: its name` among them."""

    def needs(self) -> frozenset[Need]:
        """Returns what it reads of items."""
        ...

    def build(self, items: Items, n_classes: int) -> Network:
        """Returns the network that reads these items.

        Raises:
            FitFailed: the items lack what it reads.
        """
        ...


def known_networks() -> dict[str, type[NetworkSettings]]:
    """Returns the settings of each network that `network` may name."""
    return {"linear": Dense, "mlp": Dense, "text_cnn": TextCNN, "tagger": Tagger}


def can_read(needs: frozenset[Need], items: Items) -> bool:
    """Whether items have what a network needs (`NetworkSettings.needs`)."""
    there = {"features": items.features is not None, "text": items.text is not None}
    return all(there.get(need, True) for need in needs)


@final
@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Hyper-parameters of a classifier.

    Attributes:
        network: what it is.
        learning_rate: of Adam.
        batch_size: items in a step; of a network that reads sentences, sentences.
    """

    network: Annotated[NetworkSettings, Variants(known_networks)] = Dense()
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64

    def build(self, data: TrainingData, *, sentences: bool = False, n_outputs: int | None = None) -> Network:
        """Returns the network for data of these sizes.

        Args:
            data: whose items it reads.
            sentences: whether the model can train one whose rows are sentences (`Network.layout`).
            n_outputs: how many outputs it has; None: one a class.

        Raises:
            FitFailed: the items lack what it reads, or its rows are sentences and the model cannot train it.
        """
        network = self.network.build(data.items, data.n_classes if n_outputs is None else n_outputs)
        if not sentences and network.layout(data.items.take(np.arange(min(1, data.n_items)))) is not None:
            raise FitFailed(
                "expected a network that reads items one by one, got one that reads whole sentences, which this model "
                "cannot train; choose another `network`, or another model"
            )
        return network


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
        found = self.network.probabilities(*self._stacked(self.network.inputs(items)))[0].cpu().numpy()
        layout = self.network.layout(items)
        if layout is None:
            return found
        item, place = places_of(layout)
        probs = np.empty((items.n_items, found.shape[1]))
        probs[item] = found[place]
        return probs

    @torch.no_grad()
    def logits(self, items: Items) -> Float64[np.ndarray, "classes items"]:
        """Returns what the network, whose rows are items, gives before softmax."""
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
        layouts: Sequence[Layout | None] = (),
        loss_of: LossOf = soft_targets_loss,
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
            layouts: of each replica's items (`Network.layout`); of a network whose rows are items they may be left out.
            loss_of: makes what is made smaller.
            device: where everything is held.
        """
        self.network, self._device = network, device
        self._lengths = list(map(len, inputs))
        self._inputs = StackedRows.of(inputs, device)
        self._layouts = [layout for layout in layouts if layout is not None]
        self.targets = targets
        layout = StackedRows.of(self._layouts, device) if self._layouts else None
        self.loss = loss_of(network, Lessons.of(self._inputs, targets, layout))
        if self._layouts:
            rows = [
                np.flatnonzero(np.isin(own, part).any(axis=1)) for own, part in zip(self._layouts, rows, strict=True)
            ]
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
            probs = self.network.probabilities(Values(values), self._inputs.of_replica(replica, length)[None])
            if self._layouts:
                item, column = map(torch.from_numpy, places_of(self._layouts[replica]))
                found[torch.tensor(places)[:, None], item] = probs[:, column]
            else:
                found[places, :length] = probs
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
        dev_targets: makes targets of dev items of their annotations, for patience to watch.
    """

    data: TrainingData
    targets: ItemProbs
    seeds: SeedStream
    report: Report
    dev_targets: Callable[[Annotations], ItemProbs] = Annotations.label_distribution


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
    *,
    network: Network | None = None,
    loss_of: LossOf = soft_targets_loss,
) -> list[TrainedClassifier]:
    """Trains one classifier for each lesson, as many at a time as the machine's cache holds.

    Patience watches the annotated dev items, or a tenth of a lesson's own (of its units), drawn from its seeds and set
    aside.

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
    trained: list[TrainedClassifier] = []
    for part in replica_chunks(len(lessons), count_parameters(network.parameters()), device):
        trained += _train_together(classifier, network, lessons[part], schedule, device, loss_of)
    return trained


def _train_together(
    classifier: Classifier,
    network: Network,
    lessons: Sequence[Lesson],
    schedule: Schedule,
    device: str,
    loss_of: LossOf,
) -> list[TrainedClassifier]:
    watches = [_watch(lesson, classifier.network, schedule) for lesson in lessons]
    targets = np.zeros((len(lessons), max(lesson.data.n_items for lesson in lessons), network.n_classes), np.float32)
    for row, lesson in zip(targets, lessons, strict=True):
        row[: len(lesson.targets)] = lesson.targets
    replicas = ClassifierReplicas(
        classifier,
        network,
        inputs=[network.inputs(lesson.data.items) for lesson in lessons],
        rows=[watch.rows for watch in watches],
        targets=torch.from_numpy(targets).to(device),
        seeds=[lesson.seeds for lesson in lessons],
        layouts=[network.layout(lesson.data.items) for lesson in lessons],
        loss_of=loss_of,
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
            probs=course.end.predict(lesson.data.items, "classifier"),
            losses=np.array(course.losses),
            converged=course.converged,
        )
        for course, lesson in zip(courses, lessons, strict=True)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Watch:
    """The items that a lesson is trained on, and what is watched meanwhile, if anything."""

    rows: Int64[np.ndarray, " rows"]
    watched: tuple[Items, ItemProbs] | None = None

    def loss(self, predictor: NetworkPredictor) -> float | None:
        """Returns the mean cross-entropy on the watched items."""
        if self.watched is None:
            return None
        items, targets = self.watched
        return mean_cross_entropy(targets, predictor.predict(items, "classifier"))


def _watch(lesson: Lesson, network: NetworkSettings, schedule: Schedule) -> _Watch:
    rows = np.flatnonzero(lesson.targets.sum(axis=1) > 0)
    if not len(rows):
        raise FitFailed("expected at least one item with a label to train a classifier on, got none")
    if schedule.patience is None:
        return _Watch(rows=rows)
    if (watched := watched_of(lesson.data, network.needs(), lesson.dev_targets)) is not None:
        return _Watch(rows=rows, watched=watched)
    items = lesson.data.items
    unit = np.arange(items.n_items) if items.unit is None else items.unit
    units = np.unique(unit[rows])
    aside = lesson.seeds.numpy("set aside").permutation(units)[: max(1, len(units) // 10)]
    watching = rows[np.isin(unit[rows], aside)]
    kept = np.setdiff1d(rows, watching) if len(units) > 1 else rows
    return _Watch(rows=kept, watched=(items.take(watching), lesson.targets[watching]))


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
