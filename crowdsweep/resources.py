"""What a slot, a place where batches run, asks of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Gt


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources of one slot, and the nodes on which it may be placed.

    Attributes:
        cpu: CPUs of a slot, which runs one batch at a time.
        gpu: GPUs of a slot, refused up front where torch cannot use them; 0.5 lets two slots share a GPU.
        gpu_needed: whether a slot must have its GPUs; if not, batches run on slots without a GPU as well.
        custom: Ray's custom resources of a slot, by name: `{tpu: 1}`.
        labels: labels of the nodes on which a slot may be placed: `{zone: a}`.
    """

    cpu: Annotated[float, Gt(0)] = 1.0
    gpu: Annotated[float, Ge(0)] = 0.0
    gpu_needed: bool = True
    custom: Mapping[str, Annotated[float, Gt(0)]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        parts = tuple(sorted(self.custom.items())), tuple(sorted(self.labels.items()))
        return hash((self.cpu, self.gpu, self.gpu_needed, *parts))
