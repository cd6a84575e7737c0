"""Results of searches of several objectives: every point by all objectives, and the Pareto front.

The values of a point are those that its search used: means over the search seeds. Intervals vary over these seeds. The
values on the front are optimistic, as the points were selected by them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa

from crowdsweep.analysis.searches import SearchShown
from crowdsweep.errors import BadInput
from crowdsweep.metrics.dominance import on_front
from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.metrics.metric_table import Goal, by_held_out
from crowdsweep.metrics.wording import goal_of
from crowdsweep.record.objectives import objective_of
from crowdsweep.record.result import Status, TrialResult
from crowdsweep.record.shown import ShownTrial
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState


@dataclass(frozen=True, kw_only=True)
class TradeOffPoint:
    """A point of a search, with its value by each objective.

    Attributes:
        values: estimate of each objective, over the search seeds.
        on_front: whether no other point is better in one objective and as good in all others.
        on_plane: the same by the first two objectives alone, which a figure shows.
    """

    number: int
    point: Mapping[str, Any]
    values: Sequence[Estimate]
    on_front: bool
    on_plane: bool


@dataclass(frozen=True, kw_only=True)
class TradeOffs:
    """The points of one search of several objectives that have values.

    Attributes:
        objectives: names of the objectives; the one that selects a point comes first.
        points: points, the best by the first objective first.
    """

    search: SearchShown
    objectives: Sequence[str]
    goals: Sequence[Goal]
    points: Sequence[TradeOffPoint]

    @property
    def front(self) -> list[TradeOffPoint]:
        """The points on the Pareto front."""
        return [point for point in self.points if point.on_front]


def trade_offs(
    state: JournalState, searches: Iterable[SearchShown], trials: Iterable[ShownTrial]
) -> dict[str, TradeOffs]:
    """Returns search key → its trade-offs, for searches of several objectives that have scored a point."""
    several = [search for search in searches if search.further and state.further.get(search.key)]
    if not several:
        return {}
    fits: dict[tuple[str, str], list[tuple[float, TrialResult]]] = {}
    for trial in trials:
        result = state.results.get(trial.spec.key)
        if trial.spec.phase == "search" and result is not None and result.status is not Status.FAILED:
            key = trial.search, canonical_json(dict(trial.spec.point))
            fits.setdefault(key, []).append((trial.spec.heldout_fraction, result))
    found = (_of_search(state, search, fits) for search in several)
    return {one.search.key: one for one in found if one.points}


def _of_search(
    state: JournalState, search: SearchShown, fits: Mapping[tuple[str, str], Sequence[tuple[float, TrialResult]]]
) -> TradeOffs:
    names, told = (search.metric, *search.further), state.further[search.key]
    goals: list[Goal] = [goal for name in names if (goal := goal_of(name))]
    values = {
        number: (value, *told[number])
        for number, value in search.values.items()
        if value is not None and len(told.get(number, ())) == len(search.further) == len(goals) - 1
    }
    values = {number: own for number, own in values.items() if all(map(isfinite, own))}
    if not values:  # also where a record of another version has an objective that this version does not know
        return TradeOffs(search=search, objectives=names, goals=goals, points=())
    numbers = sorted(values, key=lambda number: -values[number][0] if goals[0] == "maximize" else values[number][0])
    array = np.array([values[number] for number in numbers]).reshape(len(numbers), len(names))
    front, plane = on_front(array, goals), on_front(array[:, :2], goals[:2])
    points = [
        TradeOffPoint(
            number=number,
            point=search.points[number],
            values=[
                _estimate(name, value, fits.get((search.key, canonical_json(dict(search.points[number]))), ()))
                for name, value in zip(names, values[number], strict=True)
            ],
            on_front=bool(front[place]),
            on_plane=bool(plane[place]),
        )
        for place, number in enumerate(numbers)
    ]
    return TradeOffs(search=search, objectives=names, goals=goals, points=points)


def _estimate(name: str, told: float, fits: Sequence[tuple[float, TrialResult]]) -> Estimate:
    """Returns the value that the search used, with the interval over the seeds of its fits where there are any."""
    seeds = [value for _, result in fits if (value := objective_of(result, name)) is not None]
    if not seeds:
        return Estimate(n=1, mean=told)
    return replace(estimate(seeds, metric=name, heldout=fits[0][0] if by_held_out(name) else 0.0), mean=told)


def front_table(state: JournalState, found: Iterable[TradeOffs]) -> pa.Table:
    """Returns the points on the front of every search as a flat table, in the metrics' own units (memory in MiB).

    Columns are sweep, model, dataset and its parameters, number of the point, its hyper-parameters (canonical JSON),
    whether it was selected, and one per objective with the mean over the search seeds.

    Raises:
        BadInput: no search of the sweep has several objectives, or none has scored a point.
    """
    rows = [
        {
            "sweep": state.name,
            "model": one.search.model,
            "dataset": one.search.place[0],
            "dataset_params": one.search.place[1],
            "number": point.number,
            "point": canonical_json(dict(point.point)),
            "selected": point.number in one.search.selected,
            **{name: value.mean for name, value in zip(one.objectives, point.values, strict=True)},
        }
        for one in found
        for point in one.front
    ]
    if not rows:
        raise BadInput(
            f"sweep {state.name!r} has no Pareto front: none of its searches has scored a point by several objectives; "
            f"`metric: [dev_accuracy, seconds]` in the sweep file sets two"
        )
    return pa.Table.from_pylist(rows)
