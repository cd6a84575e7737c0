"""A sweep's results as MLflow shows them: a top run with the report, and runs of cells named by rank and score."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import yaml

from crowdsweep.analysis.compare import DatasetComparison, ModelScore
from crowdsweep.analysis.phrases import verdict
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.metrics.wording import is_share, readable, words
from crowdsweep.record.naming import dataset_words
from crowdsweep.record.result import Status
from crowdsweep.record.shown import ShownTrial, datasets_of, one_each, points_of, shown_searches, shown_trials
from crowdsweep.record.spec import canonical_json
from crowdsweep.record.state import JournalState
from crowdsweep.tracking.run_records import BETWEEN, PREFIX, cell_name, params_of
from crowdsweep.tracking.sweep_page import (
    HIGH,
    LOW,
    POINT,
    RANK,
    RANKED,
    SCORE,
    SEARCHED,
    CellShown,
    SweepPage,
    store_id,
)
from crowdsweep.views.tables.texts import as_markdown, to_markdown

SWEEP_FILE = "sweep.yaml"
Place = tuple[str, str, str, str]
"""Label, dataset, its parameters, point: the key of the cell that a trial of the report belongs to."""


def sweep_page(found: AnalysedSweep, files: Mapping[str, bytes]) -> SweepPage:
    """Returns what MLflow is to show of a sweep."""
    state, shown, blocks = found.state, found.trials, found.comparison.datasets
    trials = one_each(shown_trials(state, every=True)).values()
    counted = {_place(trial): trial for trial in shown if trial.chosen}
    points, searches = _points(state, shown)
    ranked = dict(_ranked(blocks, counted, points))
    results = [state.results.get(trial.spec.key) for trial in trials if trial.asked]
    statuses = Counter(result.status for result in results if result is not None)
    best = next((cell for cell in ranked.values() if cell.metrics.get(RANK) == 1.0), None)
    config = json.loads(json.dumps(dict(state.config)))
    return SweepPage(
        sweep=state.name,
        store=store_id(state.started[0]) if state.started else "",
        description=[_described(block) for block in blocks] or ["No trial has finished yet."],
        tags={PREFIX + "state": state.status, **{f"{PREFIX}trials_{one}": str(statuses[one]) for one in Status}},
        metrics={name: best.metrics[name] for name in (SCORE, LOW, HIGH) if name in best.metrics}
        if best and len(blocks) == 1
        else {},
        files={**files, SWEEP_FILE: yaml.safe_dump(config, sort_keys=False, allow_unicode=True).encode()},
        cells={trial.spec.cell_key: CellShown(name=cell_name(trial)) for trial in trials} | points | ranked,
        compared={
            "Compare the ranked models": list(ranked),
            # A comparison opens with the first metric of its first run, which for a ranked run is not the search's.
            **{title: sorted(keys, key=lambda key: key in ranked) for title, keys in searches.items()},
        },
        params=_differing(shown),
    )


def _points(state: JournalState, shown: Sequence[ShownTrial]) -> tuple[dict[str, CellShown], dict[str, list[str]]]:
    """Returns the cells of searched points, by key; and for each search the title of a comparison of its points, with
    their keys, best first."""
    cells: dict[str, CellShown] = {}
    compared: dict[str, list[str]] = {}
    for number, search in enumerate(shown_searches(state)):
        values = {
            canonical_json(dict(point)): state.values.get(search.key, {}).get(place)
            for place, point in points_of(state, search).items()
        }
        scored: dict[str, tuple[float, ShownTrial]] = {}
        for trial in shown:
            value = values.get(canonical_json(dict(trial.spec.point)))
            if trial.search == search.key and trial.spec.phase == "search" and value is not None:
                scored[trial.spec.cell_key] = (value, trial)
        sign = -1.0 if search.goal == "maximize" else 1.0
        order = sorted(scored, key=lambda key: sign * scored[key][0])
        for place, key in enumerate(order):
            value, trial = scored[key]
            cells[key] = CellShown(
                name=cell_name(trial), order=f"{POINT}.{number:06d}.{place:06d}", metrics={SEARCHED: _rounded(value)}
            )
        title = as_markdown(
            f"{search.label} on {dataset_words(search.dataset, search.dataset_params, datasets_of(state.plan))}"
        )
        compared[f"Compare the {len(order)} points of {title}: hyper-parameters against {words(search.metric)}"] = order
    return cells, compared


def _ranked(
    blocks: Sequence[DatasetComparison], counted: Mapping[Place, ShownTrial], points: Mapping[str, CellShown]
) -> Iterator[tuple[str, CellShown]]:
    """Yields the cells that have a score, by key: on each dataset ranked ones first, then those that saw gold."""
    for number, block in enumerate(blocks):
        for place, score in enumerate([*block.ranked, *block.gold]):
            trial = counted.get((score.model, block.dataset, block.dataset_params, score.point))
            if trial is None:
                continue
            spec = trial.spec
            named = trial.on
            beginning = "gold" if score.rank is None else str(score.rank)
            searched = points[spec.cell_key].metrics if spec.cell_key in points else {}
            yield (
                spec.cell_key,
                CellShown(
                    name=BETWEEN.join((beginning, score.model, named, _worth(score, block.metric))),
                    order=f"{RANKED}.{number:06d}.{place:06d}",
                    metrics={**searched, **_numbers(score, block.metric)},
                ),
            )


def _numbers(score: ModelScore, metric: str) -> dict[str, float]:
    estimate = score.metrics[metric]
    found = {RANK: score.rank, SCORE: estimate.mean, LOW: estimate.low, HIGH: estimate.high}
    found["wall_s"] = None if score.wall_s is None else score.wall_s.mean
    return {name: _rounded(float(value)) for name, value in found.items() if value is not None}


def _rounded(value: float) -> float:
    """Returns a number short enough for a column; the metrics that it summarises have all digits."""
    return float(f"{value:.4g}")


def _worth(score: ModelScore, metric: str) -> str:
    mean = score.metrics[metric].mean
    return f"{100 * mean:.1f} %" if is_share(metric) else f"{mean:.4g}"


def _described(block: DatasetComparison) -> str:
    """Returns the answer for a dataset and its ranking, in Markdown."""
    title = as_markdown(dataset_words(block.dataset, json.loads(block.dataset_params), block.among))
    lines = [f"**{title}.** {as_markdown(verdict(block))}"]
    if block.ranked:
        columns: dict[str, list[Any]] = {"rank": [], "model": [], readable(block.metric): [], "95 % interval": []}
        for score in block.ranked:
            estimate = score.metrics[block.metric]
            interval = (
                "" if estimate.low is None else f"{_amount(estimate.low, block)} to {_amount(estimate.high, block)}"
            )
            row = (str(score.rank), score.model, _amount(estimate.mean, block), interval)
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
        lines.append(to_markdown(pa.table(columns)))
    return "\n\n".join(lines)


def _amount(value: float | None, block: DatasetComparison) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}" if is_share(block.metric) else f"{value:.4g}"


def _place(trial: ShownTrial) -> Place:
    return trial.label, *trial.spec.place, canonical_json(dict(trial.spec.point))


def _differing(trials: Sequence[ShownTrial]) -> list[str]:
    """Returns the hyper-parameters and dataset parameters that differ between these trials, with those that were
    searched first."""
    searched = {name for trial in trials for name in trial.spec.point}
    values: dict[str, set[str]] = {}
    params_by_cell = {trial.spec.cell_key: params_of(trial.spec) for trial in trials}
    for params in params_by_cell.values():
        for name, value in params.items():
            values.setdefault(name, set()).add(value)
    several = [name for name, found in values.items() if name != "model" and len(found) > 1]
    return sorted({*several, *searched}, key=lambda name: (name not in searched, name))
