"""How a fit writes down how far it is, and goes on from there in another process, with the same numbers.

A fit consists of trainings (the fit itself, its restarts, its folds), each with a stream of random numbers of its own,
after which it is called. Of one that goes on a checkpoint has all that its next epoch depends on: parameters, moments
of the optimiser, generators of random numbers, and what was kept of it. Of one that has ended it has what came out, so
that nothing is trained twice. What is made of these before training (splits, targets, clusters) is made again.

States are arrays alone, by name: they can be written and read without running anything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Shaped, UInt64

from crowdsweep.seeds import SeedStream

State = Mapping[str, Shaped[np.ndarray, "..."]]

_WORD = 1 << 64


class CheckpointRefused(ValueError):
    """A state is not one of this training: of another shape, or incomplete."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingState:
    """How far one training is.

    Attributes:
        arrays: what it is.
        ended: whether it has ended, so that they are what came out.
    """

    arrays: State
    ended: bool


@runtime_checkable
class Checkpoint(Protocol):
    """Where the trainings of one fit are written down."""

    @property
    def keeps(self) -> bool:
        """Whether anything is ever written."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether those that go on should be put now, and written; the same for all fits of a batch."""
        ...

    def found(self, training: str) -> TrainingState | None:
        """Returns how far a training was; None where that was not written down: it begins anew."""
        ...

    def put(self, training: str, state: TrainingState) -> None:
        """Notes how far a training is, in place of what was noted before; nothing is written yet."""
        ...

    def write(self) -> None:
        """Writes what has been put, of all fits of the batch."""
        ...


@final
class NoCheckpoint:
    """That of a fit of which nothing is written down."""

    keeps = False
    is_due = False

    def found(self, training: str) -> TrainingState | None:  # noqa: ARG002 - a Checkpoint
        """See `Checkpoint`."""
        return None

    def put(self, training: str, state: TrainingState) -> None:
        """See `Checkpoint`."""

    def write(self) -> None:
        """See `Checkpoint`."""


NO_CHECKPOINT = NoCheckpoint()


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class CheckpointPart:
    """A training's place in the checkpoint of its fit."""

    checkpoint: Checkpoint
    training: str

    @classmethod
    def of(cls, checkpoint: Checkpoint, seeds: SeedStream) -> "CheckpointPart":
        """Returns the place of the training that draws from this stream."""
        return cls(checkpoint=checkpoint, training="/".join(seeds.path))

    def found(self) -> TrainingState | None:
        """See `Checkpoint.found`."""
        return self.checkpoint.found(self.training)


def keep(
    parts: Sequence[CheckpointPart],
    state: Callable[[int, bool], State],
    *,
    running: Sequence[int],
    ended: Sequence[int],
) -> None:
    """Writes down how far trainings are, where that is due.

    Args:
        parts: of all trainings that go on side by side, by number; empty where nothing is kept.
        state: of a training by number, and whether it has ended.
        running: those that go on; there all are at the end of an epoch.
        ended: those that have ended in it.
    """
    if not parts or not parts[0].checkpoint.keeps:
        return
    for number in ended:
        _put(parts[number], TrainingState(arrays=state(number, True), ended=True))
    if running and parts[running[0]].checkpoint.is_due:
        for number in running:
            _put(parts[number], TrainingState(arrays=state(number, False), ended=False))
        parts[running[0]].checkpoint.write()


def _put(part: CheckpointPart, state: TrainingState) -> None:
    part.checkpoint.put(part.training, state)


def taken(
    state: State, name: str, shape: tuple[int | None, ...] | None = None, dtype: type = np.float64
) -> Shaped[np.ndarray, "..."]:
    """Returns a copy of an array of a state.

    Args:
        state: that may be anybody's.
        name: of the array.
        shape: that it must have; None for any, or any along an axis.
        dtype: that it must have.

    Raises:
        CheckpointRefused: it is not there, or another.
    """
    found = state.get(name)
    if found is None:
        raise CheckpointRefused(f"expected {name} in a training's state, which lacks it")
    fits = shape is None or (
        len(shape) == found.ndim
        and all(wanted in (None, length) for wanted, length in zip(shape, found.shape, strict=True))
    )
    if found.dtype != np.dtype(dtype) or not fits:
        raise CheckpointRefused(f"expected {name} of {dtype.__name__} {shape or ''}, got {found.dtype} {found.shape}")
    return found.copy()


def within(name: str, state: State) -> State:
    """Returns a state as a part of a larger one, under a name."""
    return {f"{name}/{key}": array for key, array in state.items()}


def part_of(state: State, name: str) -> State:
    """Returns the part of a state that stands under a name."""
    return {key.removeprefix(f"{name}/"): array for key, array in state.items() if key.startswith(f"{name}/")}


def generator_state(generator: np.random.Generator) -> UInt64[np.ndarray, "6"]:
    """Returns where a generator of a `SeedStream` stands."""
    state = generator.bit_generator.state
    inner = state["state"]
    words = [*divmod(inner["state"], _WORD), *divmod(inner["inc"], _WORD), state["has_uint32"], state["uinteger"]]
    return np.array(words, np.uint64)


def set_generator(generator: np.random.Generator, state: State, name: str) -> None:
    """Has a generator stand where one stood whose state is kept under a name.

    Raises:
        CheckpointRefused: no such state is there.
    """
    words = [int(word) for word in taken(state, name, (6,), np.uint64)]
    kind = generator.bit_generator.state["bit_generator"]
    generator.bit_generator.state = {
        "bit_generator": kind,
        "state": {"state": words[0] * _WORD + words[1], "inc": words[2] * _WORD + words[3]},
        "has_uint32": words[4],
        "uinteger": words[5],
    }
