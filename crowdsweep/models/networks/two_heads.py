"""Two heads on one trunk: two classifiers that share everything but their last layer.

A network with twice as many outputs is both: the first half of its outputs is one head's, the second the other's, and
all that lies before the last layer they share.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float, Shaped

from crowdsweep.data.dataset import Items
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Layout, Masks, Network
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs
from crowdsweep.models.networks.values import Values

HeadLogits = Float[torch.Tensor, "replicas classes columns"]


@final
@dataclass(frozen=True, kw_only=True)
class TwoHeads:
    """A network whose outputs are those of two heads, one after the other.

    Attributes:
        network: with 2 K outputs.
    """

    network: Network

    @property
    def n_classes(self) -> int:
        """Returns 2 K."""
        return self.network.n_classes

    @property
    def dropouts(self) -> Sequence[Dropout]:
        return self.network.dropouts

    @property
    def row_size(self) -> int:
        return self.network.row_size

    def parameters(self) -> list[Parameter]:
        """Returns the network's."""
        return self.network.parameters()

    def inputs(self, items: Items) -> Shaped[np.ndarray, " items *shape"]:
        """Returns what the network reads."""
        return self.network.inputs(items)

    def layout(self, items: Items) -> Layout | None:
        """See `Network.layout`."""
        return self.network.layout(items)

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        """Returns the logits of both heads; `split` parts them."""
        return self.network.logits(values, inputs, masks)

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        """Returns the probabilities of both heads, each summing to one."""
        both = self.network.probabilities(values, inputs).unflatten(2, (2, -1))
        return (both / both.sum(dim=3, keepdim=True).clamp(min=1e-300)).flatten(2)


def split(both: Float[torch.Tensor, "replicas outputs columns"]) -> tuple[HeadLogits, HeadLogits]:
    """Returns what is of the first head and what of the second."""
    half = both.shape[1] // 2
    return both[:, :half], both[:, half:]
