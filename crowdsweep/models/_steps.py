"""Repeating a step on several replicas side by side, until each has stopped by itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Float64

from crowdsweep.models._stacked import StackedCrowds
from crowdsweep.models.contract import Predictor, Report

State = TypeVar("State")
PerReplica = Float64[np.ndarray, " replicas"]
Active = Bool[np.ndarray, " replicas"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stepped(Generic[State]):
    """Where the steps have led.

    Attributes:
        state: the last one.
        objectives: of each replica, the objective of its steps.
        converged: whether each replica stopped before the limit.
    """

    state: State
    objectives: Sequence[Float64[np.ndarray, " _"]]
    converged: Sequence[bool]


def run_steps(
    state: State,
    step: Callable[[State], tuple[State, PerReplica]],
    kept: Callable[[Active, State, State], State],
    *,
    iterations: int,
    tolerance: float,
    reports: Sequence[Report],
    change: Callable[[State, State], PerReplica] | None = None,
    predictor: Callable[[State, int], Predictor] | None = None,
) -> Stepped[State]:
    """Repeats a step on all replicas until each has stopped by itself.

    A replica stops once its objective rises by at most tolerance × |objective|; from then on its state stays, so that
    it ends where it would have ended alone.

    Args:
        state: to begin with.
        step: from a state to the next one, and the objective of each replica.
        kept: from the replicas that go on, the next state and the one before: the next state of those, the state
            before of the others.
        iterations: limit of steps.
        tolerance: relative; 0 stops only once nothing rises.
        reports: of each replica; one that answers False stops it.
        change: from the state before and the next one, how much each replica's parameters changed, which then has to
            be within the tolerance too; None where the objective alone decides.
        predictor: makes a replica's predictor from a state; None where no unseen items are labelled.
    """
    histories: list[list[float]] = [[] for _ in reports]
    active = np.ones(len(reports), dtype=bool)
    for number in range(iterations):
        updated, objective = step(state)
        rests = np.ones(len(reports), dtype=bool) if change is None else change(state, updated) <= tolerance
        state = updated if active.all() else kept(active, updated, state)
        for replica in np.flatnonzero(active).tolist():
            value, history = float(objective[replica]), histories[replica]
            rises = not history or value - history[-1] > tolerance * abs(value)
            made = None if predictor is None else partial(predictor, state, replica)
            active[replica] = reports[replica](number + 1, value, made) and (rises or not rests[replica])
            history.append(value)
        if not active.any():
            break
    return Stepped(
        state=state,
        objectives=[np.array(history) for history in histories],
        converged=[not running for running in active.tolist()],
    )


def of_items(
    crowds: StackedCrowds,
    active: Active,
    updated: Float64[np.ndarray, " items *shape"],
    before: Float64[np.ndarray, " items *shape"],
) -> Float64[np.ndarray, " items *shape"]:
    """Returns the updated rows of the items of active replicas, those from before of the others."""
    return _chosen(crowds.spread(active), updated, before)


def of_annotators(
    crowds: StackedCrowds,
    active: Active,
    updated: Float64[np.ndarray, " annotators *shape"],
    before: Float64[np.ndarray, " annotators *shape"],
) -> Float64[np.ndarray, " annotators *shape"]:
    """Returns the updated rows of the annotators of active replicas, those from before of the others."""
    return _chosen(active[crowds.annotator_replica], updated, before)


def of_columns(
    crowds: StackedCrowds,
    active: Active,
    updated: Float64[np.ndarray, " columns *shape"],
    before: Float64[np.ndarray, " columns *shape"],
) -> Float64[np.ndarray, " columns *shape"]:
    """Returns the updated rows of the columns of active replicas, those from before of the others."""
    return _chosen(active[crowds.annotator_replica[crowds.column_annotator]], updated, before)


def _chosen(
    rows: Bool[np.ndarray, " rows"],
    updated: Float64[np.ndarray, " rows *shape"],
    before: Float64[np.ndarray, " rows *shape"],
) -> Float64[np.ndarray, " rows *shape"]:
    return np.where(rows.reshape(-1, *(1,) * (updated.ndim - 1)), updated, before)
