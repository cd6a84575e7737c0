"""Trained networks as one module of torch's own: features in, the mean of their probabilities out.

For formats that write a program down (`torch.export`): it needs nothing of this package to run.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float32, Float64


class AveragedNetworks(torch.nn.Module):
    """Networks of layers of units with ReLU between them, and the mean of their softmax.

    Args:
        fits: of each network its arrays by name, `w0`, `b0`, `w1` … as `DenseNetwork` has them, and where features are
            brought to a scale first, its `mean` and `factor`.
    """

    def __init__(self, fits: Sequence[Mapping[str, np.ndarray]]) -> None:
        super().__init__()
        self._scaled = "mean" in fits[0]
        self._n_fits, self._n_layers = len(fits), len(fits[0]) // 2 - self._scaled
        for number, values in enumerate(fits):
            for name, array in values.items():
                self.register_buffer(f"fit{number}_{name}", torch.from_numpy(np.array(array)))

    def forward(self, features: Float32[torch.Tensor, "items features"]) -> Float64[torch.Tensor, "items classes"]:
        return torch.stack([self._one(number, features) for number in range(self._n_fits)]).mean(dim=0)

    def _one(self, number: int, features: torch.Tensor) -> torch.Tensor:
        last = self._n_layers - 1
        if self._scaled:
            centred = features.to(torch.float64) - self._array(number, "mean")[0]
            features = (centred * self._array(number, "factor")[0]).to(torch.float32)
        signal = features[None]
        for layer in range(last):
            signal = torch.relu(
                torch.baddbmm(self._array(number, f"b{layer}"), signal, self._array(number, f"w{layer}"))
            )
        bias, weights = self._array(number, f"b{last}"), self._array(number, f"w{last}")
        logits = torch.baddbmm(bias.transpose(1, 2), weights.transpose(1, 2), signal.transpose(1, 2))
        return torch.softmax(logits.to(torch.float64), dim=1).transpose(1, 2)[0]

    def _array(self, number: int, name: str) -> torch.Tensor:
        return self.get_buffer(f"fit{number}_{name}")[None]
