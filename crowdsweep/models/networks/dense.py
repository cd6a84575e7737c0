"""Stacked layers of units, with softmax and soft targets: forward and backward written out.

Autograd costs more than the arithmetic of a 16-unit network; this is the same mathematics in a third of the calls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from crowdsweep.models.networks.replicas import Parameter, StackView, glorot_uniform, zeros

_WRITTEN_IN_PLACE = 1 << 12  # weights from which one product a replica, in place, beats all at once and a copy
_PREDICTED_FLOATS = 1 << 22  # hidden units held at once when predicting


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

    def parameters(self) -> list[Parameter]:
        """Weights `w0`, `w1`, … (Glorot uniform) and biases `b0`, … (zero), for each layer [in, out] and [1, out]."""
        found: list[Parameter] = []
        for layer, (inner, outer) in enumerate(zip(self.widths[:-1], self.widths[1:], strict=True)):
            found.append(Parameter(name=f"w{layer}", shape=(inner, outer), start=glorot_uniform))
            found.append(Parameter(name=f"b{layer}", shape=(1, outer), start=zeros))
        return found

    @torch.no_grad()
    def gradients(
        self,
        view: StackView,
        features: torch.Tensor,
        targets: torch.Tensor,
        totals: torch.Tensor,
        masks: Sequence[torch.Tensor] = (),
    ) -> torch.Tensor:
        """Writes the gradients of each replica's cross-entropy -sum targets * log softmax; returns the probabilities.

        Targets need not sum to one over the classes: an item's sum is its weight (divided by the size of the batch,
        usually), and an item of zeros takes no part. Classes stand before items, so that softmax runs along memory.

        Args:
            view: parameters and where their gradients go.
            features: float32 [S, batch, features].
            targets: float32 [S, classes, batch], not negative.
            totals: float32 [S, 1, batch], the targets summed over the classes.
            masks: of each hidden layer, [S, batch, width] of 0 and 1; empty without dropout.

        Returns:
            float32 [S, classes, batch].
        """
        inputs, logits = self.forward(view.values, features, masks)
        probs = torch.softmax(logits, dim=1)
        self.backward(view, inputs, torch.mul(probs, totals).sub_(targets), dropped=bool(masks))
        return probs

    @torch.no_grad()
    def backward(self, view: StackView, inputs: Sequence[torch.Tensor], slope: torch.Tensor, *, dropped: bool) -> None:
        """Writes the gradients of any loss, from its slope in the logits.

        Args:
            view: parameters and where their gradients go.
            inputs: of each layer, as `forward` returned them.
            slope: float32 [S, classes, batch], derivatives of each replica's loss by its logits.
            dropped: whether `forward` was given masks.
        """
        scale = 1.0 / (1.0 - self.dropout) if dropped else 1.0
        nothing = slope[:1, :1, :1]  # what beta = 0 multiplies
        last = self.n_layers - 1
        torch.sum(slope, dim=2, out=view.gradients[f"b{last}"][:, 0])
        # The factor of dropout is the products' alpha: one pass less over the hidden units.
        product = torch.baddbmm(nothing, slope, inputs[last], beta=0, alpha=scale if last else 1.0)
        view.gradients[f"w{last}"].copy_(product.transpose(1, 2))
        slope = slope.transpose(1, 2)
        for layer in range(last - 1, -1, -1):
            units = inputs[layer + 1]
            back = view.values[f"w{layer + 1}"].transpose(1, 2)
            slope = torch.baddbmm(nothing, slope, back, beta=0, alpha=scale)
            slope = torch.ops.aten.threshold_backward(slope, units, 0)
            torch.sum(slope, dim=1, keepdim=True, out=view.gradients[f"b{layer}"])
            before = inputs[layer].transpose(1, 2)
            written, factor = view.gradients[f"w{layer}"], scale if layer else 1.0
            if written[0].numel() < _WRITTEN_IN_PLACE:
                written.copy_(torch.baddbmm(nothing, before, slope, beta=0, alpha=factor))
            else:
                torch.baddbmm(nothing, before, slope, beta=0, alpha=factor, out=written)

    def forward(
        self, values: Mapping[str, torch.Tensor], features: torch.Tensor, masks: Sequence[torch.Tensor] = ()
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """Returns what goes into each layer [S, batch, width], and logits [S, classes, batch].

        Under `torch.no_grad` only: units are made and dropped in place.
        """
        scale = 1.0 / (1.0 - self.dropout) if masks else 1.0
        inputs, signal = [features], features
        last = self.n_layers - 1
        for layer in range(last):
            bias, weights = values[f"b{layer}"], values[f"w{layer}"]
            signal = torch.baddbmm(bias, signal, weights, alpha=scale if layer else 1.0).relu_()
            if masks:
                signal = signal.mul_(masks[layer])
            inputs.append(signal)
        bias, weights = values[f"b{last}"].transpose(1, 2), values[f"w{last}"].transpose(1, 2)
        return inputs, torch.baddbmm(bias, weights, signal.transpose(1, 2), alpha=scale if last else 1.0)

    @torch.no_grad()
    def probabilities(self, values: Mapping[str, torch.Tensor], features: torch.Tensor) -> torch.Tensor:
        """Returns float64 probabilities [S, rows, classes], rows summing to one, block by block of rows.

        Args:
            values: parameters, [S, *shape].
            features: float32 [S or 1, rows, features]; 1 is shared by all replicas.
        """
        n_replicas = len(values["w0"])
        block = max(256, _PREDICTED_FLOATS // (n_replicas * max(self.widths)))
        shape = (n_replicas, features.shape[1], self.n_classes)
        found = torch.empty(shape, dtype=torch.float64, device=features.device)
        for start in range(0, features.shape[1], block):
            rows = features[:, start : start + block].expand(n_replicas, -1, -1)
            logits = self.forward(values, rows)[1].to(torch.float64)
            found[:, start : start + block] = torch.softmax(logits, dim=1).transpose(1, 2)
        return found

    def predict(self, values: Mapping[str, np.ndarray], features: np.ndarray, device: str = "cpu") -> np.ndarray:
        """Returns float64 [rows, classes] for one replica's parameters and float32 features [rows, features]."""
        stacked = {name: torch.from_numpy(array[None]).to(device) for name, array in values.items()}
        rows = torch.from_numpy(np.array(features, np.float32)).to(device)[None]
        return self.probabilities(stacked, rows)[0].cpu().numpy()
