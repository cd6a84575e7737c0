"""The parameters that a network is computed with: for one step of training, or to predict."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

import torch

from crowdsweep.models.networks.tables import EmbeddingTables, TouchedRows


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """What a step gathers besides its loss.

    Attributes:
        gradients: where the gradients of parameters go, by name.
        tables: by name.
        touched: rows of tables that the loss took.
        written: names of parameters whose gradients were written by hand.
        deferred: outputs of networks that autograd stops at, with what goes on from the slope of each.
    """

    gradients: Mapping[str, torch.Tensor]
    tables: Mapping[str, EmbeddingTables]
    touched: dict[str, TouchedRows] = field(default_factory=dict[str, TouchedRows])
    written: set[str] = field(default_factory=set[str])
    deferred: list[tuple[torch.Tensor, Callable[[torch.Tensor], None]]] = field(default_factory=list)  # pyright: ignore[reportUnknownVariableType]


@final
class Values(Mapping[str, torch.Tensor]):
    """Parameters by name [n_replicas, *shape]; in training they are leaves of autograd, and rows of tables beside them.

    A network may work its gradients out by hand (`defer`), which saves autograd half of the work where layers are
    small.
    """

    def __init__(self, leaves: Mapping[str, torch.Tensor], training: Training | None = None, prefix: str = "") -> None:
        self._leaves, self._prefix = leaves, prefix
        self.training = training

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._leaves[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        n = len(self._prefix)
        return (name[n:] for name in self._leaves if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def part(self, name: str) -> "Values":
        """Returns the parameters of one of several networks, under its own names."""
        return Values(self._leaves, self.training, f"{self._prefix}{name} ")

    def rows(self, table: str, index: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Returns rows of a table [*index.shape, width]; at most once a step for each table.

        Args:
            table: its name.
            index: int64, row numbers of each replica's own table, any shape.
            places: int64, where in the batch the replica stands that each of them belongs to; broadcasts with `index`.

        Raises:
            RuntimeError: not in training, or the rows of this table have been taken in this step already.
        """
        if self.training is None or table in self.training.touched:
            raise RuntimeError(f"expected the rows of {table!r} to be taken once, in a step; gather them together")
        tables = self.training.tables[table]
        self.training.touched[table], found = tables.gather(index + places * tables.rows)
        return found

    def gradient(self, name: str) -> torch.Tensor:
        """Returns where the gradient of a parameter goes [n_replicas, *shape]; in training only."""
        if self.training is None:
            raise RuntimeError("expected a step of training")
        self.training.written.add(self._prefix + name)
        return self.training.gradients[self._prefix + name]

    def defer(self, output: torch.Tensor, backward: Callable[[torch.Tensor], None]) -> torch.Tensor:
        """Returns the output as a leaf of autograd; `backward` is called with the loss's slope by it and writes the
        gradients of all parameters that the output was made of. In training only."""
        if self.training is None:
            raise RuntimeError("expected a step of training")
        leaf = output.detach().requires_grad_(True)
        self.training.deferred.append((leaf, backward))
        return leaf
