"""Random draws of replicas in training, each from its own stream: orders of their rows, and dropout masks.

It is drawn with numpy, hence the same on every device, and does not depend on who else is in the stack.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import final

import numpy as np
from jaxtyping import Bool, Int64

from crowdsweep.models.checkpoints import State, generator_state, set_generator
from crowdsweep.models.lazy_torch import torch
from crowdsweep.models.networks.tensors import BatchMask, BatchRows, PerReplica
from crowdsweep.seeds import SeedStream


@dataclass(frozen=True, kw_only=True, eq=False)
class Minibatch:
    """One step of the replicas that still have rows to see in this epoch: the first `n_replicas`.

    Attributes:
        n_replicas: how many take part; the others have had all their rows.
        rows: row numbers of each replica's own data.
        mask: 0 where the last batch is filled up, else 1; None where it is nowhere.
        sizes: rows that count.
        drawn: the same row numbers on the CPU, where sizes can be counted without waiting for the device; -1 where the
            batch is filled up.
    """

    n_replicas: int
    rows: BatchRows
    mask: BatchMask | None
    sizes: PerReplica
    drawn: Int64[np.ndarray, "replicas batch"]


@final
class Shuffler:
    """Cuts each replica's rows into minibatches, in an order of its own every epoch.

    A replica with few rows goes through them several times in an epoch, each time in another order; minibatches run on
    from one time to the next. Replicas must come sorted by their number of steps, longest first.
    """

    def __init__(
        self,
        rows: Sequence[Int64[np.ndarray, " _"]],
        seeds: Sequence[SeedStream],
        batch_size: int,
        device: str,
        passes: Sequence[int] = (),
    ) -> None:
        """Takes how often each replica goes through its rows in an epoch; without, all do once."""
        self._rows = list(rows)
        self._passes = list(passes) or [1] * len(self._rows)
        self._rngs = [stream.numpy("permutations") for stream in seeds]
        self._batch_size, self._device = batch_size, device
        steps = self.steps
        if (np.diff(steps) > 0).any():
            raise ValueError(f"expected replicas with the most steps first, got {steps.tolist()}")

    @property
    def steps(self) -> Int64[np.ndarray, " replicas"]:
        """Steps of each replica in an epoch."""
        return -(-self._lengths // self._batch_size)

    @property
    def _lengths(self) -> Int64[np.ndarray, " replicas"]:
        """Rows of each replica in an epoch, as often as it meets them."""
        counts = [len(rows) * passes for rows, passes in zip(self._rows, self._passes, strict=True)]
        return np.array(counts, dtype=np.int64)

    def keep(self, replicas: Sequence[int]) -> None:
        """Drops all other replicas; the order given must not bring one before another with more steps."""
        self._rows = [self._rows[s] for s in replicas]
        self._rngs = [self._rngs[s] for s in replicas]
        self._passes = [self._passes[s] for s in replicas]

    def state(self, replica: int) -> State:
        return {"order": generator_state(self._rngs[replica])}

    def restore(self, replica: int, state: State) -> None:
        set_generator(self._rngs[replica], state, "order")

    def epoch(self) -> list[Minibatch]:
        """Draws a permutation for each time that a replica goes through its rows; returns the epoch's steps."""
        steps = self.steps
        n_steps, size = int(steps.max(initial=0)), self._batch_size
        table = np.zeros((len(steps), n_steps * size), np.int64)
        lengths = self._lengths
        for row, length, rows, rng, passes in zip(table, lengths, self._rows, self._rngs, self._passes, strict=True):
            row[:length] = np.concatenate([rng.permutation(rows) for _ in range(passes)])
        real = np.arange(n_steps * size) < lengths[:, None]
        order = torch.from_numpy(table).to(self._device)
        masks = torch.from_numpy(real.astype(np.float32)).to(self._device)
        sizes = masks.view(len(steps), n_steps, size).sum(dim=2)
        drawn = np.where(real, table, -1)
        # Replicas come with the most steps first: those that still train in a step are the first so many.
        active = (steps[:, None] > np.arange(n_steps)).sum(axis=0).tolist()
        full = (lengths[:, None] >= (np.arange(n_steps) + 1) * size).sum(axis=0).tolist()
        batches: list[Minibatch] = []
        for step, (n_replicas, n_full) in enumerate(zip(active, full, strict=True)):
            part = slice(step * size, (step + 1) * size)
            batches.append(
                Minibatch(
                    n_replicas=n_replicas,
                    rows=order[:n_replicas, part],
                    mask=None if n_full == n_replicas else masks[:n_replicas, part],
                    sizes=sizes[:n_replicas, step],
                    drawn=drawn[:n_replicas, part],
                )
            )
        return batches


@dataclass(frozen=True, kw_only=True)
class Dropout:
    """A place of a network where units are dropped in training.

    Attributes:
        name: of the place, and of the stream that its masks are drawn from.
        shape: of what is dropped for one row.
        probability: that a unit is dropped, in (0, 1); kept to 1/65536.
    """

    name: str
    shape: tuple[int, ...]
    probability: float


@final
class DropoutMasks:
    """Each replica's own masks of one place: True for a unit that stays. Nothing is rescaled.

    A replica's masks do not depend on who else is in the stack, nor on how many steps are drawn at a time.
    """

    def __init__(self, dropout: Dropout, seeds: Sequence[SeedStream], device: str) -> None:
        self.dropout = dropout
        self._rngs = [stream.numpy(dropout.name) for stream in seeds]
        self._device = device

    def keep(self, replicas: Sequence[int]) -> None:
        self._rngs = [self._rngs[s] for s in replicas]

    def state(self, replica: int) -> State:
        return {"masks": generator_state(self._rngs[replica])}

    def restore(self, replica: int, state: State) -> None:
        set_generator(self._rngs[replica], state, "masks")

    def draw(self, steps: int, rows: int, n_replicas: int) -> Bool[torch.Tensor, "steps replicas rows *shape"]:
        """Returns the masks of the first replicas, drawn step after step."""
        size = rows * prod(self.dropout.shape)
        words = -(-size // 4)  # four 16-bit numbers in a word
        threshold = np.uint16(round(self.dropout.probability * 65536))
        masks = np.empty((steps, n_replicas, size), np.bool_)
        for replica, rng in enumerate(self._rngs[:n_replicas]):
            # Every step begins with a new word, so that masks are the same however many steps are drawn at a time.
            bits = rng.integers(0, 1 << 64, size=(steps, words), dtype=np.uint64).view(np.uint16)[:, :size]
            np.greater_equal(bits, threshold, out=masks[:, replica])
        return torch.from_numpy(masks).to(self._device).view(steps, n_replicas, rows, *self.dropout.shape)
