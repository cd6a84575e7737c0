"""The loss of ldl-nm's three heads, of a batch of annotations in each replica."""

from collections.abc import Sequence
from typing import final

import numpy as np
from jaxtyping import Shaped

from crowdsweep.data.dataset import TrainingData
from crowdsweep.models._batches import Batch, StackedRows
from crowdsweep.models.joint._ldl_network import LdlNetwork
from crowdsweep.models.joint._ldl_training_set import TrainingSet
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import features_of
from crowdsweep.models.networks.tensors import PerReplica
from crowdsweep.models.networks.values import Values


@final
class HeadsLoss:
    """-log z_y[y] + gamma_I KL(y_I || z_yI) + gamma_A KL(y_A || z_yA), up to the histograms' entropies."""

    def __init__(
        self,
        network: LdlNetwork,
        data: Sequence[TrainingData],
        sets: Sequence[TrainingSet],
        device: str,
        *,
        weights: tuple[float, float],
        dropout: float,
    ) -> None:
        """Lays out what the rows stand for.

        Args:
            weights: gamma_I and gamma_A.
        """
        self._network, self._dropout = network, dropout
        self._item_weight, self._annotator_weight = weights

        def stacked(arrays: Sequence[Shaped[np.ndarray, " _ *shape"]], kind: type = np.int64) -> StackedRows:
            return StackedRows.of([np.ascontiguousarray(array, kind) for array in arrays], device)

        self._item = stacked([part.annotations.item for part in data])
        self._annotator = stacked([part.annotations.annotator for part in data])
        self._label = stacked([part.annotations.label for part in data])
        self._weight = stacked([one.weight for one in sets], np.float32)
        self._features = stacked([features_of(part.items) for part in data], np.float32)
        self._item_shares = stacked([one.item_shares for one in sets], np.float32)
        self._annotator_shares = stacked([one.annotator_shares for one in sets], np.float32)

    def __call__(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        """See `Loss`."""
        item, annotator = batch.take(self._item), batch.take(self._annotator)
        embedded = values.rows("annotators", annotator, batch.places)
        masks = batch if self._dropout else None
        features = self._features.at(item, batch)
        log_heads = self._network.log_heads(values, features, embedded, masks, 1.0 - self._dropout)
        wanted = [
            torch.nn.functional.one_hot(batch.take(self._label), self._network.n_classes).to(torch.float32),
            self._item_shares.at(item, batch) * self._item_weight,
            self._annotator_shares.at(annotator, batch) * self._annotator_weight,
        ]
        weight = batch.take(self._weight)
        if batch.mask is not None:
            weight = weight * batch.mask
        gained = (torch.stack(wanted, dim=2) * log_heads).sum(dim=(2, 3))
        return -(gained * weight).sum(dim=1), batch.sizes
