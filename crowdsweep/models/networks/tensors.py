"""Tensor types with named axes, as `crowdsweep.arrays` has them for arrays, and what is done to rows of any tensor.

`replicas` leads wherever it stands: in a step, those that take part. Where a tensor may be shared by all replicas its
axis is `#replicas`, which 1 fits too.
"""

from collections.abc import Mapping

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
