"""Repeating a step on several replicas side by side, until each has converged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from crowdsweep.models._stacked import StackedCrowds
from crowdsweep.models.contract import FitResult, Predictor, Report

State = TypeVar("State")
PerReplica = Float64[np.ndarray, " replicas"]
Active = Bool[np.ndarray, " replicas"]
Axis = Literal["replicas", "items", "annotators", "columns"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Stepped(Generic[State]):
    """The result of `run_steps`.

    Attributes:
        converged: whether each replica stopped before the limit.
    """

    state: State
    objectives: Sequence[Float64[np.ndarray, " _"]]
    converged: Sequence[bool]

    def result(self, replica: int, **fields: Any) -> FitResult:
        """Returns the result of a replica: how its fit went, and these fields of `FitResult`."""
        objective = self.objectives[replica]
        return FitResult(objective=objective, converged=self.converged[replica], iterations=len(objective), **fields)


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
    """Repeats a step on all replicas until each has converged.

    A replica stops once its objective rises by at most tolerance × |objective|; from then on its state is kept, so that
    it ends as it would have ended alone.

    Args:
        step: from a state to the next one, and the objective of each replica.
        kept: from the replicas that continue, the next state and the one before, returns the next state of these and
            the state before of the others (`keeping`, `kept_rows`).
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


def kept_rows(
    crowds: StackedCrowds,
    axis: Axis,
    active: Active,
    updated: Shaped[np.ndarray, " rows *shape"],
    before: Shaped[np.ndarray, " rows *shape"],
) -> Shaped[np.ndarray, " rows *shape"]:
    """Returns the updated rows of active replicas, and the rows before of the others."""
    match axis:
        case "replicas":
            chosen = active
        case "items":
            chosen = crowds.spread(active)
        case "annotators":
            chosen = active[crowds.annotator_replica]
        case "columns":
            chosen = active[crowds.column_replica]
    return np.where(chosen.reshape(-1, *(1,) * (updated.ndim - 1)), updated, before)


def keeping(crowds: StackedCrowds, **axes: Axis) -> Callable[[Active, State, State], State]:
    """Returns the `kept` of `run_steps` for a state that is a dataclass of arrays.

    Args:
        axes: what the rows of each field are of; all fields have to be named.
    """

    def kept(active: Active, updated: State, before: State) -> State:
        arrays = vars(updated)
        if arrays.keys() != axes.keys():
            raise TypeError(f"expected the axes of {', '.join(arrays)}; got those of {', '.join(axes)}")
        rows = {name: kept_rows(crowds, axes[name], active, arrays[name], vars(before)[name]) for name in axes}
        return cast(State, replace(cast(Any, updated), **rows))

    return kept
