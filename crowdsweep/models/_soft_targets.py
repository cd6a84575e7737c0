"""The loss of a classifier that learns soft targets; for a dense network its gradients are written out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from jaxtyping import Float32

from crowdsweep.models._batches import Batch, Block, StackedRows
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.contract import Network
from crowdsweep.models.networks.dense import DenseNetwork
from crowdsweep.models.networks.tensors import PerReplica
from crowdsweep.models.networks.values import Values
from crowdsweep.models.trainer import Loss

Targets = Float32[torch.Tensor, "replicas items classes"]
BlockTargets = Float32[torch.Tensor, "steps replicas classes batch"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingRows:
    """Inputs and targets of the replicas.

    Attributes:
        targets: of each replica's items; may be changed in place between epochs.
        layout: which item stands at each place of each row, -1 where none does; None where a row is an item.
    """

    inputs: StackedRows
    targets: StackedRows
    layout: StackedRows | None

    @classmethod
    def of(cls, inputs: StackedRows, targets: Targets, layout: StackedRows | None = None) -> "TrainingRows":
        """Lays out targets [replicas, items, classes]."""
        starts = torch.arange(len(targets), device=targets.device) * targets.shape[1]
        return cls(inputs=inputs, targets=StackedRows(table=targets.flatten(0, 1), starts=starts), layout=layout)

    def wanted(self, batch: Batch) -> tuple[Float32[torch.Tensor, "replicas classes columns"], PerReplica]:
        """Returns the targets of a batch, a column for each of the network's logits, zeros where nothing is taught; and
        the weight of the batch: of rows that are items their number, else the number of items that are taught."""
        if self.layout is None:
            wanted = batch.take(self.targets)
            return (wanted if batch.mask is None else wanted * batch.mask[:, :, None]).transpose(1, 2), batch.sizes
        places = batch.take(self.layout)
        stands = places >= 0 if batch.mask is None else (places >= 0) & (batch.mask > 0)[:, :, None]
        wanted = self.targets.at(places.clamp(min=0).flatten(1), batch) * stands.flatten(1)[:, :, None]
        return wanted.transpose(1, 2), (wanted.sum(dim=2) > 0).sum(dim=1).to(wanted.dtype)


LossOf = Callable[[Network, TrainingRows], Loss]


def soft_targets_loss(network: Network, rows: TrainingRows) -> Loss:
    """Returns the cross-entropy with the rows' targets."""
    if isinstance(network, DenseNetwork):
        return DenseSoftTargets(network, rows)
    return SoftTargets(network, rows)


@dataclass(frozen=True, eq=False)
class SoftTargets:
    """Cross-entropy with soft targets, -sum over classes of target * log f; an item weighs what its targets sum to."""

    network: Network
    rows: TrainingRows

    def __call__(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        logits = self.network.logits(values, batch.take(self.rows.inputs), batch)
        wanted, weight = self.rows.wanted(batch)
        return -(wanted * torch.log_softmax(logits, dim=1)).sum(dim=(1, 2)), weight


@final
@dataclass(frozen=True, eq=False)
class DenseSoftTargets(SoftTargets):
    """`SoftTargets` of a dense network, with its gradients written out (a `WrittenLoss`).

    Targets are laid out with classes before items, so that softmax runs along memory, for a whole block of steps.
    """

    network: DenseNetwork

    def write(self, values: Values, batch: Batch) -> tuple[PerReplica, PerReplica]:
        wanted, shares, totals = (part[batch.step] for part in batch.block.once(self._laid_out))
        masks = [batch.kept(dropout.name) for dropout in self.network.dropouts]
        probs = self.network.write_gradients(values, batch.take(self.rows.inputs), shares, totals, masks)
        # A probability that was rounded to 0 has the logarithm -inf, and a target of 0 times that would be NaN.
        return -(wanted * probs.clamp_(min=1e-30).log_()).sum(dim=(1, 2)), batch.sizes

    def _laid_out(
        self, block: Block
    ) -> tuple[BlockTargets, BlockTargets, Float32[torch.Tensor, "steps replicas 1 batch"]]:
        """Returns targets, shares of each step's loss, and the shares' sums over the classes."""
        wanted = self.rows.targets.of_block(block).transpose(2, 3).contiguous()
        if (mask := block.batches[-1].mask) is not None:
            wanted[-1].mul_(mask[:, None, :])
        sizes = torch.stack([batch.sizes for batch in block.batches])[:, :, None, None]
        shares = wanted / sizes
        return wanted, shares, shares.sum(dim=2, keepdim=True)
