"""Softmax regression."""

from crowdsweep.models.networks.dense import DenseNetwork


def linear(n_features: int, n_classes: int) -> DenseNetwork:
    """Returns the network without hidden units."""
    return DenseNetwork(widths=(n_features, n_classes))
