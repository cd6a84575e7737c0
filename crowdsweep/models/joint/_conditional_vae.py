"""A variational autoencoder of items' features, conditional on the class: its lower bound for each class.

    z ~ N(0, I)                                     latent, `latent` wide
    x | z, t ~ N(decoder(z, t), variance)           one variance for each feature
    q(z | x, t) = N(mean, deviation^2)              encoder(x, t)

Encoder and decoder have one hidden layer, to which each class adds a bias of its own. One z is drawn for each class,
all from the same standard normal numbers, so that the bounds of the classes differ by the class alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast, final

from jaxtyping import Float

from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import glorot_uniform, zeros
from crowdsweep.models.networks.replicas import Parameter
from crowdsweep.models.networks.tensors import StackedValues
from crowdsweep.models.networks.values import Values

Numbers = Float[torch.Tensor, "..."]

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
        """Returns a draw of E log p(x | z, t) - KL(q(z | x, t) || p(z)) for each class t."""
        from crowdsweep.models.networks.written_gradients import WrittenLogits  # noqa: PLC0415 - it imports torch

        names = [parameter.name for parameter in self.parameters()]
        own = (values[name] for name in names)
        return cast(torch.Tensor, WrittenLogits.apply(self, features, [noise], names, *own))

    def forward(
        self, values: StackedValues, features: Float[torch.Tensor, "replicas batch features"], drawn: Sequence[Numbers]
    ) -> tuple[list[Numbers], Float[torch.Tensor, "replicas classes batch"]]:
        """Returns what `backward` needs, and the bounds; `drawn` is the noise.

        No number is made of each class, item and feature: with features x and the decoder's weights W in units of the
        deviation, and hidden units r, |x - r W|^2 = |x|^2 - 2 r W x' + r W W' r'.
        """
        (noise,) = drawn
        shape = (self.n_classes, features.shape[1])
        read = torch.bmm(features, values["encoder item"])[:, None] + values["encoder class"][:, :, None]
        read = read.relu_().flatten(1, 2)
        encoded = torch.baddbmm(values["encoder bias"], read, values["encoder out"]).unflatten(1, shape)
        mean, log_variance = encoded.split(self.latent, dim=3)
        log_variance = log_variance.clamp(-_LOG_LIMIT, _LOG_LIMIT)
        deviation = (0.5 * log_variance).exp_()
        latent = torch.addcmul(mean, deviation, noise[:, None]).flatten(1, 2)
        distance = 0.5 * (mean.square() + deviation.square() - log_variance - 1.0).sum(dim=3)
        units = torch.bmm(latent, values["decoder latent"]).unflatten(1, shape)
        units = units.add_(values["decoder class"][:, :, None]).relu_().flatten(1, 2)
        weights, wanted, width = self._scaled(values, features)
        across = torch.bmm(wanted, weights.transpose(1, 2))[:, None]
        gap = torch.bmm(units, torch.bmm(weights, weights.transpose(1, 2))).unflatten(1, shape).sub_(across)
        fits = (units.unflatten(1, shape) * (gap - across)).sum(dim=3)
        misses = (wanted.square() + width + math.log(2.0 * math.pi)).sum(dim=2)[:, None]
        return [features, noise, read, encoded, latent, units, gap], -0.5 * (misses + fits) - distance

    def backward(
        self,
        values: StackedValues,
        inputs: Sequence[Numbers],
        slope: Float[torch.Tensor, "replicas classes batch"],
        gradient: Callable[[str], torch.Tensor],
        *,
        dropped: bool,  # noqa: ARG002 - as `DenseNetwork.backward`
    ) -> None:
        """Writes the gradients of any loss, from its slope in the bounds."""
        features, noise, read, encoded, latent, units, gap = inputs
        weights, wanted, _ = self._scaled(values, features)
        scale, each, shape = self._scale(values), slope[..., None], slope.shape[1:]

        weighted = units.unflatten(1, shape) * each
        of_items, shares = weighted.sum(dim=1), slope.sum(dim=1)[..., None]
        by_unit = torch.bmm(weighted.flatten(1, 2).transpose(1, 2), units)
        to_weights = torch.bmm(of_items.transpose(1, 2), wanted).sub_(torch.bmm(by_unit, weights))
        to_wanted = torch.bmm(of_items, weights).addcmul_(shares, wanted, value=-1.0)
        torch.mul(to_weights, scale, out=gradient("decoder out"))
        gradient("decoder bias").copy_((to_wanted * scale).sum(dim=1, keepdim=True).neg_())
        by_width = (to_weights * weights).sum(dim=1) + (to_wanted * wanted).sum(dim=1) + shares.sum(dim=1)
        gradient("variance").copy_((-0.5 * by_width)[:, None] * (values["variance"].abs() <= _LOG_LIMIT))

        back = (gap * -each).mul_(units.unflatten(1, shape) > 0)
        torch.sum(back, dim=2, out=gradient("decoder class"))
        back = back.flatten(1, 2)
        torch.bmm(latent.transpose(1, 2), back, out=gradient("decoder latent"))
        back = torch.bmm(back, values["decoder latent"].transpose(1, 2)).unflatten(1, shape)
        mean, log_variance = encoded.split(self.latent, dim=3)
        within = log_variance.abs() <= _LOG_LIMIT
        deviation = (0.5 * log_variance.clamp(-_LOG_LIMIT, _LOG_LIMIT)).exp_()
        to_variance = 0.5 * (deviation * (back * noise[:, None] - deviation * each) + each) * within
        back = torch.cat([torch.addcmul(back, mean, each, value=-1.0), to_variance], dim=3).flatten(1, 2)
        torch.sum(back, dim=1, keepdim=True, out=gradient("encoder bias"))
        torch.bmm(read.transpose(1, 2), back, out=gradient("encoder out"))
        back = torch.bmm(back, values["encoder out"].transpose(1, 2)).mul_(read > 0).unflatten(1, shape)
        torch.sum(back, dim=2, out=gradient("encoder class"))
        torch.bmm(features.transpose(1, 2), back.sum(dim=1), out=gradient("encoder item"))

    def _scale(self, values: StackedValues) -> Float[torch.Tensor, "replicas 1 features"]:
        return (-0.5 * values["variance"].clamp(-_LOG_LIMIT, _LOG_LIMIT)).exp_()

    def _scaled(
        self, values: StackedValues, features: Float[torch.Tensor, "replicas batch features"]
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Returns the decoder's weights and what they are to add up to, both by the deviation; and log-variances."""
        scale = self._scale(values)
        width = values["variance"].clamp(-_LOG_LIMIT, _LOG_LIMIT)
        return values["decoder out"] * scale, (features - values["decoder bias"]) * scale, width
