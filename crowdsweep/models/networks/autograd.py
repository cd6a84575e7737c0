"""Stacked networks in losses that are not a cross-entropy with soft targets: torch differentiates those."""

from collections.abc import Mapping, Sequence

import torch

from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.replicas import ReplicaStack, TouchedRows


def backward(losses: torch.Tensor, stacks: Sequence[ReplicaStack], touched: TouchedRows | None = None) -> None:
    """Writes the gradients of each replica's loss where `Adam.step` and `EmbeddingTables.step` look for them.

    Args:
        losses: [S], each a function of its own replica's parameters only, so that their sum has the same gradients.
        stacks: whose first S replicas the losses were computed from (by `stack.prefix(S)`).
        touched: rows of tables that they were computed from.
    """
    views = [stack.prefix(len(losses)) for stack in stacks]
    leaves = [leaf for view in views for leaf in view.values.values()]
    places = [place for view in views for place in view.gradients.values()]
    rows = [] if touched is None else [touched.values]
    found = torch.autograd.grad(losses.sum(), [*leaves, *rows], materialize_grads=True, allow_unused=True)
    for place, gradient in zip(places, found, strict=False):
        place.copy_(gradient)
    if touched is not None:
        touched.values.grad = found[-1]


def logits(
    network: DenseNetwork,
    values: Mapping[str, torch.Tensor],
    features: torch.Tensor,
    masks: Sequence[torch.Tensor] = (),
) -> torch.Tensor:
    """Returns what the last layer gives [S, rows, outputs], differentiable in `values`.

    Args:
        network: the shape.
        values: parameters, [S, *shape].
        features: float32 [S, rows, features].
        masks: of each hidden layer, [S, rows, width] of 0 and 1; empty without dropout.
    """
    signal = features
    scale = 1.0 / (1.0 - network.dropout) if masks else 1.0  # as the product's alpha: one pass less over the units
    for layer in range(network.n_layers):
        signal = torch.baddbmm(values[f"b{layer}"], signal, values[f"w{layer}"], alpha=scale if layer else 1.0)
        if layer < network.n_layers - 1:
            signal = torch.relu(signal)
            if masks:
                signal = signal * masks[layer].to(signal.dtype)
    return signal
