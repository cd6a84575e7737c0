"""The contract of a network: parameters, and a function of them that is written for many replicas at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64, Shaped

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.dataset import Items
from crowdsweep.errors import FitFailed
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs
from crowdsweep.models.networks.values import Values

Layout = Int64[np.ndarray, "rows places"]

_HELD_NUMBERS = 1 << 22  # at once when predicting


@runtime_checkable
class Masks(Protocol):
    """Where a network finds its dropout masks in training: a `Batch`."""

    def kept(self, name: str) -> Float[torch.Tensor, "replicas rows *shape"]:
        """Returns 1 for a unit that stays, 0 for one that is dropped."""
        ...


@runtime_checkable
class Network(Protocol):
    """A classifier's architecture; its parameters are in `values`. No operation mixes replicas.

    Attributes:
        n_classes: K.
        dropouts: where units are dropped in training.
        row_size: roughly how many numbers a step holds for one row.
    """

    @property
    def n_classes(self) -> int: ...
    @property
    def dropouts(self) -> Sequence[Dropout]: ...
    @property
    def row_size(self) -> int: ...

    def parameters(self) -> list[Parameter]:
        """Returns what one replica's parameters are."""
        ...

    def inputs(self, items: Items) -> Shaped[np.ndarray, " items *shape"]:
        """Returns what the network reads of these items, row by row; see `layout`.

        Raises:
            FitFailed: they lack it.
        """
        ...

    def layout(self, items: Items) -> Layout | None:
        """Returns which item stands at each place of each row that the network reads, -1 where none does: a row is a
        unit of items. None where a row is an item."""
        ...

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        """Returns logits that autograd can follow; without masks nothing is dropped.

        Classes stand before rows, so that a softmax over them runs along memory.

        Args:
            inputs: what `inputs` gave; a first axis of 1 is shared by all replicas.

        Returns:
            A column for each row; where rows are units, for each of their places, row after row.
        """
        ...

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        """Returns probabilities, rows summing to one; in blocks that bound memory."""
        ...


@dataclass(frozen=True, kw_only=True)
class WrappedNetwork:
    """A `Network` that does what another one does; a subclass overrides what differs."""

    network: Network

    @property
    def n_classes(self) -> int:
        return self.network.n_classes

    @property
    def dropouts(self) -> Sequence[Dropout]:
        return self.network.dropouts

    @property
    def row_size(self) -> int:
        return self.network.row_size

    def parameters(self) -> list[Parameter]:
        return self.network.parameters()

    def inputs(self, items: Items) -> Shaped[np.ndarray, " items *shape"]:
        return self.network.inputs(items)

    def layout(self, items: Items) -> Layout | None:
        return self.network.layout(items)

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        return self.network.logits(values, inputs, masks)

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        return self.network.probabilities(values, inputs)


def features_of(items: Items) -> ItemFeatures:
    """Returns the features of these items.

    Raises:
        FitFailed: they have none; the sweep's validator says so earlier and better.
    """
    if items.features is None:
        raise FitFailed("expected items with features, got none: choose `features` of the dataset, or another model")
    return items.features


@without_gradients
def in_blocks(network: Network, values: Values, inputs: Inputs) -> Probs:
    """Returns the softmax of a network's logits, block by block of rows."""
    n_replicas = len(next(iter(values.values())))
    size = max(16, _HELD_NUMBERS // (n_replicas * network.row_size))
    found: list[torch.Tensor] = []
    for start in range(0, max(1, inputs.shape[1]), size):
        rows = inputs[:, start : start + size]
        logits = network.logits(values, rows.expand(n_replicas, *rows.shape[1:]), None).to(torch.float64)
        found.append(torch.softmax(logits, dim=1).transpose(1, 2))
    return torch.cat(found, dim=1)


def places_of(layout: Layout) -> tuple[Int64[np.ndarray, " items"], Int64[np.ndarray, " items"]]:
    """Returns the items of a layout, and the place of each, counted row after row."""
    places = np.flatnonzero(layout.ravel() >= 0)
    return layout.ravel()[places], places
