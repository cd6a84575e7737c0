"""Parameters with a row for each of many things (annotators, say), of which a step moves only the rows it touches."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float32, Int64

from crowdsweep.models.checkpoints import State, checked_array
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.initial import Initialiser
from crowdsweep.models.networks.replicas import Adam
from crowdsweep.models.networks.tensors import take_rows
from crowdsweep.seeds import SeedStream

_MARKED_ROWS = 1 << 16  # rows up to which marking all is cheaper than sorting a batch


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """The size and initial values of such a parameter, for several replicas.

    Attributes:
        width: numbers in a row.
        orders: of each replica: its rows in the order in which they are drawn, a permutation that the data decide
            (`_annotator_order.py`), so that nothing depends on how things are numbered. Replicas may differ in their
            number of rows.
    """

    width: int
    start: Initialiser
    orders: Sequence[Int64[np.ndarray, " _"]]

    def of(self, replicas: Sequence[int]) -> "Table":
        """Returns the tables of these replicas, in this order."""
        return replace(self, orders=[self.orders[replica] for replica in replicas])


@final
class EmbeddingTables:
    """S tables, stepped only where a batch touches them.

    They lie under one another, [S * rows, width], replica s's row r being row s * rows + r. A step reads and writes
    only the rows of its batch (lazy Adam: a row's moments stand still while it is not touched), so that a million
    annotators cost memory and nothing else.
    """

    def __init__(self, table: Table, *, seeds: Sequence[SeedStream], name: str, device: str) -> None:
        """Draws each replica's rows from its own stream."""
        self.rows = max(map(len, table.orders), default=0)
        self._lengths = list(map(len, table.orders))
        values = np.zeros((len(seeds), self.rows, table.width), np.float32)
        for own, order, stream in zip(values, table.orders, seeds, strict=True):
            own[order] = table.start(stream.numpy(f"initial {name}"), (len(order), table.width))
        self.values = torch.from_numpy(values.reshape(-1, table.width)).to(device)
        self.first = torch.zeros_like(self.values)
        self.second = torch.zeros_like(self.values)
        self.steps = np.zeros(len(seeds))

    def gather(self, flat_rows: Int64[torch.Tensor, "*places"]) -> tuple["TouchedRows", Int64[torch.Tensor, "*places"]]:
        """Returns the distinct rows of a batch, their values being an autograd leaf, and which of them each place is.

        Args:
            flat_rows: replica * rows + row.
        """
        distinct, inverse = self._distinct(flat_rows)
        leaf = take_rows(self.values, distinct).requires_grad_(True)
        return TouchedRows(rows=distinct, place=distinct // self.rows, values=leaf), inverse

    def _distinct(
        self, flat_rows: Int64[torch.Tensor, "*places"]
    ) -> tuple[Int64[torch.Tensor, " distinct"], Int64[torch.Tensor, "*places"]]:
        """Returns the distinct rows, ascending, and which of them each place is: by marking where tables are small."""
        if len(self.values) > _MARKED_ROWS:
            return torch.unique(flat_rows, return_inverse=True)
        marks = torch.zeros(len(self.values), dtype=torch.int64, device=flat_rows.device)
        marks.index_fill_(0, flat_rows.flatten(), 1)
        return marks.nonzero()[:, 0], take_rows(marks.cumsum(0).sub_(1), flat_rows)

    def step(self, touched: "TouchedRows", adam: Adam, n_replicas: int) -> None:
        """Moves the touched rows along their gradients; the first `n_replicas` replicas count a step. Under
        `torch.no_grad`."""
        self.steps[:n_replicas] += 1
        rows, gradient = touched.rows, touched.gradient
        if gradient is None:
            return
        first = take_rows(self.first, rows).lerp_(gradient, 1 - adam.first_decay)
        second = (
            take_rows(self.second, rows)
            .mul_(adam.second_decay)
            .addcmul_(gradient, gradient, value=1 - adam.second_decay)
        )
        # A replica without a step has no row here; its correction would be a division by 1 - decay⁰ = 0.
        rates = adam.corrected_rates(np.maximum(self.steps, 1), rows.device).index_select(0, touched.place)
        values = take_rows(self.values, rows)
        values.sub_(rates * first / second.sqrt().add_(adam.epsilon))
        for table, moved in ((self.first, first), (self.second, second), (self.values, values)):
            table.index_copy_(0, rows, moved)

    def keep(self, replicas: Sequence[int]) -> None:
        order = torch.as_tensor(replicas, dtype=torch.long, device=self.values.device)
        shape = (len(self.steps), self.rows)
        self.values, self.first, self.second = (
            table.unflatten(0, shape)[order].flatten(0, 1) for table in (self.values, self.first, self.second)
        )
        self.steps = self.steps[list(replicas)]
        self._lengths = [self._lengths[replica] for replica in replicas]

    def state(self, replica: int) -> State:
        """Returns a copy of one replica's table, of its moments, and its step count."""
        own = self._own(replica)
        tables = {"values": self.values, "first": self.first, "second": self.second}
        rows = {name: table[own].cpu().numpy().copy() for name, table in tables.items()}
        return {**rows, "steps": self.steps[[replica]]}

    def restore(self, replica: int, state: State) -> None:
        own = self._own(replica)
        for name, table in {"values": self.values, "first": self.first, "second": self.second}.items():
            rows = checked_array(state, name, (own.stop - own.start, table.shape[1]), np.float32)
            table[own] = torch.from_numpy(rows).to(table.device)
        self.steps[replica] = checked_array(state, "steps", (1,))[0]

    def values_of(self, replica: int) -> Float32[np.ndarray, "rows width"]:
        """Returns a copy of one replica's table."""
        return self.values[self._own(replica)].cpu().numpy().copy()

    def shape_of(self, replica: int) -> tuple[int, int]:
        """Returns how many rows one replica has, and how wide they are."""
        return self._lengths[replica], self.values.shape[1]

    def _own(self, replica: int) -> slice:
        """Returns where a replica's rows lie, without those that fill its table up."""
        start = replica * self.rows
        return slice(start, start + self._lengths[replica])


@final
@dataclass(kw_only=True, eq=False)
class TouchedRows:
    """The distinct rows that a batch touches, whose they are, the leaf of their values, and its gradient."""

    rows: Int64[torch.Tensor, " distinct"]
    place: Int64[torch.Tensor, " distinct"]
    values: Float32[torch.Tensor, "distinct width"]
    gradient: Float32[torch.Tensor, "distinct width"] | None = None
