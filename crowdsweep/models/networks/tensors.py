"""Tensor types with named axes, as `crowdsweep.arrays` has them for arrays, and what is done to rows of any tensor.

`replicas` leads wherever it stands: in a step, those that take part. Where a tensor may be shared by all replicas its
axis is `#replicas`, which 1 fits too.
"""

from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64, Shaped

from crowdsweep.models.lazy_torch import torch

PerReplica = Float[torch.Tensor, " replicas"]
ReplicaNumbers = Int64[torch.Tensor, " replicas"]
BatchRows = Int64[torch.Tensor, "replicas batch"]
BatchMask = Float[torch.Tensor, "replicas batch"]
Inputs = Shaped[torch.Tensor, "#replicas rows *shape"]
# A column for each row; where a row is a sentence, for each of its places, row after row.
Logits = Float[torch.Tensor, "replicas classes columns"]
Probs = Float64[torch.Tensor, "replicas columns classes"]
# By the name of a parameter: of all replicas, and of one. Each parameter has a shape of its own.
StackedValues = Mapping[str, Float[torch.Tensor, "replicas ..."]]
ReplicaValues = Mapping[str, Float32[np.ndarray, "..."]]

LANES = 64  # a multiple of how many numbers any CPU's vector holds


def take_rows(table: Shaped[torch.Tensor, "rows ..."], rows: Int64[torch.Tensor, "..."]) -> Shaped[torch.Tensor, "..."]:
    """Returns table[rows]; `index_select` copies small rows several times faster than indexing does."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, *table.shape[1:])


def normalised_rows(
    table: Float[torch.Tensor, "*rows classes"], *, at_zero: float | None = None
) -> Float[torch.Tensor, "*rows classes"]:
    """Returns each row divided by its sum, as `crowdsweep.arrays.normalised_rows` does."""
    totals = table.sum(dim=-1, keepdim=True)
    shares = table / torch.where(totals > 0, totals, 1.0)
    return torch.where(totals > 0, shares, 1.0 / table.shape[-1] if at_zero is None else at_zero)


def products(
    left: Float[torch.Tensor, "replicas rows inner"],
    right: Float[torch.Tensor, "replicas inner columns"],
    *,
    bias: Float[torch.Tensor, "#replicas #rows #columns"] | None = None,
    scale: float = 1.0,
) -> Float[torch.Tensor, "replicas rows columns"]:
    """Returns left @ right of each replica, or bias + scale * left @ right, the same whoever stands beside it.

    A vector's product has a kernel of its own where it is alone, which sums in another order than the one for many:
    it is made twice, as beside another.
    """
    if left.shape[0] == 1 and (left.shape[1] == 1 or right.shape[2] == 1):
        return products(left.expand(2, -1, -1), right.expand(2, -1, -1), bias=bias, scale=scale)[:1]
    return torch.bmm(left, right) if bias is None else torch.baddbmm(bias, left, right, alpha=scale)


def log_softmax(scores: Float[torch.Tensor, "..."], dim: int) -> Float[torch.Tensor, "..."]:
    """Returns `torch.log_softmax` along an axis of few classes, laid out so that it runs along memory: of two to ten
    classes torch's own, which takes a row at a time, needs six to fifty times as long."""
    return _along_memory(torch.log_softmax, scores, dim)


def softmax(scores: Float[torch.Tensor, "..."], dim: int) -> Float[torch.Tensor, "..."]:
    """Returns `torch.softmax`, in which no number depends on how many stand beside it."""
    return _along_memory(torch.softmax, scores, dim)


def _along_memory(
    function: Callable[[torch.Tensor, int], torch.Tensor], scores: Float[torch.Tensor, "..."], dim: int
) -> Float[torch.Tensor, "..."]:
    """Returns function(scores, dim). Torch's kernels take `LANES` numbers at a time, and what is left over by another
    exponential, which rounds otherwise: padded, nothing is left over."""
    along = scores.movedim(dim, 0)
    flat = along.reshape(len(along), -1)
    n = flat.shape[1]
    padded = torch.nn.functional.pad(flat, (0, -n % LANES))
    return function(padded, 0)[:, :n].reshape(along.shape).movedim(0, dim)
