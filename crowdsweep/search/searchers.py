"""Which searcher a sweep's sampler means."""

from crowdsweep.search.contract import Goal, PointSearcher, Sampler
from crowdsweep.search.grid import GridPoints
from crowdsweep.search.space import Space


def make_searcher(space: Space, sampler: Sampler, goal: Goal, limit: int) -> PointSearcher:
    """Returns what proposes the points of one search.

    A space with no more points than `limit` is listed whole, whatever the sampler: nothing could do better. Optuna
    takes half a second to import, so that happens only where it is needed.

    Args:
        space: what is searched.
        sampler: how points are proposed.
        goal: which way values are better.
        limit: most points ever proposed.

    Raises:
        SpaceError: a grid is asked for, and the space is not finite.
    """
    if sampler.kind == "grid" or (space.size is not None and space.size <= limit):
        return GridPoints(space, limit)
    from crowdsweep.search.optuna_points import OptunaPoints  # noqa: PLC0415

    return OptunaPoints(space, sampler, goal, limit)
