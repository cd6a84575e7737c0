"""The classifier that most models hold: its settings, its replicas in training, and what labels unseen items.

`Classifier` is a part of a model's hyper-parameters (`registry.parameters` writes it flat). `ClassifierReplicas` are
many classifiers of one shape in training on soft targets, which may change from one epoch to the next, as EM does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, Protocol, final, runtime_checkable

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Float64, Int64, Shaped

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models._batches import StackedRows
from crowdsweep.models._soft_targets import LossOf, Targets, TrainingRows, soft_targets_loss
from crowdsweep.models.contract import Need
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.automatic import Auto
from crowdsweep.models.networks.contract import Layout, Network, places_of
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.replicas import Adam
from crowdsweep.models.networks.tagger import Tagger
from crowdsweep.models.networks.tensors import Inputs, ReplicaValues
from crowdsweep.models.networks.text_cnn import TextCNN
from crowdsweep.models.networks.values import Values
from crowdsweep.models.schedule import Schedule
from crowdsweep.models.trainer import ReplicaTrainer, Snapshot
from crowdsweep.models.training_length import STEPS, UNSTOPPED_STEPS
from crowdsweep.registry.parameters import Variants
from crowdsweep.seeds import SeedStream

TrainingProtocol = Literal["until_trained", "paper", "equal_budget"]

_READ_NUMBERS = 1 << 20  # copied at once when predicting
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
    return {"auto": Auto, "linear": Dense, "mlp": Dense, "text_cnn": TextCNN, "tagger": Tagger}


def can_read(needs: frozenset[Need], items: Items) -> bool:
    """Whether items have the inputs that a network needs (`NetworkSettings.needs`)."""
    there = {"features": items.features is not None, "text": items.text is not None}
    return all(there.get(need, True) for need in needs)


@final
@dataclass(frozen=True, kw_only=True)
class Classifier:
    """Hyper-parameters of a classifier.

    Attributes:
        network: kind of network; `auto` chooses by what the items have.
        learning_rate: step size of the optimiser, Adam.
        batch_size: items per step; of a network that reads sentences, sentences.
        standardise: whether features are standardised by the training items; null: yes, but under `protocol: paper`.
        steps: the least number of gradient steps; where all epochs together have fewer, each epoch goes through the
            items several times. null: 2,000, or 500 with hidden units and no early stopping; no least number where
            epochs or iterations are given, or under `protocol: paper` and `equal_budget`.
    """

    network: Annotated[NetworkSettings, Variants(known_networks)] = Auto()
    learning_rate: Annotated[float, Gt(0)] = 1e-3
    batch_size: Annotated[int, Ge(1)] = 64
    standardise: bool | None = None
    steps: Annotated[int, Ge(0)] | None = None

    def network_for(self, items: Items, *, sentences: bool = True) -> NetworkSettings:
        """Returns the settings of the network: of `auto`, those of the one that it chooses for these items.

        Args:
            sentences: whether one that reads whole sentences may be chosen.
        """
        return self.network.on(items, sentences=sentences) if isinstance(self.network, Auto) else self.network

    def least_steps(self, epochs: int) -> float:
        """Returns how many steps each of so many epochs has at least."""
        return (STEPS if self.steps is None else self.steps) / epochs

    def under(self, protocol: TrainingProtocol) -> "Classifier":
        """Returns the settings under a protocol: where epochs count and `steps` is not given, it is 0."""
        return replace(self, steps=0) if protocol != "until_trained" and self.steps is None else self

    def unstopped(self) -> "Classifier":
        """Returns the settings for models without early stopping: unless the network is linear or `steps` is given, it
        is smaller.
        """
        settings = self.network.dense if isinstance(self.network, Auto) else self.network
        linear = isinstance(settings, Dense) and settings.linear
        return replace(self, steps=UNSTOPPED_STEPS) if self.steps is None and not linear else self

    def build(self, data: TrainingData, *, sentences: bool = False, n_outputs: int | None = None) -> Network:
        """Returns the network for data of these sizes.

        Args:
            sentences: whether the model can train one whose rows are sentences (`Network.layout`).
            n_outputs: how many outputs it has; None: one per class.

        Raises:
            FitFailed: the items lack what it reads, or its rows are sentences and the model cannot train it.
        """
        settings = self.network_for(data.items, sentences=sentences)
        network = settings.build(data.items, data.n_classes if n_outputs is None else n_outputs)
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
    uses = ("classifier",)

    def predict(self, items: Items, use: str) -> ItemProbs:  # noqa: ARG002 - there is one use
        found = self.network.probabilities(*self._stacked(self.network.inputs(items)))[0].cpu().numpy()
        layout = self.network.layout(items)
        if layout is None:
            return found
        item, place = places_of(layout)
        probs = np.empty((items.n_items, found.shape[1]))
        probs[item] = found[place]
        return probs

    @without_gradients
    def logits(self, items: Items) -> Float64[np.ndarray, "classes items"]:
        """Returns the logits of a network whose rows are items."""
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
        classifiers: Sequence[Classifier],
        network: Network,
        *,
        inputs: Sequence[Shaped[np.ndarray, " _ *shape"]],
        rows: Sequence[Int64[np.ndarray, " _"]],
        targets: Targets,
        seeds: Sequence[SeedStream],
        epochs: Sequence[int],
        layouts: Sequence[Layout | None] = (),
        loss_of: LossOf = soft_targets_loss,
        device: str = "cpu",
    ) -> None:
        """Draws the initial weights.

        Args:
            classifiers: settings of each, equal but for `learning_rate` and `steps`.
            inputs: what the network reads of each replica's items; equal arrays are held once.
            rows: the items that each replica trains on.
            targets: of as many items as the longest has; those that a replica lacks are padding. They may be changed
                in place between epochs.
            epochs: how many each will have at most.
            layouts: of each replica's items (`Network.layout`); of a network whose rows are items they may be left out.
        """
        self.network, self._device = network, device
        self._lengths = list(map(len, inputs))
        self._inputs = StackedRows.of(inputs, device)
        self._starts: list[int] = self._inputs.starts.tolist()
        self._layouts = [layout for layout in layouts if layout is not None]
        self.targets = targets
        layout = StackedRows.of(self._layouts, device) if self._layouts else None
        self.loss = loss_of(network, TrainingRows.of(self._inputs, targets, layout))
        if self._layouts:
            rows = [
                np.flatnonzero(np.isin(own, part).any(axis=1)) for own, part in zip(self._layouts, rows, strict=True)
            ]
        self.trainer = ReplicaTrainer(
            network.parameters(),
            rows=rows,
            seeds=seeds,
            optimiser=Adam(learning_rate=np.array([own.learning_rate for own in classifiers])),
            batch_size=classifiers[0].batch_size,
            device=device,
            dropout=network.dropouts,
            row_size=network.row_size,
            least_steps=[own.least_steps(most) for own, most in zip(classifiers, epochs, strict=True)],
        )

    @without_gradients
    def probabilities(self) -> Float64[torch.Tensor, "active items classes"]:
        """Returns what active replicas say, ascending; rows that one lacks are uniform."""
        active = self.trainer.active
        shape = (len(active), self.targets.shape[1], self.network.n_classes)
        found = torch.full(shape, 1.0 / shape[2], dtype=torch.float64, device=self._device)
        for places, inputs in self._read_together(active):
            length = inputs.shape[1]
            values = self.trainer.values([active[place] for place in places])
            probs = self.network.probabilities(Values(values), inputs)
            if self._layouts:
                item, column = map(torch.from_numpy, places_of(self._layouts[active[places[0]]]))
                found[torch.tensor(places)[:, None], item] = probs[:, column]
            else:
                found[places, :length] = probs
        return found

    def _read_together(self, active: Sequence[int]) -> Iterator[tuple[list[int], Inputs]]:
        """Yields places of active replicas, and what they read: of those who read the same, it alone; others who read
        equally many rows, each their own, as many as a cache holds."""
        groups: dict[tuple[int, int | None], list[int]] = {}
        starts = [self._starts[replica] for replica in active]
        for place, (replica, start) in enumerate(zip(active, starts, strict=True)):
            shared = bool(self._layouts) or starts.count(start) > 1
            groups.setdefault((self._lengths[replica], start if shared else None), []).append(place)
        table = self._inputs.table
        for (length, start), places in groups.items():
            if start is not None:
                yield places, table[None, start : start + length]
                continue
            many = max(1, _READ_NUMBERS // max(1, length * table[:1].numel()))
            for first in range(0, len(places), many):
                part = places[first : first + many]
                yield part, torch.stack([table[starts[place] : starts[place] + length] for place in part])

    def predictor(self, kept: Snapshot) -> NetworkPredictor:
        """Returns a replica as it was kept."""
        return NetworkPredictor(network=self.network, values=kept.values, device=self._device)


def schedule_of(epochs: int, protocol: TrainingProtocol, patience: int | None) -> Schedule:
    """Returns the schedule of a model with a protocol: `until_trained` has patience, `paper` stops by the training
    loss, `equal_budget` trains all epochs."""
    return Schedule(
        epochs=epochs,
        least_improvement=PAPER_IMPROVEMENT if protocol == "paper" else None,
        patience=patience if protocol == "until_trained" else None,
    )
