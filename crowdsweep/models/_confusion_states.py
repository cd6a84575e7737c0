"""Confusion matrices of single replicas: taken out of a stack, put back, and kept in checkpoints."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
from jaxtyping import Int64

from crowdsweep.models._em import ConfusionColumns
from crowdsweep.models._stacked import StackedCrowds
from crowdsweep.models.checkpoints import State, checked_array


def columns_at(crowds: StackedCrowds, columns: ConfusionColumns, replicas: Sequence[int]) -> ConfusionColumns:
    """Returns copies of the matrices of these replicas, in this order."""
    return ConfusionColumns(
        log_probs=columns.log_probs[joined([crowds.columns_of(replica) for replica in replicas])],
        totals=columns.totals[joined([crowds.annotators_of(replica) for replica in replicas])],
        pseudo_answers=columns.pseudo_answers[list(replicas)],
    )


def set_columns(crowds: StackedCrowds, columns: ConfusionColumns, replica: int, own: ConfusionColumns) -> None:
    """Writes one replica's matrices in place of those that it has."""
    columns.log_probs[crowds.columns_of(replica)] = own.log_probs
    columns.totals[crowds.annotators_of(replica)] = own.totals
    columns.pseudo_answers[replica] = own.pseudo_answers[0]


def columns_state(columns: ConfusionColumns) -> State:
    """Returns the arrays of matrices, for a checkpoint."""
    return {one.name: getattr(columns, one.name).copy() for one in fields(columns)}


def columns_of(state: State, like: ConfusionColumns) -> ConfusionColumns:
    """Returns the matrices of a checkpoint; `like` are others of the same crowd.

    Raises:
        CheckpointRefused: they are of another crowd.
    """
    return ConfusionColumns(
        **{one.name: checked_array(state, one.name, getattr(like, one.name).shape) for one in fields(like)}
    )


def joined(parts: Sequence[slice]) -> Int64[np.ndarray, " places"]:
    """Returns the places of several slices, one behind the other."""
    return np.concatenate([np.arange(part.start, part.stop) for part in parts])
