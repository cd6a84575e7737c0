"""The estimated seconds of trials before any is run: by the cost formula of their model, else by a short pilot of it.

Both are rough, so a plan shows a range: a factor says by how much the seconds may be off in either direction.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from crowdsweep.data.splits import prepare
from crowdsweep.errors import BadInput
from crowdsweep.models import registered
from crowdsweep.models.contract import DataShape
from crowdsweep.record.spec import digest
from crowdsweep.search.space import Space
from crowdsweep.sweep.cells import Cell
from crowdsweep.sweep.pilot import Pilots

OPERATIONS_PER_SECOND = 2e8
"""Operations of a cost formula per second, for one trial of a batch on one core."""
TRIAL_OVERHEAD_S = 0.03
"""Seconds for preparing a trial's data, its scores and its record."""
POINTS_PRICED = 24
"""Number of points of a search over which its cost is averaged."""
FACTORS: Mapping[str, float] = {"formula": 5.0, "pilot": 2.0}
"""Source of an estimate → factor by which its seconds may be off."""

CostFormula = Callable[[DataShape, Mapping[str, Any]], float]


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """The estimated seconds of one trial on one slot, and the source of the estimate."""

    seconds: float
    source: Literal["formula", "pilot"]


def cost_by_formula(formula: CostFormula, shape: DataShape, params: Mapping[str, Any]) -> float:
    """Returns the seconds of one trial by a cost formula."""
    return TRIAL_OVERHEAD_S + formula(shape, params) / OPERATIONS_PER_SECOND


def cost_of(cell: Cell, pilots: Pilots, space: Space | None = None) -> CostEstimate | None:
    """Returns the estimated cost of one trial of a cell; None where neither a formula nor a pilot gives one.

    Args:
        pilots: fit models that have no formula, with searched hyper-parameters at their defaults.
        space: the searched space, over which a formula is averaged; None for a cell without a search.
    """
    shape = cell.dataset.offer.shape
    if cell.info.cost is not None:
        costs = [cost_by_formula(cell.info.cost, shape, params) for params in _priced(cell, space)]
        return CostEstimate(seconds=sum(costs) / len(costs), source="formula")
    base, dataset_params = cell.dataset.base, cell.dataset.params
    key = digest({"model": cell.info.name, "params": cell.params, "dataset": base.fingerprint})
    measured = pilots.cost(key, cell.info, cell.params, lambda: prepare(base, dataset_params, seed=0))
    if measured is None:
        return None
    return CostEstimate(seconds=TRIAL_OVERHEAD_S + measured.seconds(shape.n_annotations), source="pilot")


def cost_row(estimate: CostEstimate | None, trials: int) -> dict[str, Any]:
    """Returns the seconds of that many trials, as a row of a plan's summary."""
    if estimate is None:
        return {"trials": trials, "seconds": None, "seconds_low": None, "seconds_high": None, "told_by": "nothing"}
    total, factor = estimate.seconds * trials, FACTORS[estimate.source]
    return {
        "trials": trials,
        "seconds": total,
        "seconds_low": total / factor,
        "seconds_high": total * factor,
        "told_by": estimate.source,
    }


def _priced(cell: Cell, space: Space | None) -> list[Mapping[str, Any]]:
    """Returns the hyper-parameters of points that represent a whole search; the defaults where there are none."""
    found: list[Mapping[str, Any]] = []
    for point in [] if space is None else space.spread(POINTS_PRICED):
        with suppress(BadInput):  # a point that its model refuses costs nothing
            found.append(registered.full_params(cell.info.name, {**cell.fixed, **point}))
    return found or [cell.params]
