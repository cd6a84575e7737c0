"""The loss of a classifier that learns soft targets; for a dense network its gradients are written out."""

from typing import final

import torch
from jaxtyping import Float32

from crowdsweep.models._batches import Batch, Block, StackedRows
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.tensors import PerReplica
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import Loss

Targets = Float32[torch.Tensor, "replicas items classes"]
BlockTargets = Float32[torch.Tensor, "steps replicas classes batch"]


def soft_targets_loss(network: Network, inputs: StackedRows, targets: Targets) -> Loss:
    """Returns the cross-entropy with these targets; they may be changed in place between epochs."""
    starts = torch.arange(len(targets), device=targets.device) * targets.shape[1]
    stacked = StackedRows(table=targets.flatten(0, 1), starts=starts)
    if isinstance(network, DenseNetwork):
        return DenseSoftTargets(network, inputs, stacked)
    return SoftTargets(network, inputs, stacked)


@final
class SoftTargets:
    """Cross-entropy with soft targets, -sum over classes of target * log f; an item weighs what its targets sum to."""

    def __init__(self, network: Network, inputs: StackedRows, targets: StackedRows) -> None:
        self._network, self._inputs, self._targets = network, inputs, targets

    def __call__(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        """See `Loss`."""
        logits = self._network.logits(values, batch.take(self._inputs), batch)
        gained = (batch.take(self._targets).transpose(1, 2) * torch.log_softmax(logits, dim=1)).sum(dim=1)
        return -(gained if batch.mask is None else gained * batch.mask).sum(dim=1), batch.sizes


@final
class DenseSoftTargets:
    """`SoftTargets` of a dense network, with its gradients written out.

    Targets are laid out with classes before items, so that softmax runs along memory, for a whole block of steps.
    """

    def __init__(self, network: DenseNetwork, inputs: StackedRows, targets: StackedRows) -> None:
        self._network, self._inputs, self._targets = network, inputs, targets
        self._plain = SoftTargets(network, inputs, targets)

    def __call__(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        """See `Loss`."""
        return self._plain(values, batch)

    def write(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        """See `WrittenLoss`."""
        wanted, shares, totals = (part[batch.step] for part in batch.block.once(self._laid_out))
        masks = [batch.kept(dropout.name) for dropout in self._network.dropouts]
        probs = self._network.write_gradients(values, batch.take(self._inputs), shares, totals, masks)
        return -(wanted * probs.clamp_(min=1e-30).log_()).sum(dim=(1, 2)), batch.sizes

    def _laid_out(
        self, block: Block
    ) -> tuple[BlockTargets, BlockTargets, Float32[torch.Tensor, "steps replicas 1 batch"]]:
        """Returns targets, shares of each step's loss, and the shares' sums over the classes."""
        wanted = self._targets.of_block(block).transpose(2, 3).contiguous()
        if (mask := block.batches[-1].mask) is not None:
            wanted[-1].mul_(mask[:, None, :])
        sizes = torch.stack([batch.sizes for batch in block.batches])[:, :, None, None]
        shares = wanted / sizes
        return wanted, shares, shares.sum(dim=2, keepdim=True)
