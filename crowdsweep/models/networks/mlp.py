"""Multilayer perceptron."""

from collections.abc import Sequence

from crowdsweep.models.networks.dense import DenseNetwork


def mlp(n_features: int, n_classes: int, *, hidden: Sequence[int], dropout: float) -> DenseNetwork:
    """Returns the network with hidden layers of these widths, ReLU, and dropout after each."""
    return DenseNetwork(widths=(n_features, *hidden, n_classes), dropout=dropout)
