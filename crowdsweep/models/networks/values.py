"""The parameters that a network is computed with: for one step of training, or to predict."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

from jaxtyping import Float, Float32, Int64

from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.tables import EmbeddingTables, TouchedRows
from crowdsweep.models.networks.tensors import ReplicaValues, StackedValues, take_rows

Output = Float[torch.Tensor, " replicas *shape"]


@dataclass(kw_only=True, eq=False)
class Step:
    """The gradients and the rows of tables of one training step.

    Attributes:
        gradients: where the gradients of parameters go, by name.
        touched: rows of tables that the loss took: these alone are moved.
    """

    gradients: StackedValues
    tables: Mapping[str, EmbeddingTables]
    touched: dict[str, TouchedRows] = field(default_factory=dict[str, TouchedRows])


@final
class Values(StackedValues):
    """Parameters by name; in a step they are leaves of autograd, and rows of tables beside them."""

    def __init__(self, leaves: StackedValues, step: Step | None = None, prefix: str = "") -> None:
        """`step` is None where nothing is trained."""
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
        """Returns the rows of a table that these are, each once, and which of them each is; once per step and table.

        Args:
            index: row numbers of each replica's own table.
            places: where in the batch the replica stands that each of them belongs to.

        Raises:
            RuntimeError: not in a step, or the rows of this table have been taken in this step already.
        """
        step = self._training_step
        if table in step.touched:
            raise RuntimeError(f"expected the rows of {table!r} to be taken once in a step; gather them together")
        tables = step.tables[table]
        step.touched[table], which = tables.gather(index + places * tables.rows)
        return step.touched[table].values, which

    def touched(self, table: str) -> tuple[Int64[torch.Tensor, " distinct"], Int64[torch.Tensor, " distinct"], int]:
        """Returns of the rows that `distinct_rows` took: their numbers in the stack of tables, where in the batch the
        replica of each stands, and how many rows a replica's table has there."""
        touched = self._training_step.touched[table]
        return touched.rows, touched.place, self._training_step.tables[table].rows

    def gradient(self, name: str) -> Output:
        """Returns where a loss that writes gradients out (`WrittenLoss`) has that of a parameter go; in a step only."""
        return self._training_step.gradients[self._prefix + name]

    @property
    def _training_step(self) -> Step:
        if self.step is None:
            raise RuntimeError("expected a step of training")
        return self.step
