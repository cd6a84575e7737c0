"""The searcher of a sweep's sampler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crowdsweep.search.contract import Goal, PointSearcher, Sampler, SamplerKind
from crowdsweep.search.dimensions import Choice
from crowdsweep.search.grid import GridPoints
from crowdsweep.search.space import Space

GP_POINTS = 200
"""Most points of a Gaussian process, whose proposals cost more with each point."""

GP_DIMENSIONS = 6
"""Most numbers that it is trusted to learn by so few points."""


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What proposes the points of one search.

    Attributes:
        kind: of sampler.
        why: in words; empty where the sweep file names it.
    """

    kind: SamplerKind
    why: str

    @property
    def learns(self) -> bool:
        """Whether what it proposes depends on the values of earlier points."""
        return self.kind not in ("grid", "random")


def chosen_for(space: Space, sampler: Sampler, limit: int, *, several: bool = False) -> Chosen:
    """Returns which sampler a search has.

    A space with no more points than `limit` is listed whole, whatever the sampler: nothing could do better. Left to
    choose, a Gaussian process searches small spaces of numbers, and the tree-structured Parzen estimator all others
    (measured by `tests/benchmarks/samplers.py`), and those of several objectives: there a Gaussian process takes most
    of a second of each point, and found less in a real search (`tests/benchmarks/trade_offs.py`).

    Args:
        space: what is searched.
        sampler: as the sweep has it.
        limit: most points ever proposed.
        several: whether it has several objectives.
    """
    if space.size is not None and space.size <= limit:
        return Chosen(kind="grid", why=f"the budget covers all {space.size} points of the space")
    if sampler.kind != "auto":
        return Chosen(kind=sampler.kind, why="")
    if several:
        return Chosen(kind="tpe", why="several objectives")
    if any(isinstance(dimension, Choice) for dimension in space.dimensions.values()):
        return Chosen(kind="tpe", why="some hyper-parameters are from lists")
    if len(space.dimensions) > GP_DIMENSIONS:
        return Chosen(kind="tpe", why=f"the space has more than {GP_DIMENSIONS} hyper-parameters")
    if limit > GP_POINTS:
        return Chosen(kind="tpe", why=f"the budget is more than {GP_POINTS} points")
    return Chosen(kind="gp", why="a small space of numbers alone")


def make_searcher(
    space: Space,
    sampler: Sampler,
    goal: Goal,
    limit: int,
    told: Sequence[tuple[Mapping[str, Any], Sequence[float]]] = (),
    further: Sequence[Goal] = (),
) -> PointSearcher:
    """Returns what proposes the points of one search. Optuna takes half a second to import, so that happens only where
    it is needed.

    Args:
        space: what is searched.
        sampler: how points are proposed; of the kind that `chosen_for` returns.
        goal: which way values are better.
        limit: most points ever proposed.
        told: points of earlier searches and their values of each objective, for a sampler that learns.
        further: which way values of the further objectives are better.

    Raises:
        SpaceError: a grid is asked for, and the space is not finite.
    """
    if sampler.kind == "grid":
        return GridPoints(space, limit)
    from crowdsweep.search.optuna_points import OptunaPoints  # noqa: PLC0415

    return OptunaPoints(space, sampler, goal, limit, told, further)
