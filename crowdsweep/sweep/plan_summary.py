"""What a plan says of itself before any trial runs: its datasets, cells and searches, with their estimated cost."""

from collections import Counter
from contextlib import closing
from typing import Any

from crowdsweep.sweep.cells import Cell, PlannedDataset, Search
from crowdsweep.sweep.cost_estimate import cost_of, cost_row
from crowdsweep.sweep.early_stop import early_stop_words
from crowdsweep.sweep.pilot import Pilots
from crowdsweep.sweep.plan import Plan

START_LOW_S, START_HIGH_S = 3.0, 40.0
"""Seconds for the start of a driver and its processes and for the report: on a quiet machine, on a busy one."""


def plan_summary(plan: Plan) -> dict[str, Any]:
    """Returns a plan as JSON-able data. Seconds are of one slot, and rough.

    `estimated_slot_seconds` counts the trials alone. The range from `slot_seconds_low` to `slot_seconds_high`
    includes the start of a driver and the writing of the report. Models without a cost formula are fitted for a
    moment (`pilot`).
    """
    with closing(Pilots()) as pilots:
        cells = [{**_row(cell), **cost_row(cost_of(cell, pilots), len(cell.report_seeds))} for cell in plan.cells]
        searches = [_search_row(search, pilots) for search in plan.searches]
    return {
        "name": plan.config.name,
        "datasets": [_dataset_row(dataset) for dataset in plan.datasets],
        "cells": cells,
        "searches": searches,
        "refused": [{"label": one.label, "dataset": str(one.dataset), "reason": one.reason} for one in plan.refused],
        "trials": {"search": plan.n_search, "report": plan.n_report, "total": plan.n_trials},
        "estimated_slot_seconds": sum(row["seconds"] or 0.0 for row in [*cells, *searches]),
        "slot_seconds_low": START_LOW_S + sum(row["seconds_low"] or 0.0 for row in [*cells, *searches]),
        "slot_seconds_high": START_HIGH_S + sum(row["seconds_high"] or 0.0 for row in [*cells, *searches]),
        "notes": plan.notes,
    }


def _row(cell: Cell) -> dict[str, Any]:
    return {"model": cell.info.name, "label": cell.label, "dataset": str(cell.dataset), "fixed": dict(cell.fixed)}


def _search_row(search: Search, pilots: Pilots) -> dict[str, Any]:
    return {
        **_row(search.cell),
        "search": search.key,
        "metric": search.metric.name,
        "goal": search.metric.goal,
        "further": list(search.metric.further),
        "space": search.space.to_mapping(),
        "points": search.limit,
        "sampler": search.sampler.kind,
        "sampler_because": search.because,
        "told": dict(Counter(point.source for point in search.told)),
        "early_stop": early_stop_words(search),
        **cost_row(cost_of(search.cell, pilots, search.space), search.n_search + search.n_report),
    }


def _dataset_row(dataset: PlannedDataset) -> dict[str, Any]:
    shape = dataset.offer.shape
    return {
        "dataset": str(dataset),
        "fingerprint": dataset.base.fingerprint,
        "items": shape.n_items,
        "annotators": None if dataset.offer.anonymous else shape.n_annotators,
        "annotations": shape.n_annotations,
        "classes": shape.n_classes,
        "features": shape.n_features,
    }
