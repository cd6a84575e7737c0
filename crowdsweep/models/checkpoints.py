"""Checkpoints of fits: a fit saves its state, and resumes from it in another process with the same numbers.

A fit consists of trainings (the fit itself, its restarts, its folds), each named after its stream of random numbers.
For a training that runs, a checkpoint holds all that its next epoch depends on: parameters, moments of the optimiser,
generators of random numbers, the best epoch so far. For one that has ended it holds the result, so that nothing is
trained twice. What is prepared before training (splits, targets, clusters) is not saved but computed again.

States are named arrays and nothing else: reading one runs no code.
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
    """A state does not fit this training: it has another shape, or is incomplete."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingState:
    """The saved state of one training.

    Attributes:
        ended: whether the training has ended; the arrays are then its result.
    """

    arrays: State
    ended: bool


@runtime_checkable
class Checkpoint(Protocol):
    """Saves the states of the trainings of one fit."""

    @property
    def keeps(self) -> bool:
        """Whether anything is ever written."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether running trainings should be put and written now; the same for all fits of a batch."""
        ...

    def found(self, training: str) -> TrainingState | None:
        """Returns the saved state of a training; None where there is none, so that it starts from the beginning."""
        ...

    def put(self, training: str, state: TrainingState) -> None:
        """Replaces the state of a training; nothing is written yet."""
        ...

    def write(self) -> None:
        """Writes what has been put, of all fits of the batch."""
        ...


@final
class NoCheckpoint:
    """The checkpoint of a fit that saves nothing."""

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
    """Saves the states of trainings, where that is due.

    Args:
        parts: of all trainings that run side by side, by number; empty where nothing is saved.
        state: of a training by number, and whether it has ended.
        running: those that continue; all are at the end of an epoch.
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


def checked_array(
    state: State, name: str, shape: tuple[int | None, ...] | None = None, dtype: type = np.float64
) -> Shaped[np.ndarray, "..."]:
    """Returns a copy of an array of a state.

    Args:
        state: not trusted.
        shape: that it must have; None for any, or any along an axis.

    Raises:
        CheckpointRefused: the array is missing, or has another shape or type.
    """
    found = state.get(name)
    if found is None:
        raise CheckpointRefused(f"expected {name} in the saved state of a training, found none")
    fits = shape is None or (
        len(shape) == found.ndim
        and all(wanted in (None, length) for wanted, length in zip(shape, found.shape, strict=True))
    )
    if found.dtype != np.dtype(dtype) or not fits:
        raise CheckpointRefused(f"expected {name} of {dtype.__name__} {shape or ''}, got {found.dtype} {found.shape}")
    return found.copy()


def with_prefix(name: str, state: State) -> State:
    """Returns a state as a part of a larger one, under a name."""
    return {f"{name}/{key}": array for key, array in state.items()}


def without_prefix(state: State, name: str) -> State:
    """Returns the part of a state that stands under a name."""
    return {key.removeprefix(f"{name}/"): array for key, array in state.items() if key.startswith(f"{name}/")}


def generator_state(generator: np.random.Generator) -> UInt64[np.ndarray, "6"]:
    """Returns the state of a generator of a `SeedStream`."""
    state = generator.bit_generator.state
    inner = state["state"]
    words = [*divmod(inner["state"], _WORD), *divmod(inner["inc"], _WORD), state["has_uint32"], state["uinteger"]]
    return np.array(words, np.uint64)


def set_generator(generator: np.random.Generator, state: State, name: str) -> None:
    """Restores a generator to the state that is kept under a name.

    Raises:
        CheckpointRefused: there is no such state.
    """
    words = [int(word) for word in checked_array(state, name, (6,), np.uint64)]
    kind = generator.bit_generator.state["bit_generator"]
    generator.bit_generator.state = {
        "bit_generator": kind,
        "state": {"state": words[0] * _WORD + words[1], "inc": words[2] * _WORD + words[3]},
        "has_uint32": words[4],
        "uinteger": words[5],
    }
