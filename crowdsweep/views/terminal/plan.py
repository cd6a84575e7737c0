"""A plan in words: the models of each dataset, how many trials they take, and about how long."""

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from crowdsweep.metrics.wording import words
from crowdsweep.record.naming import dataset_words, told_words
from crowdsweep.record.spec import canonical_json
from crowdsweep.sweep.plan import Plan
from crowdsweep.sweep.plan_summary import plan_summary
from crowdsweep.units import counted, listed, rough_words
from crowdsweep.views.terminal.grid import Column, Grid, render

_COLUMNS = (
    Column(title="model"),
    Column(title="trials", right=True),
    Column(title="time", right=True),
    Column(title="searched", wraps=True),
)


def describe_plan(plan: Plan, width: int | None = None) -> str:
    """Returns the plan in words: a table with a line per cell or search, then the sum, and notes.

    Models that do not state their cost are fitted for a moment.
    """
    summary = plan_summary(plan)
    among = {dataset.name for dataset in plan.datasets}
    sizes = {
        dataset_words(dataset.name, dataset.params, among): _sizes(row)
        for dataset, row in zip(plan.datasets, summary["datasets"], strict=True)
    }
    cells = [*plan.cells, *(search.cell for search in plan.searches)]
    rows = [*summary["cells"], *summary["searches"]]
    groups: dict[str, list[list[str]]] = {name: [] for name in sizes}
    for cell, row in zip(cells, rows, strict=True):
        groups[dataset_words(cell.dataset.name, cell.dataset.params, among)].append(_row(row))
    if width is None:
        table = render(Grid(columns=_COLUMNS, groups=groups, group="dataset"), None)
        lines = [*(f"dataset {name}: {told}" for name, told in sizes.items()), table]
    else:
        told = {"\n".join(textwrap.wrap(f"{name} · {sizes[name]}", width)): found for name, found in groups.items()}
        lines = [render(Grid(columns=_COLUMNS, groups=told), width), ""]
    trials = summary["trials"]
    unknown = sum(row["seconds"] is None for row in rows)
    lines.append(
        f"{trials['total']} trials ({trials['search']} search, {trials['report']} report), with start and end roughly "
        f"{rough_words(summary['slot_seconds_low'])} to {rough_words(summary['slot_seconds_high'])} on one slot"
        + (f", and what takes an unknown time ({unknown} of the lines above)" if unknown else "")
    )
    lines += [*_searched(plan), *(f"note: {note}" for note in summary["notes"])]
    if width is not None:
        lines[2:] = [textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in lines[2:]]
    return "\n".join([f"sweep {summary['name']}", *lines])


def _searched(plan: Plan) -> Iterator[str]:
    """Yields what is fixed and what is searched of each model, as it was understood, and how many seeds there are."""
    budget, seeds = plan.config.budget, plan.config.seeds
    for model in plan.config.models:
        fixed = ", ".join(f"{name} {canonical_json(value)}" for name, value in model.params.items())
        space = "; ".join(str(model.space).splitlines()) if model.space.dimensions else ""
        said = [*([f"fixed {fixed}"] if fixed else []), *([f"searched {space}"] if space else [])]
        if said:
            yield f"{model.label}: {'; '.join(said)}"
    best = "the best point" if seeds.rescored == 1 else f"the best {seeds.rescored} points"
    told = f"each searched point on {counted(seeds.search, 'seed')}, {best} of each search on {seeds.report} others"
    said = [*([told] if plan.searches else []), *([f"each fixed point on {seeds.report}"] if plan.cells else [])]
    limits = "" if budget.hours is None else f"; it stops after {budget.hours:g} hours of all its runs"
    yield f"seeds: {'; '.join(said)}{limits}"


def _sizes(row: Mapping[str, Any]) -> str:
    crowd = "annotators unknown" if row["annotators"] is None else counted(row["annotators"], "annotator")
    others = (counted(row["annotations"], "annotation"), counted(row["classes"], "class"))
    return ", ".join((counted(row["items"], "training item"), crowd, *others))


def _row(row: Mapping[str, Any]) -> list[str]:
    searched = ""
    if "points" in row:
        objectives = listed([words(name) for name in (row["metric"], *row["further"])])
        searched = f"{row['points']} points by {objectives}; sampler {row['sampler']}"
        searched += f" ({row['sampler_because']})" if row["sampler_because"] else ""
    searched += f"; {told_words(row['told'])}" if row.get("told") else ""
    searched += f"; {row['early_stop']}" if row.get("early_stop") else ""
    return [row["label"], str(row["trials"]), _time_of(row), searched]


def _time_of(row: Mapping[str, Any]) -> str:
    if row["seconds"] is None:
        return "unknown"
    return f"~{rough_words(row['seconds'])}" + (" (measured)" if row["told_by"] == "pilot" else "")
