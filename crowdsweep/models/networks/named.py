"""A network that stands beside others in one stack: its parameters and dropout masks carry its name."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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


@final
@dataclass(frozen=True, kw_only=True)
class Named:
    """One of several networks that are trained together, whose values are one mapping."""

    name: str
    network: Network

    @property
    def n_classes(self) -> int:
        return self.network.n_classes

    @property
    def dropouts(self) -> Sequence[Dropout]:
        return [replace(dropout, name=f"{self.name} {dropout.name}") for dropout in self.network.dropouts]

    @property
    def row_size(self) -> int:
        return self.network.row_size

    def parameters(self) -> list[Parameter]:
        """Returns the network's parameters, `w0` of the network `easiness` as `easiness w0`."""
        return [replace(parameter, name=f"{self.name} {parameter.name}") for parameter in self.network.parameters()]

    def inputs(self, items: Items) -> Shaped[np.ndarray, " items *shape"]:
        """Returns what the network reads."""
        return self.network.inputs(items)

    def layout(self, items: Items) -> Layout | None:
        """See `Network.layout`."""
        return self.network.layout(items)

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        """See `Network.logits`."""
        own = None if masks is None else _NamedMasks(self.name, masks)
        return self.network.logits(values.part(self.name), inputs, own)

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        """See `Network.probabilities`."""
        return self.network.probabilities(values.part(self.name), inputs)


@dataclass(frozen=True)
class _NamedMasks:
    name: str
    masks: Masks

    def kept(self, name: str) -> Float[torch.Tensor, "replicas rows *shape"]:
        return self.masks.kept(f"{self.name} {name}")
