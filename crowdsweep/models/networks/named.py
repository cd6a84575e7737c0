"""A network that is trained beside others: its parameters and dropout masks carry its name."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from jaxtyping import Float

from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Masks, WrappedNetwork
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs
from crowdsweep.models.networks.values import Values


@final
@dataclass(frozen=True, kw_only=True)
class NamedNetwork(WrappedNetwork):
    """One of several networks that are trained together, whose values are one mapping."""

    name: str

    @property
    def dropouts(self) -> Sequence[Dropout]:
        return [replace(dropout, name=f"{self.name} {dropout.name}") for dropout in self.network.dropouts]

    def parameters(self) -> list[Parameter]:
        """Returns the network's parameters, `w0` of the network `easiness` as `easiness w0`."""
        return [replace(parameter, name=f"{self.name} {parameter.name}") for parameter in self.network.parameters()]

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        own = None if masks is None else _NamedMasks(self.name, masks)
        return self.network.logits(values.part(self.name), inputs, own)

    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        return self.network.probabilities(values.part(self.name), inputs)


@dataclass(frozen=True)
class _NamedMasks:
    name: str
    masks: Masks

    def kept(self, name: str) -> Float[torch.Tensor, "replicas rows *shape"]:
        return self.masks.kept(f"{self.name} {name}")
