"""Functions whose gradients are written out, for autograd: classes of torch's own, imported where they are used."""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch


@final
class DenseLogits(torch.autograd.Function):
    """The logits of a dense network."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - torch's takes anything
        ctx: Any,
        network: Any,
        inputs: torch.Tensor,
        masks: Sequence[torch.Tensor],
        names: Sequence[str],
        *values: Any,
    ) -> torch.Tensor:
        """See `forward` of the network, a `networks.dense.DenseNetwork`."""
        layers, logits = network.forward(dict(zip(names, values, strict=True)), inputs, masks)
        ctx.save_for_backward(*layers, *values)
        ctx.network, ctx.names, ctx.dropped = network, names, bool(masks)
        return logits

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        """See `backward` of the network."""
        network, names = ctx.network, ctx.names
        layers, values = ctx.saved_tensors[: network.n_layers], ctx.saved_tensors[network.n_layers :]
        gradients = {name: torch.empty_like(value) for name, value in zip(names, values, strict=True)}
        network.backward(
            dict(zip(names, values, strict=True)), layers, slope, gradients.__getitem__, dropped=ctx.dropped
        )
        return None, None, None, None, *gradients.values()


@final
class Softsign(torch.autograd.Function):
    """x / (1 + |x|), whose slope (1 - |y|)^2 takes a third of the passes that autograd makes of it."""

    @staticmethod
    def forward(ctx: Any, units: torch.Tensor) -> torch.Tensor:
        """Returns y."""
        found = units.abs().add_(1.0)
        torch.div(units, found, out=found)
        ctx.save_for_backward(found)
        return found

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> torch.Tensor:
        """Returns the slope by y, times (1 - |y|)^2."""
        (found,) = ctx.saved_tensors
        return found.abs().neg_().add_(1.0).square_().mul_(grad_outputs[0])


@final
class WithSlopes(torch.autograd.Function):
    """A number of each replica whose slopes in what it was made of came out with it."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        ctx: Any, made: Callable[..., tuple[torch.Tensor, Sequence[torch.Tensor]]], *parts: torch.Tensor
    ) -> torch.Tensor:
        """Returns the numbers.

        Args:
            made: of the parts [replicas, ...], the numbers [replicas] and their slopes in each part.
            parts: what the numbers are made of.
        """
        found, slopes = made(*parts)
        ctx.save_for_backward(*slopes)
        return found

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - as above
        """Returns the slopes, times that of each replica's number."""
        return None, *(own * slope.view(-1, *[1] * (own.dim() - 1)) for own in ctx.saved_tensors)
