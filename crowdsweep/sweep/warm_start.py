"""Warm starts of searches, by points that earlier sweeps tried for the same model on the same data.

A search is told an earlier point if its own trial of that point would be the earlier trial in all but the seed: same
model and version, hyper-parameters, data and held-out share. The point must also lie in the search's space, have been
searched by the same metric, and have a value of each of the search's further objectives. Points that failed are left
out, since what failed in an earlier sweep need not fail in this one.

What a search was told is written into the sweep's own record before the search proposes anything, and is read from
there ever after. So the search continues as it began, whatever becomes of the earlier sweeps. The names of the earlier
sweeps are part of the search's key.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

from crowdsweep.errors import BadInput, CrowdsweepError, SweepFileError
from crowdsweep.record.events import PointsTold, ToldPoint
from crowdsweep.record.journal import read_journal
from crowdsweep.record.plan_record import CellRecord
from crowdsweep.record.shown import points_of, shown_searches
from crowdsweep.record.spec import TrialSpec, canonical_json
from crowdsweep.record.state import JournalState
from crowdsweep.record.store_uri import Store, store_named
from crowdsweep.record.stores import has_journal
from crowdsweep.search.searchers import GP_POINTS
from crowdsweep.sweep.cells import Search
from crowdsweep.sweepfile.records import SweepConfig
from crowdsweep.sweepfile.warm_start import source_of


@dataclass(frozen=True, kw_only=True)
class _EarlierSearch:
    """A search of an earlier sweep.

    Attributes:
        asked: the search as recorded in that sweep's plan.
        points: one trial of each point that has a value, and the point's values by objective, in the order of the
            search; at least one point.
    """

    asked: CellRecord
    points: Sequence[tuple[TrialSpec, Mapping[str, float]]]


def recorded_of(config: SweepConfig, store: Store) -> Mapping[str, PointsTold]:
    """Returns what the searches of a sweep were told, by key of the search, from the sweep's own record.

    The result is empty where the sweep has not begun or has no warm start.

    Raises:
        JournalError: the record cannot be read.
    """
    return read_journal(store).told if config.sampler.warm_start and has_journal(store) else {}


def warm_started(
    config: SweepConfig, searches: Sequence[Search], recorded: Mapping[str, PointsTold]
) -> tuple[list[Search], list[str]]:
    """Returns the searches with the points that each is told first, and sentences about them for the user.

    The earlier sweeps are read only where the record lacks what a search was told.

    Args:
        searches: the searches of its plan, in the order of the file.
        recorded: what searches were told in an earlier run of this sweep, by key of the search.

    Raises:
        SweepFileError: an earlier sweep cannot be read, or has nothing for any search that learns.
    """
    stores = config.sampler.warm_start
    learning = [search for search in searches if search.sampler.learns]
    if not stores:
        return [*searches], []
    if not learning:
        return [*searches], ["sampler.warm_start does nothing in this sweep: no search of it learns from points"]
    told = {search.key: list(recorded[search.key].points) for search in learning if search.key in recorded}
    fresh = [search for search in learning if search.key not in recorded]
    notes: list[str] = []
    for number, store in enumerate(stores if fresh else ()):
        where, source = f"{config.source or config.name}: sampler.warm_start.{number}", source_of(store)
        earlier = _searches_of(store, where)
        lacks: dict[str, list[str]] = {}
        for search in fresh:
            found = _points_of(search, earlier, source)
            told[search.key] = [*told.get(search.key, ()), *found]
            if not found:
                named = f"{search.cell.label} on {search.cell.dataset}"
                lacks.setdefault(_why_nothing(search, earlier), []).append(named)
        if not any(point.source == source for points in told.values() for point in points):
            raise SweepFileError(f"{where}: {store} holds nothing for a search of this sweep: {'; '.join(lacks)}")
        notes += [
            f"{source} has nothing to learn from for the search of {', '.join(named)}: {why}"
            for why, named in lacks.items()
        ]
    return [replace(search, told=_first_told(search, told.get(search.key, ()))) for search in searches], notes


def _searches_of(store: str, where: str) -> list[_EarlierSearch]:
    try:
        state = read_journal(store_named(store))
    except CrowdsweepError as error:
        raise SweepFileError(f"{where}: {error}") from None
    trials = {
        (role.search, canonical_json(dict(role.point))): state.specs[key]
        for key, roles in state.roles.items()
        for role in roles
        if role.phase == "search"
    }
    found = [
        _EarlierSearch(asked=search, points=list(_scored(state, search, trials))) for search in shown_searches(state)
    ]
    return [one for one in found if one.points]


def _scored(
    state: JournalState, search: CellRecord, trials: Mapping[tuple[str, str], TrialSpec]
) -> Iterable[tuple[TrialSpec, Mapping[str, float]]]:
    values, further = state.values.get(search.key, {}), state.further.get(search.key, {})
    for number, point in points_of(state, search).items():
        value, trial = values.get(number), trials.get((search.key, canonical_json(dict(point))))
        if value is not None and trial is not None:
            known = {search.metric: value, **dict(zip(search.further, further.get(number, ()), strict=False))}
            if all(map(isfinite, known.values())):
                yield trial, known


def _points_of(search: Search, earlier: Iterable[_EarlierSearch], source: str) -> list[ToldPoint]:
    """Returns the points of an earlier sweep that a search is told, in the order in which that sweep tried them."""
    told: list[ToldPoint] = []
    for one in earlier:
        if (one.asked.metric, one.asked.goal) != (search.metric.name, search.metric.goal):
            continue
        for trial, values in one.points:
            if not values.keys() >= {*search.metric.further}:
                continue
            if trial.model == search.cell.info.name and trial.fingerprint == search.cell.dataset.base.fingerprint:
                point = search.space.point_in(trial.params)
                if point is not None and _is_same(search, point, trial):
                    further = tuple(values[name] for name in search.metric.further)
                    told.append(
                        ToldPoint(point=point, value=values[search.metric.name], source=source, further=further)
                    )
    return told


def _is_same(search: Search, point: Mapping[str, object], trial: TrialSpec) -> bool:
    """Whether the search's own trial of this point would be the earlier trial in all but the seed."""
    try:
        (own,) = search.cell.specs([trial.seed], "search", point, search.heldout)
    except BadInput:  # the model refuses the point with the hyper-parameters fixed here
        return False
    return own.cell_key == trial.cell_key


def _why_nothing(search: Search, earlier: Sequence[_EarlierSearch]) -> str:
    """Returns why an earlier sweep has no point for a search, in words."""
    model, data = search.cell.info.name, search.cell.dataset
    alike = [one for one in earlier if one.points[0][0].model == model]
    if not alike:
        return f"it has no point of {model} that was scored in a search"
    params = canonical_json(dict(data.params))
    alike = [one for one in alike if one.points[0][0].fingerprint == data.base.fingerprint]
    alike = [one for one in alike if canonical_json(dict(one.points[0][0].dataset_params)) == params]
    if not alike:
        return f"it searched {model} on other data"
    metrics = {one.asked.metric for one in alike}
    if search.metric.name not in metrics:
        return f"it searched {model} by {', '.join(sorted(metrics))}, not by {search.metric.name}"
    lacks = [name for name in search.metric.further if all(name not in one.points[0][1] for one in alike)]
    if lacks:
        return f"{', '.join(lacks)} was no objective of its search of {model}"
    return f"its points of {model} lie outside of the space, or were fitted with other settings or another version"


def _first_told(search: Search, points: Sequence[ToldPoint]) -> tuple[ToldPoint, ...]:
    """Returns each point once, with the value of the first sweep that has it.

    Every point makes the proposals of a Gaussian process more expensive. So of many points it is told `GP_POINTS`,
    spread evenly over their ranked values, the best included.
    """
    once: dict[str, ToldPoint] = {}
    for point in points:
        once.setdefault(canonical_json(dict(point.point)), point)
    told = list(once.values())
    if search.sampler.kind == "gp" and len(told) > GP_POINTS:
        sign = -1.0 if search.metric.goal == "maximize" else 1.0
        ranked = sorted(range(len(told)), key=lambda place: sign * told[place].value)
        kept = sorted(ranked[place * len(told) // GP_POINTS] for place in range(GP_POINTS))
        told = [told[place] for place in kept]
    return tuple(told)
