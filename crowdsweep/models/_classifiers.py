"""Many small classifiers of one shape in training, an epoch at a time: for models whose targets change in between."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, final, runtime_checkable

import numpy as np
import torch

from crowdsweep.arrays import ItemFeatures, ItemProbs
from crowdsweep.data.dataset import Items
from crowdsweep.errors import FitFailed
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.linear import linear
from crowdsweep.models.networks.mlp import mlp
from crowdsweep.models.networks.replicas import (
    Adam,
    DropoutMasks,
    Minibatch,
    ReplicaStack,
    Shuffler,
    take_rows,
)
from crowdsweep.seeds import SeedStream

NetworkKind = Literal["linear", "mlp"]
Protocols = Literal["paper", "equal_budget"]

# Features and dropout masks are laid out for some steps at a time: few enough to stay small, enough to share dispatch.
_BLOCK_FLOATS = 1 << 24
_BLOCK_STEPS = 16


@runtime_checkable
class ClassifierSettings(Protocol):
    """The hyper-parameters that every model with a classifier of ours has."""

    @property
    def network(self) -> NetworkKind: ...
    @property
    def hidden(self) -> tuple[int, ...]: ...
    @property
    def dropout(self) -> float: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def batch_size(self) -> int: ...


def build_network(settings: ClassifierSettings, n_features: int, n_classes: int) -> DenseNetwork:
    """Returns the network that the hyper-parameters name; `hidden` and `dropout` say nothing to a linear one."""
    if settings.network == "linear":
        return linear(n_features, n_classes)
    return mlp(n_features, n_classes, hidden=settings.hidden, dropout=settings.dropout)


def features_of(items: Items) -> ItemFeatures:
    """Returns the features of these items.

    Raises:
        FitFailed: they have none; the sweep's validator says so earlier and better.
    """
    if items.features is None:
        raise FitFailed("expected items with features, got none: choose `features` of the dataset, or another model")
    return items.features


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkPredictor:
    """One trained classifier: labels items from their features."""

    network: DenseNetwork
    values: Mapping[str, np.ndarray]
    device: str = "cpu"

    @property
    def uses(self) -> tuple[str, ...]:
        return ("classifier",)

    def predict(self, items: Items, use: str) -> ItemProbs:  # noqa: ARG002 - there is one use
        """Returns the classifier's probabilities, float64 [items, classes]."""
        return self.network.predict(self.values, features_of(items), self.device)


@final
class StackedClassifiers:
    """S classifiers of one shape in training, each on its own rows of its own data.

    Replicas keep the numbers that they came with, also after others have been dropped.
    """

    def __init__(
        self,
        network: DenseNetwork,
        *,
        features: Sequence[np.ndarray],
        rows: Sequence[np.ndarray],
        seeds: Sequence[SeedStream],
        adam: Adam,
        batch_size: int,
        device: str = "cpu",
    ) -> None:
        """Draws the initial weights.

        Args:
            network: the shape of all.
            features: float32 [items, features] for each replica; equal arrays are held once.
            rows: int64 [rows], the items that each replica trains on.
            seeds: a stream for each replica.
            adam: the optimiser.
            batch_size: items in a step.
            device: where everything is held.
        """
        self.network, self._adam, self._batch_size, self._device = network, adam, batch_size, device
        self._order = Shuffler.by_steps([len(part) for part in rows], batch_size)
        ordered = [seeds[s] for s in self._order]
        self._stack = ReplicaStack.start(network.parameters(), ordered, device)
        self._shuffler = Shuffler([rows[s] for s in self._order], ordered, batch_size, device)
        dropping = network.hidden if network.dropout > 0 else ()
        self._dropout = [DropoutMasks(ordered, network.dropout, device, f"dropout {i}") for i in range(len(dropping))]
        self._tables, self._table_of = _distinct(features, device)
        offsets = np.cumsum([0, *(len(table) for table in self._tables)])
        self._table = self._tables[0] if len(self._tables) == 1 else torch.cat(self._tables)
        self._tables = [self._table[a:b] for a, b in pairwise(offsets)]
        self._offset_of = [int(offsets[table]) for table in self._table_of]

    @property
    def active(self) -> list[int]:
        """The replicas that have not been dropped, ascending."""
        return sorted(self._order)

    def drop(self, replicas: Sequence[int]) -> None:
        """Takes these replicas out: they cost nothing and never change again."""
        gone = set(replicas)
        if not gone:
            return
        kept = [place for place, replica in enumerate(self._order) if replica not in gone]
        self._order = [self._order[place] for place in kept]
        self._stack.keep(kept)
        self._shuffler.keep(kept)
        for masks in self._dropout:
            masks.keep(kept)

    @torch.no_grad()
    def run_epoch(self, targets: torch.Tensor) -> dict[int, float]:
        """Steps every active replica once through its rows, in a fresh order.

        Args:
            targets: float32 [all S replicas, items, classes]; items that a replica lacks are padding. A row's sum is
                its weight.

        Returns:
            For each active replica the mean cross-entropy over its rows, as it was when each was stepped on (with
            dropout), divided by the mean weight.
        """
        if not self._order:
            return {}
        replicas = torch.tensor(self._order, device=self._device)
        flat_targets = targets.flatten(0, 1)
        target_start = (replicas * targets.shape[1])[:, None]
        table_start = torch.tensor([self._offset_of[s] for s in self._order], device=self._device)[:, None]
        losses = torch.zeros(2, len(self._order), dtype=torch.float64, device=self._device)
        for block in self._blocks(self._shuffler.epoch()):
            n_replicas = block[0].n_replicas
            order = torch.stack([batch.rows for batch in block])
            features = take_rows(self._table, order + table_start[:n_replicas])
            wanted = take_rows(flat_targets, order + target_start[:n_replicas]).transpose(2, 3).contiguous()
            if block[-1].mask is not None:
                wanted[-1].mul_(block[-1].mask[:, None, :])
            losses[1, :n_replicas] += wanted.sum(dim=(0, 2, 3))
            sizes = torch.stack([batch.sizes for batch in block])[:, :, None, None]
            shares = wanted / sizes
            totals = shares.sum(dim=2, keepdim=True)
            masks = [
                dropped.draw(len(block), (self._batch_size, width), n_replicas)
                for dropped, width in zip(self._dropout, self.network.hidden, strict=False)
            ]
            probs = torch.empty_like(wanted)
            view = self._stack.prefix(n_replicas)
            for step in range(len(block)):
                probs[step] = self.network.gradients(
                    view, features[step], shares[step], totals[step], [mask[step].to(torch.float32) for mask in masks]
                )
                self._adam.step(self._stack, n_replicas)
            losses[0, :n_replicas] -= (wanted * probs.clamp_(min=1e-30).log_()).sum(dim=(0, 2, 3))
        means = losses[0] / losses[1].clamp(min=1e-300)
        return dict(zip(self._order, means.tolist(), strict=True))

    def _blocks(self, batches: Sequence[Minibatch]) -> list[list[Minibatch]]:
        """Groups steps that the same replicas take; one with padding ends a group."""
        floats = len(self._order) * self._batch_size * max(self.network.widths)
        limit = max(1, min(_BLOCK_FLOATS // floats, _BLOCK_STEPS))
        blocks: list[list[Minibatch]] = []
        for batch in batches:
            last = blocks[-1] if blocks else None
            if (
                last is None
                or len(last) == limit
                or last[-1].mask is not None
                or last[-1].n_replicas != batch.n_replicas
            ):
                blocks.append([batch])
            else:
                last.append(batch)
        return blocks

    @torch.no_grad()
    def probabilities(self, n_items: int | None = None) -> torch.Tensor:
        """Returns float64 [active, items, classes], active replicas ascending, for all their items.

        Args:
            n_items: length of the item axis (default: the longest); replicas with fewer items get uniform rows.
        """
        active = self.active
        n_items = n_items or max((len(self._tables[self._table_of[s]]) for s in active), default=0)
        found = torch.full(
            (len(active), n_items, self.network.n_classes),
            1.0 / self.network.n_classes,
            dtype=torch.float64,
            device=self._device,
        )
        place = {replica: place for place, replica in enumerate(self._order)}
        for number, table in enumerate(self._tables):
            members = [i for i, s in enumerate(active) if self._table_of[s] == number]
            if not members:
                continue
            places = [place[active[i]] for i in members]
            found[members, : len(table)] = self.network.probabilities(self._values(places), table[None])
        return found

    def _values(self, places: Sequence[int]) -> dict[str, torch.Tensor]:
        values = self._stack.prefix(len(self._stack)).values
        if list(places) == list(range(len(self._stack))):
            return dict(values)
        return {name: array[list(places)] for name, array in values.items()}

    def predictor(self, replica: int) -> NetworkPredictor:
        """Returns a copy of an active replica as it is now."""
        values = self._stack.values_of(self._order.index(replica))
        return NetworkPredictor(network=self.network, values=values, device=self._device)


def _distinct(features: Sequence[np.ndarray], device: str) -> tuple[list[torch.Tensor], list[int]]:
    """Returns each feature array once, and for each replica which one is its; equal arrays are one."""
    arrays: list[np.ndarray] = []
    numbers: list[int] = []
    for array in features:
        known = (n for n, other in enumerate(arrays) if other is array or np.array_equal(other, array))
        number = next(known, len(arrays))
        if number == len(arrays):
            arrays.append(array)
        numbers.append(number)
    return [_as_tensor(array, device) for array in arrays], numbers


def _as_tensor(array: np.ndarray, device: str) -> torch.Tensor:
    if device != "cpu" or not array.flags.writeable:
        array = np.array(array, np.float32)  # torch warns of arrays that it could not write to
    return torch.from_numpy(np.asarray(array, np.float32)).to(device)
