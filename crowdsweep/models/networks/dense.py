"""Layers of units with softmax at the end: linear and mlp.

Autograd costs more than the arithmetic of a 16-unit network, so the gradients of a cross-entropy are written out as
well: the same mathematics in a third of the calls.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast, final

from annotated_types import Ge, Lt
from jaxtyping import Float

from crowdsweep.arrays import ItemFeatures
from crowdsweep.data.dataset import Items
from crowdsweep.models.contract import Need
from crowdsweep.models.lazy_torch import torch, without_gradients
from crowdsweep.models.networks.contract import Masks, features_of
from crowdsweep.models.networks.initial import glorot_uniform, zeros
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.streams import Dropout
from crowdsweep.models.networks.tensors import Inputs, Logits, Probs, StackedValues, products, softmax
from crowdsweep.models.networks.values import Values

Units = Float[torch.Tensor, "replicas batch _"]  # of one layer, whose width is its own
ClassRows = Float[torch.Tensor, "replicas classes batch"]

_WRITTEN_IN_PLACE = 1 << 12  # weights from which one product per replica, in place, beats one for all and a copy
_PREDICTED_FLOATS = 1 << 19  # hidden units held at once when predicting: 2 MB, which a cache holds


@final
@dataclass(frozen=True, kw_only=True)
class Dense:
    """Hyper-parameters of networks of layers of units: `linear` (softmax regression) and `mlp`.

    Attributes:
        network: `linear` has no hidden layers; the two others count for `mlp` alone.
        hidden: widths of the hidden layers.
        dropout: share of hidden units dropped in training.
    """

    network: Literal["linear", "mlp"] = "mlp"
    hidden: tuple[Annotated[int, Ge(1)], ...] = (128,)
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.5

    @property
    def linear(self) -> bool:
        """Whether it has no hidden units, by its name or by its widths."""
        return self.network == "linear" or not self.hidden

    def needs(self) -> frozenset[Need]:
        return frozenset({"features"})

    def build(self, items: Items, n_classes: int) -> "DenseNetwork":
        """Returns the network on these items' features."""
        n_features = features_of(items).shape[1]
        if self.linear:
            return DenseNetwork(widths=(n_features, n_classes))
        return DenseNetwork(widths=(n_features, *self.hidden, n_classes), dropout=self.dropout)


@final
@dataclass(frozen=True, kw_only=True)
class DenseNetwork:
    """Linear layers with ReLU and dropout between them, and softmax at the end.

    Attributes:
        widths: features, hidden widths, classes: at least the first and the last.
        dropout: probability that a hidden unit is dropped in training, in [0, 1).
    """

    widths: tuple[int, ...]
    dropout: float = 0.0

    @property
    def n_classes(self) -> int:
        return self.widths[-1]

    @property
    def hidden(self) -> tuple[int, ...]:
        return self.widths[1:-1]

    @property
    def n_layers(self) -> int:
        return len(self.widths) - 1

    @property
    def dropouts(self) -> list[Dropout]:
        """A mask on each hidden layer."""
        if not self.dropout:
            return []
        return [
            Dropout(name=f"dropout {layer}", shape=(width,), probability=self.dropout)
            for layer, width in enumerate(self.hidden)
        ]

    @property
    def row_size(self) -> int:
        return max(self.widths)

    def inputs(self, items: Items) -> ItemFeatures:
        """Returns the items' features."""
        return features_of(items)

    def layout(self, items: Items) -> None:
        """Returns None: a row is an item."""

    def parameters(self) -> list[Parameter]:
        """Weights `w0`, `w1`, … (Glorot uniform) and biases `b0`, … (zero), for each layer [in, out] and [1, out]."""
        found: list[Parameter] = []
        for layer, (inner, outer) in enumerate(zip(self.widths[:-1], self.widths[1:], strict=True)):
            found.append(Parameter(name=f"w{layer}", shape=(inner, outer), start=glorot_uniform))
            found.append(Parameter(name=f"b{layer}", shape=(1, outer), start=zeros))
        return found

    def logits(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        """Returns logits; in a step, autograd has the parameters' gradients from `backward`."""
        if values.step is None or inputs.requires_grad:
            return self.followed(values, inputs, masks)
        kept = [] if masks is None else [masks.kept(dropout.name) for dropout in self.dropouts]
        names = [parameter.name for parameter in self.parameters()]
        from crowdsweep.models.networks.written_gradients import DenseLogits  # noqa: PLC0415 - it imports torch

        return cast(torch.Tensor, DenseLogits.apply(self, inputs, kept, names, *(values[name] for name in names)))

    def followed(self, values: Values, inputs: Inputs, masks: Masks | None) -> Logits:
        """Returns logits that autograd follows from the first layer on."""
        signal = inputs
        for layer in range(self.n_layers):
            weights = values[f"w{layer}"]
            signal = products(signal.expand(len(weights), -1, -1), weights, bias=values[f"b{layer}"])
            if layer < self.n_layers - 1:
                signal = torch.relu(signal)
                if masks is not None and self.dropout:
                    signal = signal * (masks.kept(f"dropout {layer}") / (1.0 - self.dropout))
        return signal.transpose(1, 2)

    def write_gradients(
        self,
        values: Values,
        features: Units,
        targets: ClassRows,
        totals: Float[torch.Tensor, "replicas 1 batch"],
        masks: Sequence[Units] = (),
    ) -> ClassRows:
        """Writes the gradients of each replica's cross-entropy -sum targets * log softmax; returns the probabilities.

        Targets need not sum to one over the classes: an item's sum is its weight (divided by the size of the batch,
        usually), and an item of zeros takes no part. Classes stand before items, so that softmax runs along memory.

        Args:
            targets: not negative.
            totals: the targets summed over the classes.
            masks: of each hidden layer, of 0 and 1; empty without dropout.
        """
        inputs, logits = self.forward(values, features, masks)
        probs = torch.softmax(logits, dim=1)
        self.backward(values, inputs, torch.mul(probs, totals).sub_(targets), values.gradient, dropped=bool(masks))
        return probs

    def backward(
        self,
        values: StackedValues,
        inputs: Sequence[Units],
        slope: ClassRows,
        gradient: Callable[[str], torch.Tensor],
        *,
        dropped: bool,
    ) -> None:
        """Writes the gradients of any loss, from its slope in the logits.

        Args:
            inputs: of each layer, as `forward` returned them.
            slope: derivatives of each replica's loss by its logits.
            gradient: returns where the gradient of a parameter goes.
            dropped: whether `forward` was given masks.
        """
        scale, last = 1.0 / (1.0 - self.dropout), self.n_layers - 1
        torch.sum(slope, dim=2, out=gradient(f"b{last}")[:, 0])
        if dropped and last:
            slope = slope * scale
        gradient(f"w{last}").copy_(products(slope, inputs[last]).transpose(1, 2))
        slope = slope.transpose(1, 2)
        for layer in range(last - 1, -1, -1):
            slope = products(slope, values[f"w{layer + 1}"].transpose(1, 2))
            slope = torch.ops.aten.threshold_backward(slope, inputs[layer + 1], 0)
            torch.sum(slope, dim=1, keepdim=True, out=gradient(f"b{layer}"))
            if dropped and layer:
                slope = slope * scale
            before, written = inputs[layer].transpose(1, 2), gradient(f"w{layer}")
            if written[0].numel() < _WRITTEN_IN_PLACE:
                written.copy_(products(before, slope))
            else:
                torch.bmm(before, slope, out=written)

    def forward(
        self, values: StackedValues, features: Units, masks: Sequence[Units] = ()
    ) -> tuple[list[Units], ClassRows]:
        """Returns what goes into each layer, and logits.

        Under `torch.no_grad` only: units are made and dropped in place.
        """
        # Units that are kept are divided by their share within the next product (`scale`), at no pass over them.
        scale = 1.0 / (1.0 - self.dropout) if masks else 1.0
        inputs, signal = [features], features
        last = self.n_layers - 1
        for layer in range(last):
            bias, weights = values[f"b{layer}"], values[f"w{layer}"]
            signal = products(signal, weights, bias=bias, scale=scale if layer else 1.0).relu_()
            if masks:
                signal = signal.mul_(masks[layer])
            inputs.append(signal)
        bias, weights = values[f"b{last}"].transpose(1, 2), values[f"w{last}"].transpose(1, 2)
        # Of few classes the product of two transposed matrices takes several times as long as a copy of the weights.
        return inputs, products(
            weights.clone(memory_format=torch.contiguous_format),
            signal.transpose(1, 2),
            bias=bias,
            scale=scale if last else 1.0,
        )

    @without_gradients
    def probabilities(self, values: Values, inputs: Inputs) -> Probs:
        """Returns probabilities, rows summing to one, block by block of rows."""
        n_replicas = len(values["w0"])
        block = max(256, _PREDICTED_FLOATS // (n_replicas * max(self.widths)))
        shape = (n_replicas, inputs.shape[1], self.n_classes)
        found = torch.empty(shape, dtype=torch.float64, device=inputs.device)
        for start in range(0, inputs.shape[1], block):
            rows = inputs[:, start : start + block].expand(n_replicas, -1, -1)
            logits = self.forward(values, rows)[1].to(torch.float64)
            found[:, start : start + block] = softmax(logits, dim=1).transpose(1, 2)
        return found
