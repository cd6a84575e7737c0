"""Checks of a model's result before anything is computed from it.

A plug-in may return anything. A part that breaks the contract of `FitResult` raises `FitFailed`, which fails one trial.
"""

import operator
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from crowdsweep.arrays import ItemProbs
from crowdsweep.data.dataset import TrainingData
from crowdsweep.errors import FitFailed
from crowdsweep.models.contract import FitResult
from crowdsweep.models.fitting import check_item_probs
from crowdsweep.trial.model_calls import ModelFault, guarded, legible

ROUNDING = 1e-6
"""How far a probability may lie outside [0, 1]; the sum of a row may differ from 1 by a thousand times as much."""


def checked_fit(given: FitResult, data: TrainingData) -> FitResult:
    """Returns a fit after checking that its parts have the types and shapes that `FitResult` promises.

    Raises:
        FitFailed: a part has another type or shape, or is no probability.
        ModelFault: a part raised an exception when it was read.
    """
    for name in ("label_probs", "unseen_label_probs"):
        function = getattr(given, name)
        if function is not None and not callable(function):
            raise FitFailed(f"expected {name} as a function, got {kind_of(function)}")
    _check_has(given.annotators, "annotators", ("confusion", "global_confusion"))
    _check_has(given.predictor, "predictor", ("uses", "predict"))
    probs = array_of(given.item_probs, "item probabilities")
    objective = array_of(given.objective, "the objective").astype(np.float64)
    if objective.ndim != 1:
        raise FitFailed(f"expected the objective as one value for each step, got shape {objective.shape}")
    check_item_probs(probs, data)
    check_probabilities(probs, "item probabilities", rows_sum_to_one=data.scale != "multilabel")
    return replace(
        given,
        item_probs=probs,
        objective=objective,
        iterations=_whole_number(given.iterations),
        converged=bool(array_of(given.converged, "converged", ()).item()),
        extras=_named_arrays(given.extras),
    )


def array_of(value: Any, what: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Returns a value as an array of numbers.

    Args:
        what: its name in messages.
        shape: the shape that it must have; None for any.

    Raises:
        FitFailed: the value is no array of numbers, or has another shape.
    """
    try:
        array = guarded(np.asarray)(value)
    except ModelFault as fault:
        raise FitFailed(f"expected {what} as an array of numbers, got {kind_of(value)}: {fault}") from fault
    if array.dtype.kind not in "fiub":
        raise FitFailed(f"expected {what} as an array of numbers, got {kind_of(value)} of {array.dtype}")
    if shape is not None and array.shape != shape:
        raise FitFailed(f"expected {what} of shape {shape}, got {array.shape}")
    return array


def check_probabilities(probs: ItemProbs, what: str, *, rows_sum_to_one: bool) -> None:
    """Checks that finite numbers are probabilities, up to `ROUNDING`.

    Raises:
        FitFailed: a number lies outside [0, 1], or a row does not sum to one (where `rows_sum_to_one`).
    """
    if not probs.size:
        return
    for value in (probs.min(), probs.max()):
        if not -ROUNDING <= value <= 1 + ROUNDING:
            raise FitFailed(f"expected {what} between 0 and 1, got {value:g}")
    if rows_sum_to_one:
        sums = probs.sum(axis=-1)
        worst = sums.flat[int(np.abs(sums - 1).argmax())]
        if abs(worst - 1) > 1000 * ROUNDING:
            raise FitFailed(f"expected {what} that sum to one for each item, got a sum of {worst:g}")


def kind_of(value: Any) -> str:
    """Returns the name of a value's type, for messages."""
    return "None" if value is None else legible(type(value).__name__, 100)


def _whole_number(value: Any) -> int:
    try:
        return int(guarded(operator.index)(value))
    except ModelFault as fault:
        raise FitFailed(f"expected iterations as a whole number, got {kind_of(value)}") from fault


def _named_arrays(extras: Any) -> dict[str, np.ndarray]:
    if not isinstance(extras, Mapping):
        raise FitFailed(f"expected extras as arrays by name, got {kind_of(extras)}")
    given: Mapping[Any, Any] = extras
    pairs = guarded(list)(given.items())
    found: dict[str, np.ndarray] = {}
    for name, value in pairs:
        if not isinstance(name, str):
            raise FitFailed(f"expected the name of an extra as text, got {kind_of(name)}")
        try:
            found[legible(name, 100)] = guarded(np.asarray)(value)
        except ModelFault as fault:
            raise FitFailed(f"extra {legible(name, 100)!r}: expected an array, got {kind_of(value)}") from fault
    return found


def _check_has(part: Any, what: str, names: tuple[str, ...]) -> None:
    if part is None:
        return
    for name in names:
        if not guarded(hasattr)(part, name):
            raise FitFailed(f"expected {what} with {' and '.join(names)}, got {kind_of(part)}, which has no {name}")
