"""What a network is: parameters, and a function of them that is written for many replicas at once."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Shaped

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.dataset import Items
from crowdsweep.errors import FitFailed
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs
from crowdsweep.models.networks.values import Values


@runtime_checkable
class Masks(Protocol):
    """Where a network finds its dropout masks in training: a `Batch`."""

    def kept(self, name: str) -> Float[torch.Tensor, "replicas rows *shape"]:
        """Returns 1 for a unit that stays, 0 for one that is dropped."""
        ...


@runtime_checkable
class Network(Protocol):
    """A classifier's shape; what it has learnt is in `values`. No operation mixes replicas.

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
        """Returns what the network reads of these items.

        Raises:
            FitFailed: they lack it.
        """
        ...

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        """Returns logits that autograd can follow; without masks nothing is dropped.

        Classes stand before rows, so that a softmax over them runs along memory.

        Args:
            values: parameters.
            inputs: what `inputs` gave; a first axis of 1 is shared by all replicas.
            masks: of dropout.
        """
        ...

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        """Returns probabilities, rows summing to one; in blocks that bound memory."""
        ...


def features_of(items: Items) -> ItemFeatures:
    """Returns the features of these items.

    Raises:
        FitFailed: they have none; the sweep's validator says so earlier and better.
    """
    if items.features is None:
        raise FitFailed("expected items with features, got none: choose `features` of the dataset, or another model")
    return items.features
