"""The searches of a sweep: objective, value of each point, importance of hyper-parameters, and selected points."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crowdsweep.analysis.compare import Comparison
from crowdsweep.errors import CrowdsweepError
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.record.naming import describe_dataset
from crowdsweep.record.plan_record import CellRecord
from crowdsweep.record.shown import points_of, shown_searches
from crowdsweep.record.spec import Place, canonical_json
from crowdsweep.record.state import JournalState
from crowdsweep.search.dimensions import Choice, FloatRange, IntRange, Number, Steps
from crowdsweep.search.space import Space

FEWEST_FOR_IMPORTANCES = 10  # points with a value; with fewer, shares of the variance mean nothing


@dataclass(frozen=True, kw_only=True)
class SearchedPoints:
    """The points of a search that have a value.

    Attributes:
        numbers: numbers of the points, ascending.
        values: value of the metric at each point, in its own units.
        params: hyper-parameter → index in `numbers` → value at that point; points without it are left out.
    """

    numbers: Sequence[int]
    values: Sequence[float]
    params: Mapping[str, Mapping[int, Any]]
    log: frozenset[str] = frozenset()
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])


@dataclass(frozen=True, kw_only=True)
class SearchShown:
    """One search: its objective, the value of each point, and the selected points.

    Attributes:
        place: dataset and its parameters, canonical JSON.
        metric, goal: the metric that is searched for, and its direction.
        points: number of a point → its hyper-parameters.
        values: number of a point → its value, None where it failed.
        fresh: number of a selected point → the same metric on fresh seeds, where the report's trials have it.
        importances: hyper-parameter → share of the values' variance that it explains; empty where it is not known.
        ends: hyper-parameter → lowest and highest value of its range, for numeric ranges.
        log: hyper-parameters that were searched on a log scale.
        choices: hyper-parameters that were searched among listed values → these values.
        listed: whether every point of the space was to be tried, so that the sampler had no choice.
        sampler: the sampler that proposed the points; empty where the record does not name it.
        told: name of an earlier sweep → number of its points that the sampler was told of at the start; `points` has
            none of these.
        further: objectives besides the metric (`trade_offs`).
    """

    model: str
    place: Place
    metric: str
    goal: str
    points: Mapping[int, Mapping[str, Any]]
    values: Mapping[int, float | None]
    selected: Sequence[int]
    fresh: Mapping[int, Estimate]
    importances: Mapping[str, float] = field(default_factory=dict[str, float])
    ends: Mapping[str, tuple[Number, Number]] = field(default_factory=dict[str, tuple[Number, Number]])
    log: frozenset[str] = frozenset()
    choices: Mapping[str, Sequence[Any]] = field(default_factory=dict[str, Sequence[Any]])
    among: frozenset[str] = frozenset()
    key: str = ""
    listed: bool = False
    sampler: str = ""
    told: Mapping[str, int] = field(default_factory=dict[str, int])
    further: Sequence[str] = ()

    @property
    def dataset(self) -> str:
        """The dataset and its parameters, in words."""
        return describe_dataset(*self.place, self.among)

    @property
    def scored(self) -> SearchedPoints:
        """The points that have a value, as figures use them, with the hyper-parameters that took several values, the
        most important first."""
        numbers = [number for number in sorted(self.points) if self.values.get(number) is not None]
        names = dict.fromkeys(name for number in numbers for name in self.points[number])
        columns = {
            name: {place: self.points[n][name] for place, n in enumerate(numbers) if name in self.points[n]}
            for name in names
        }
        varied = {name: own for name, own in columns.items() if len({canonical_json(v) for v in own.values()}) > 1}
        order = sorted(varied, key=lambda name: -self.importances.get(name, 0.0))
        values = [value for number in numbers if (value := self.values[number]) is not None]
        return SearchedPoints(
            numbers=numbers,
            values=values,
            params={name: varied[name] for name in order},
            log=self.log,
            choices=self.choices,
        )


def searches(state: JournalState, comparison: Comparison) -> Iterator[SearchShown]:
    """Yields every search that has proposed a point."""
    rescored = {
        (block.dataset, block.dataset_params, score.model, score.point): score
        for block in comparison.datasets
        for score in [*block.scores, *block.other_points]
    }
    for search in shown_searches(state):
        points = points_of(state, search)
        selected = [number for number in state.selected.get(search.key, ()) if number in points]
        scores = {n: rescored.get((*search.place, search.label, canonical_json(dict(points[n])))) for n in selected}
        values = {number: value for number, value in state.values.get(search.key, {}).items() if number in points}
        space = _space(state, search)
        yield SearchShown(
            key=search.key,
            sampler=search.sampler,
            told=Counter(point.source for point in told.points) if (told := state.told.get(search.key)) else {},
            listed=space is not None and space.size is not None and space.size <= search.points,
            model=search.label,
            place=search.place,
            metric=search.metric,
            goal=search.goal,
            further=search.further,
            points=points,
            values=values,
            selected=selected,
            fresh={n: one.metrics[search.metric] for n, one in scores.items() if one and search.metric in one.metrics},
            importances=_importances(space, points, values),
            ends={} if space is None else dict(_ends(space)),
            log=frozenset() if space is None else frozenset(_log(space)),
            choices={} if space is None else dict(_choices(space)),
            among=frozenset(row.dataset for row in state.plan.datasets),
        )


def _space(state: JournalState, search: CellRecord) -> Space | None:
    """Returns the space of a search, from the sweep file in the record; None where that has no valid one."""
    for entry in state.config.get("models", ()):
        named = entry.get("datasets") or [search.dataset]
        if (entry.get("label") or entry["name"]) == search.label and search.dataset in named and entry.get("search"):
            try:
                return Space.parse(entry["search"])
            except (CrowdsweepError, ValueError, TypeError, KeyError):  # a record of another version
                return None
    return None


def _importances(
    space: Space | None, points: Mapping[int, Mapping[str, Any]], values: Mapping[int, float | None]
) -> dict[str, float]:
    known = [(points[number], value) for number, value in sorted(values.items()) if value is not None]
    if space is None or len(known) < FEWEST_FOR_IMPORTANCES:
        return {}
    from crowdsweep.search.importances import importances  # noqa: PLC0415 - Optuna takes half a second to import

    try:
        return importances(space, known)
    except (ValueError, KeyError):  # a point of another version of the space
        return {}


def _ends(space: Space) -> Iterator[tuple[str, tuple[Number, Number]]]:
    for name, dimension in space.dimensions.items():
        match dimension:
            case IntRange() | FloatRange():
                yield name, (dimension.low, dimension.high)
            case Steps():
                yield name, (dimension.low, dimension.at(dimension.size - 1))
            case Choice() if dimension.size > 2 and all(type(value) in (int, float) for value in dimension.values):
                yield name, (min(dimension.values), max(dimension.values))
            case _:
                continue


def _log(space: Space) -> Iterator[str]:
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, FloatRange | Steps) and dimension.log:
            yield name


def _choices(space: Space) -> Iterator[tuple[str, Sequence[Any]]]:
    for name, dimension in space.dimensions.items():
        if isinstance(dimension, Choice):
            yield name, dimension.values
