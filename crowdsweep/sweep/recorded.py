"""A plan and its sweep file as the journal keeps them."""

from typing import Any

from crowdsweep.record.plan_record import CellRecord, DatasetRecord, PlanRecord, RefusedRecord
from crowdsweep.record.result import MOST_CLASSES_INLINE
from crowdsweep.record.shown_uri import without_credentials
from crowdsweep.sweep.cells import Cell
from crowdsweep.sweep.plan import Plan
from crowdsweep.sweepfile.read import config_to_mapping
from crowdsweep.sweepfile.records import SweepConfig


def recorded_config(config: SweepConfig) -> dict[str, Any]:
    """Returns the sweep file with every default, without what lets one in where it is tracked or told of."""
    mapping = config_to_mapping(config)
    for section, key in (("tracking", "uri"), ("notify", "url")):
        if uri := mapping[section].get(key):
            mapping[section][key] = without_credentials(uri)
    return mapping


def recorded_plan(plan: Plan) -> PlanRecord:
    """Returns what a plan asks for."""
    n_seeds = len(plan.report_seeds)
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
        cells=tuple(_cell(cell, cell.key, n_trials=n_seeds) for cell in plan.cells),
        searches=tuple(
            _cell(
                search.cell,
                search.key,
                points=search.limit,
                sampler=search.chosen.kind,
                n_trials=plan.trials_of(search),
            )
            for search in plan.searches
        ),
        report_seeds=n_seeds,
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
