"""Chooses the sampler of a search, and makes its searcher."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from crowdsweep.search.contract import Goal, PointSearcher, Sampler
from crowdsweep.search.dimensions import Choice
from crowdsweep.search.grid import GridPoints
from crowdsweep.search.space import Space

GP_POINTS = 200
"""Most points for which a Gaussian process is chosen, whose proposals take longer with each point."""

GP_DIMENSIONS = 6
"""Most hyper-parameters for which a Gaussian process is chosen."""


def chosen_for(space: Space, sampler: Sampler, limit: int, *, several: bool = False) -> tuple[Sampler, str]:
    """Returns the sampler of a search, and why it is that one; the reason is empty where the sweep file names it.

    A space with no more points than `limit` is listed completely, whatever the sampler, since no other can do better.
    Otherwise the sweep's sampler is taken. For one objective, `auto` means a Gaussian process in small spaces of
    numbers (`GP_DIMENSIONS`, `GP_POINTS`), and the tree-structured Parzen estimator in all others (measured by
    `tests/benchmarks/samplers.py`). For several objectives it means the latter: a Gaussian process takes most of a
    second for each point there, and found less in a real search (`tests/benchmarks/trade_offs.py`).

    Args:
        limit: largest number of proposals.
        several: whether the search has several objectives.
    """
    if space.size is not None and space.size <= limit:
        return replace(sampler, kind="grid"), f"the budget covers all {space.size} points of the space"
    if sampler.kind != "auto":
        return sampler, ""
    tpe = replace(sampler, kind="tpe")
    if several:
        return tpe, "several objectives"
    if any(isinstance(dimension, Choice) for dimension in space.dimensions.values()):
        return tpe, "some hyper-parameters are from lists"
    if len(space.dimensions) > GP_DIMENSIONS:
        return tpe, f"the space has more than {GP_DIMENSIONS} hyper-parameters"
    if limit > GP_POINTS:
        return tpe, f"the budget is more than {GP_POINTS} points"
    return replace(sampler, kind="gp"), "a small space of numbers only"


def make_searcher(
    space: Space,
    sampler: Sampler,
    goal: Goal,
    limit: int,
    told: Sequence[tuple[Mapping[str, Any], Sequence[float]]] = (),
    further: Sequence[Goal] = (),
) -> PointSearcher:
    """Returns the searcher of one search. Imports Optuna, which takes half a second, only where it is needed.

    Args:
        sampler: settings of the sampler, of the kind that `chosen_for` returns.
        told: points of earlier searches and their values of each objective, for a sampler that learns.

    Raises:
        SpaceError: the sampler is `grid`, and the space is not finite.
    """
    if sampler.kind == "grid":
        return GridPoints(space, limit)
    from crowdsweep.search.optuna_points import OptunaPoints  # noqa: PLC0415

    return OptunaPoints(space, sampler, goal, limit, told, further)
