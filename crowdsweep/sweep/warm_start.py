"""Warm starts of searches: points that earlier sweeps tried for the same model on the same data.

A point is told where a trial of it would be the trial that was run then, but for the seed: the same model and version,
the same hyper-parameters, data and held-out share; and where it lies in the space of today and was searched by the same
metric, with a value of every further objective of today. Points that failed are left out, as what failed there need not
fail here.

What a search was told is written into its own record before it proposes anything, and is read from there ever after:
so it goes on as it began, whatever becomes of the earlier sweeps. Which sweeps it is told from is a part of its key, by
their names.
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
        asked: as its plan had it.
        points: a trial of each point that has a value, and its values by objective, in the order of the search; at
            least one.
    """

    asked: CellRecord
    points: Sequence[tuple[TrialSpec, Mapping[str, float]]]


def recorded_of(config: SweepConfig, store: Store) -> Mapping[str, PointsTold]:
    """Returns what the searches of a sweep were told, as its own record has it; nothing where it has not begun, or is
    told nothing.

    Raises:
        JournalError: the record cannot be read.
    """
    return read_journal(store).told if config.sampler.warm_start and has_journal(store) else {}


def warm_started(
    config: SweepConfig, searches: Sequence[Search], recorded: Mapping[str, PointsTold]
) -> tuple[list[Search], list[str]]:
    """Returns the searches with what each is told first, and what a person should know of it, in sentences. The earlier
    sweeps are read only where the record lacks what a search was told.

    Args:
        config: of the sweep.
        searches: of its plan, in the order of the file.
        recorded: what was told in an earlier run, by the key of the search.

    Raises:
        SweepFileError: an earlier sweep cannot be read, or has nothing for any search that learns.
    """
    stores = config.sampler.warm_start
    learning = [search for search in searches if search.chosen.learns]
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
            found = _told_by(search, earlier, source)
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


def _told_by(search: Search, earlier: Iterable[_EarlierSearch], source: str) -> list[ToldPoint]:
    """Returns the points of an earlier sweep that a search is told, in the order in which they were tried."""
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
    """Whether a trial of this point would be that one, but for the seed."""
    try:
        (own,) = search.cell.specs([trial.seed], "search", point, search.heldout)
    except BadInput:  # with what is fixed here, the model does not take it
        return False
    return own.cell_key == trial.cell_key


def _why_nothing(search: Search, earlier: Sequence[_EarlierSearch]) -> str:
    """Returns why an earlier sweep tells a search nothing, in words."""
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
    """Returns each point once, as the first sweep that has it says. What a Gaussian process proposes costs more with
    each point: of many, it is told so many that lie evenly among their values, the best of them included."""
    once: dict[str, ToldPoint] = {}
    for point in points:
        once.setdefault(canonical_json(dict(point.point)), point)
    told = list(once.values())
    if search.chosen.kind == "gp" and len(told) > GP_POINTS:
        sign = -1.0 if search.metric.goal == "maximize" else 1.0
        ranked = sorted(range(len(told)), key=lambda place: sign * told[place].value)
        kept = sorted(ranked[place * len(told) // GP_POINTS] for place in range(GP_POINTS))
        told = [told[place] for place in kept]
    return tuple(told)
