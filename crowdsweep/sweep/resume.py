"""The plan and the journal: what is recorded of a plan before any trial runs, and what the journal holds of it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from crowdsweep.errors import plain, shortened
from crowdsweep.record.events import PointsTold
from crowdsweep.record.naming import short_name
from crowdsweep.record.plan_record import CellRecord, DatasetRecord, PlanRecord, RefusedRecord
from crowdsweep.record.result import MOST_CLASSES_INLINE
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState
from crowdsweep.sweep.cells import Cell
from crowdsweep.sweep.plan import Plan
from crowdsweep.sweepfile.read import config_to_mapping
from crowdsweep.sweepfile.records import SweepConfig


def recorded_config(config: SweepConfig) -> dict[str, Any]:
    """Returns the sweep file with every default, without the credentials in the URLs of tracking and notification."""
    mapping = config_to_mapping(config)
    for section, key in (("tracking", "uri"), ("notify", "url")):
        if uri := mapping[section].get(key):
            mapping[section][key] = without_credentials(uri)
    return mapping


def recorded_plan(plan: Plan) -> PlanRecord:
    """Returns the record of a plan."""
    return PlanRecord(
        datasets=tuple(
            DatasetRecord(
                dataset=dataset.name,
                dataset_params=dataset.params,
                gold=dataset.offer.scored,
                heldout=dataset.report_heldout,
                class_names=_few(dataset.offer.class_names),
            )
            for dataset in plan.datasets
        ),
        cells=tuple(_cell(cell, cell.key, n_trials=len(cell.report_seeds)) for cell in plan.cells),
        searches=tuple(
            _cell(
                search.cell,
                search.key,
                points=search.limit,
                sampler=search.sampler.kind,
                n_trials=search.n_search + search.n_report,
            )
            for search in plan.searches
        ),
        report_seeds=plan.config.seeds.report,
        n_trials=plan.n_trials,
        refused=tuple(
            RefusedRecord(
                label=one.label, dataset=one.dataset.name, dataset_params=one.dataset.params, reason=one.reason
            )
            for one in plan.refused
        ),
    )


def _few(class_names: tuple[str, ...]) -> tuple[str, ...]:
    return class_names if len(class_names) <= MOST_CLASSES_INLINE else ()


def _cell(cell: Cell, key: str, *, points: int = 0, sampler: str = "", n_trials: int) -> CellRecord:
    return CellRecord(
        key=key,
        label=cell.label,
        model=cell.info.name,
        dataset=cell.dataset.name,
        dataset_params=cell.dataset.params,
        params=cell.fixed,
        sees_gold="gold" in cell.needs,
        metric=cell.metric.name,
        goal=cell.metric.goal,
        further=cell.metric.further if points else (),
        points=points,
        sampler=sampler,
        n_trials=n_trials,
    )


def warm_start_events(plan: Plan, state: JournalState) -> list[PointsTold]:
    """Returns events of what the searches are told of earlier sweeps, where the journal lacks them.

    A search that is told nothing gets an event too, since the earlier sweeps may still grow.
    """
    if not plan.config.sampler.warm_start:
        return []
    new = [search for search in plan.searches if search.sampler.learns and search.key not in state.told]
    return [PointsTold(search=search.key, points=search.told) for search in new]


def data_changes(plan: Plan, state: JournalState) -> list[str]:
    """Returns a sentence for each dataset that has changed since its finished trials ran.

    There is none where a trial on the present data has finished already.
    """
    done: dict[tuple[str, str], Counter[str]] = {}
    for spec in (state.specs[key] for key in state.results if key in state.specs):  # plans may be lost (`repair`)
        done.setdefault(spec.place, Counter())[spec.fingerprint] += 1
    classes = {
        (one.dataset, canonical_json(dict(one.dataset_params))): one.class_names
        for event in state.started
        for one in event.plan.datasets
    }
    changed: Counter[str] = Counter()
    reordered: dict[str, str] = {}
    among = {dataset.name for dataset in plan.datasets}
    for dataset in plan.datasets:
        place = dataset.name, canonical_json(dict(dataset.params))
        earlier = done.get(place, Counter())
        if earlier and dataset.base.fingerprint not in earlier:
            changed[dataset.name] += earlier.total()
            then, now = classes.get(place, ()), dataset.offer.class_names
            if then != now and sorted(then) == sorted(now):
                reordered[dataset.name] = (
                    f" (its classes are now in the order {_listed(now)}, and were in the order {_listed(then)}: where "
                    f"you changed nothing, this version of crowdsweep orders them otherwise than the earlier one)"
                )
    return [
        f"{short_name(name, among)} has changed since the last run{reordered.get(name, '')}: everything on it is run "
        f"again on its data of now; the {number} finished trials on the earlier ones are kept, and left out of the "
        f"report"
        for name, number in changed.items()
    ]


def _listed(class_names: Iterable[str]) -> str:
    return shortened(", ".join(map(plain, class_names)))


def hours_spent(state: JournalState, slots: int) -> float:
    """Returns the hours that earlier drivers worked on a sweep.

    A driver that died left no record of its end. So the result is the larger of two times: that of the drivers that
    ended well, and that of all finished trials on `slots` slots.
    """
    begun = [event.time for event in state.started]
    spans = [
        event.time - max((time for time in begun if time <= event.time), default=event.time) for event in state.finished
    ]
    trials = sum(result.wall_s for result in state.results.values())
    return max(sum(spans), trials / max(1, slots)) / 3600
