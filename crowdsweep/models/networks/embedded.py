"""A network that reads a learned vector for each item, in place of features.

It can label the items that it is trained on and no others. All vectors are one parameter, so the optimiser moves every
vector in each step, which costs little beside the network's products up to some hundred thousand items.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int64

from crowdsweep.data.dataset import Items
from crowdsweep.errors import FitFailed
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.automatic import Auto
from crowdsweep.models.networks.contract import Masks, WrappedNetwork
from crowdsweep.models.networks.dense import Dense
from crowdsweep.models.networks.initial import normal
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs
from crowdsweep.models.networks.values import Values

_VECTORS = "item vectors"
READS_VECTORS = Auto(hidden=(16, 16, 16, 16), dropout=0.0)  # of LIA's paper: what reads the vectors by default
VECTOR_SPACE: Mapping[str, Any] = {"item_embedding": {"values": [8, 16, 32]}}  # of the models that learn them


@final
@dataclass(frozen=True, kw_only=True)
class EmbeddedNetwork(WrappedNetwork):
    """A network on vectors, and a vector for each item.

    Attributes:
        n_items: the most items that a data set of one batch has.
        width: of a vector.
    """

    n_items: int
    width: int

    def parameters(self) -> list[Parameter]:
        """Returns the vectors, from N(0, 1), and the network's parameters."""
        vectors = Parameter(name=_VECTORS, shape=(self.n_items, self.width), start=normal(1.0))
        return [vectors, *self.network.parameters()]

    def inputs(self, items: Items) -> Int64[np.ndarray, " items"]:
        """Returns the items' codes: these have to be all items that the network is trained on."""
        return np.arange(items.n_items)

    def layout(self, items: Items) -> None:
        """Returns None: a row is an item."""

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        return self.network.logits(values, self._vectors(values, inputs), masks)

    @without_gradients
    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        return self.network.probabilities(values, self._vectors(values, inputs))

    def _vectors(self, values: Values, inputs: Inputs) -> Float[torch.Tensor, "replicas rows width"]:
        table = values[_VECTORS]
        return table.gather(1, inputs[:, :, None].expand(len(table), -1, self.width))


def embedded_network(settings: object, *, n_outputs: int, n_items: int, width: int) -> EmbeddedNetwork:
    """Returns a network of vectors of this width, and a vector for each item.

    Args:
        settings: of what reads the vectors.
        n_items: how many items there are at most.

    Raises:
        FitFailed: the settings are of a network that reads something else.
    """
    settings = settings.dense if isinstance(settings, Auto) else settings
    if not isinstance(settings, Dense):
        raise FitFailed(
            f"expected `network` linear or mlp, which read a vector of each item, got {type(settings).__name__}; "
            f"choose one of these, or a model that reads texts"
        )
    vectors = Items(n_items=0, features=np.zeros((0, width), np.float32))
    return EmbeddedNetwork(network=settings.build(vectors, n_outputs), n_items=n_items, width=width)
