"""Two heads on one trunk: two classifiers that share everything but their last layer.

A network with twice as many outputs is both: the first half of its outputs is one head's, the second the other's, and
all layers before the last are shared.
"""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float

from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import WrappedNetwork
from crowdsweep.models.networks.tensors import Inputs, Probs
from crowdsweep.models.networks.values import Values

HeadLogits = Float[torch.Tensor, "replicas classes columns"]


@final
@dataclass(frozen=True, kw_only=True)
class TwoHeads(WrappedNetwork):
    """A network with 2 K outputs, those of the first head before those of the second; `n_classes` is 2 K."""

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        """Returns the probabilities of both heads, each summing to one."""
        both = self.network.probabilities(values, inputs).unflatten(2, (2, -1))
        return (both / both.sum(dim=3, keepdim=True).clamp(min=1e-300)).flatten(2)


def split(both: Float[torch.Tensor, "replicas outputs columns"]) -> tuple[HeadLogits, HeadLogits]:
    """Returns the outputs of the first head and those of the second."""
    half = both.shape[1] // 2
    return both[:, :half], both[:, half:]
