"""The parameters that a network is computed with: for one step of training, or to predict."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Float, Float32, Int64

from crowdsweep.models.networks.tables import EmbeddingTables, TouchedRows
from crowdsweep.models.networks.tensors import ReplicaValues, StackedValues, take_rows

Output = Float[torch.Tensor, " replicas *shape"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What a step gathers besides its loss.

    Attributes:
        gradients: where the gradients of parameters go, by name.
        tables: by name.
        touched: rows of tables that the loss took.
        written: names of parameters whose gradients were written by hand.
        deferred: outputs of networks that autograd stops at, with what goes on from the slope of each.
    """

    gradients: StackedValues
    tables: Mapping[str, EmbeddingTables]
    touched: dict[str, TouchedRows] = field(default_factory=dict[str, TouchedRows])
    written: set[str] = field(default_factory=set[str])
    deferred: list[tuple[Output, Callable[[Output], None]]] = field(default_factory=list)  # pyright: ignore[reportUnknownVariableType]


@final
class Values(StackedValues):
    """Parameters by name; in a step they are leaves of autograd, and rows of tables beside them.

    A network may work its gradients out by hand (`defer`), which saves autograd half of the work where layers are
    small.
    """

    def __init__(self, leaves: StackedValues, step: Step | None = None, prefix: str = "") -> None:
        """Takes what the step gathers; None where nothing is trained."""
        self._leaves, self._prefix = leaves, prefix
        self.step = step

    @classmethod
    def of_one(cls, values: ReplicaValues, device: str) -> "Values":
        """Returns the parameters of one replica, to predict with."""
        return cls({name: torch.from_numpy(array[None]).to(device) for name, array in values.items()})

    def __getitem__(self, name: str) -> Output:
        return self._leaves[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        n = len(self._prefix)
        return (name[n:] for name in self._leaves if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def part(self, name: str) -> "Values":
        """Returns the parameters of one of several networks, under its own names."""
        return Values(self._leaves, self.step, f"{self._prefix}{name} ")

    def rows(
        self, table: str, index: Int64[torch.Tensor, "*places"], places: Int64[torch.Tensor, "*#places"]
    ) -> Float32[torch.Tensor, "*places width"]:
        """Returns rows of a table; see `distinct_rows`."""
        return take_rows(*self.distinct_rows(table, index, places))

    def distinct_rows(
        self, table: str, index: Int64[torch.Tensor, "*places"], places: Int64[torch.Tensor, "*#places"]
    ) -> tuple[Float32[torch.Tensor, "distinct width"], Int64[torch.Tensor, "*places"]]:
        """Returns the rows of a table that these are, each once, and which of them each is; once a step for each table.

        Args:
            table: its name.
            index: row numbers of each replica's own table.
            places: where in the batch the replica stands that each of them belongs to.

        Raises:
            RuntimeError: not in a step, or the rows of this table have been taken in this step already.
        """
        if self.step is None or table in self.step.touched:
            raise RuntimeError(f"expected the rows of {table!r} to be taken once, in a step; gather them together")
        tables = self.step.tables[table]
        self.step.touched[table], which = tables.gather(index + places * tables.rows)
        return self.step.touched[table].values, which

    def gradient(self, name: str) -> Output:
        """Returns where the gradient of a parameter goes; in a step only."""
        if self.step is None:
            raise RuntimeError("expected a step of training")
        self.step.written.add(self._prefix + name)
        return self.step.gradients[self._prefix + name]

    def defer(self, output: Output, backward: Callable[[Output], None]) -> Output:
        """Returns the output as a leaf of autograd; `backward` is called with the loss's slope by it and writes the
        gradients of all parameters that the output was made of. In a step only."""
        if self.step is None:
            raise RuntimeError("expected a step of training")
        leaf = output.detach().requires_grad_(True)
        self.step.deferred.append((leaf, backward))
        return leaf
