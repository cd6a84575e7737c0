"""A variational autoencoder of items' features, conditional on the class: its lower bound for each class.

    z ~ N(0, I)                                     latent, `latent` wide
    x | z, t ~ N(decoder(z, t), variance)           one variance for each feature
    q(z | x, t) = N(mean, deviation^2)              encoder(x, t)

Encoder and decoder have one hidden layer, to which each class adds a bias of its own. One z is drawn for each class,
all from the same standard normal numbers, so that the bounds of the classes differ by the class alone.
"""

import math
from dataclasses import dataclass
from typing import final

from jaxtyping import Float

from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import glorot_uniform, zeros
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.values import Values

_LOG_LIMIT = 8.0  # log-variances stay within it: a feature that never varies would ask for -infinity


@final
@dataclass(frozen=True, kw_only=True)
class ConditionalVae:
    """Sizes: D features, K classes, hidden units, latent numbers."""

    n_features: int
    n_classes: int
    hidden: int
    latent: int

    @property
    def row_size(self) -> int:
        """Roughly how many numbers a step holds for one row."""
        return max(self.n_features, self.n_classes * max(2 * self.hidden, 4 * self.latent))

    def parameters(self) -> list[Parameter]:
        """Returns the parameters of one replica."""
        features, classes, hidden, latent = self.n_features, self.n_classes, self.hidden, self.latent
        shapes = {
            "encoder item": (features, hidden),
            "encoder class": (classes, hidden),
            "encoder out": (hidden, 2 * latent),
            "decoder latent": (latent, hidden),
            "decoder class": (classes, hidden),
            "decoder out": (hidden, features),
        }
        biases = {"encoder bias": (1, 2 * latent), "decoder bias": (1, features), "variance": (1, features)}
        return [
            *(Parameter(name=name, shape=shape, start=glorot_uniform) for name, shape in shapes.items()),
            *(Parameter(name=name, shape=shape, start=zeros) for name, shape in biases.items()),
        ]

    def bounds(
        self,
        values: Values,
        features: Float[torch.Tensor, "replicas batch features"],
        noise: Float[torch.Tensor, "replicas batch latent"],
    ) -> Float[torch.Tensor, "replicas classes batch"]:
        """Returns a draw of E log p(x | z, t) - KL(q(z | x, t) || p(z)) for each class t.

        No number is made of each class, item and feature: with features x and the decoder's weights W in units of the
        deviation, and hidden units r, |x - r W|^2 = |x|^2 - 2 r W x' + r W W' r'.
        """
        shape = (self.n_classes, features.shape[1])
        # A layer that reads item and class is a sum of two products: the item's is made once, not for each class.
        units = (features @ values["encoder item"])[:, None] + values["encoder class"][:, :, None]
        encoded = torch.baddbmm(values["encoder bias"], torch.relu(units).flatten(1, 2), values["encoder out"])
        mean, log_variance = encoded.unflatten(1, shape).split(self.latent, dim=3)
        log_variance = log_variance.clamp(-_LOG_LIMIT, _LOG_LIMIT)
        deviation = (0.5 * log_variance).exp()
        latent = mean + deviation * noise[:, None]
        distance = 0.5 * (mean.square() + deviation.square() - log_variance - 1.0).sum(dim=3)
        units = torch.bmm(latent.flatten(1, 2), values["decoder latent"]).unflatten(1, shape)
        units = torch.relu(units + values["decoder class"][:, :, None])
        width = values["variance"].clamp(-_LOG_LIMIT, _LOG_LIMIT)
        scale = (-0.5 * width).exp()
        weights, wanted = values["decoder out"] * scale, (features - values["decoder bias"]) * scale
        across = torch.bmm(wanted, weights.transpose(1, 2))[:, None]
        squared = torch.bmm(units.flatten(1, 2), torch.bmm(weights, weights.transpose(1, 2))).unflatten(1, shape)
        misses = (wanted.square() + width + math.log(2.0 * math.pi)).sum(dim=2)[:, None]
        return -0.5 * (misses + (units * (squared - 2.0 * across)).sum(dim=3)) - distance
