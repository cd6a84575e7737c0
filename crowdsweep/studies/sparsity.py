"""The sparsity study: what happens as the number of annotators grows while the number of labels stays the same.

Ever more annotators label the same items, and each of them gives ever fewer labels. A simulated crowd is drawn anew for
every seed. The annotators of a real crowd are split: the labels stay, under ever more names. Every model gets the same
draw. The question and the axis are those of the Crowd Mixture Model's first experiment.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.metrics.wording import readable, words
from crowdsweep.studies.axis import ModelsAlong, along_axis, change_words, curve_over, first_metric, shown
from crowdsweep.studies.contract import (
    Curve,
    StudyReport,
    StudyResults,
    StudySetting,
    StudyTable,
    StudyTemplate,
    expand_datasets,
    whole_numbers,
)
from crowdsweep.studies.costs_along import costs_table, growing
from crowdsweep.studies.crossovers import crossovers
from crowdsweep.sweepfile.records import DatasetEntry, SweepConfig

_AXIS = "annotators"
_QUALITY = ("test_accuracy", "train_accuracy", "dev_accuracy")
_BESIDE = ("js_annotators", "js_global", "heldout_loglik")
_ACTIVE = "n_active_annotators"


def plans(knobs: Mapping[str, Any], config: SweepConfig) -> SweepConfig:
    """Returns the sweep with every dataset (`gaussians` where it names none) at each number of annotators."""
    entries = tuple(config.datasets) or (DatasetEntry(name="gaussians"),)
    return expand_datasets(config, entries, _AXIS, knobs[_AXIS])


def summarise(results: StudyResults, knobs: Mapping[str, Any]) -> StudyReport:
    """Returns the report: quality against the number of annotators, what it costs, and which models gain or lose.

    The curves are of accuracy, divergences and held-out likelihood.
    """
    table, gold = results.table, results.gold_models
    metric = first_metric(table, _QUALITY)
    if metric is None:
        return StudyReport(title=TEMPLATE.title, findings=["No trial has finished yet."])
    found = along_axis(table, _AXIS, [metric, *_BESIDE, _ACTIVE])
    findings: list[str] = []
    curves: list[Curve] = []
    tables: list[StudyTable] = []
    for dataset, models in found.items():
        findings += _findings(dataset, {name: models[name] for name in models if name not in gold}, metric)
        heldout = results.scored_by(dataset).heldout
        for name in (metric, *_BESIDE):
            if any(point.by_seed.get(name) for points in models.values() for point in points.values()):
                title = f"{dataset}: {readable(name)} against annotators"
                x_label = "annotators (log scale)"
                curves.append(
                    curve_over(models, name, gold=gold, title=title, x_label=x_label, log_x=True, heldout=heldout)
                )
                tables.append(_table(dataset, models, name, knobs[_AXIS], heldout))
        title = f"{dataset}: seconds per trial, peak memory"
        tables.append(costs_table(title, models, _AXIS, knobs[_AXIS]))
    return StudyReport(
        title=TEMPLATE.title,
        findings=findings,
        curves=curves,
        tables=tables,
        notes=[
            "Each seed has its own crowd, or split of a real one; at one seed and size all models have the same rows.",
            "Averages over annotators run over the active ones: those who gave at least one label.",
        ],
    )


def _table(dataset: str, models: ModelsAlong, metric: str, axis: Sequence[int], heldout: float) -> StudyTable:
    names = [name for name in sorted(models) if any(point.by_seed.get(metric) for point in models[name].values())]
    active = {size: _active(models, size) for size in axis}
    with_active = any(active.values())
    rows = [
        [
            f"{size:,}",
            *([active[size]] if with_active else []),
            *(
                shown(metric, point.estimate(metric, heldout)) if (point := models[n].get(size)) else None
                for n in names
            ),
        ]
        for size in axis
    ]
    return StudyTable(
        title=f"{dataset}: {readable(metric)}",
        columns=["annotators", *(["active"] if with_active else []), *names],
        rows=rows,
        note="mean ± half the 95 % interval over crowd draws",
    )


def _active(models: ModelsAlong, size: int) -> str | None:
    for points in models.values():
        if size in points and (found := points[size].estimate(_ACTIVE)) is not None:
            return f"{found.mean:,.0f}"
    return None


def _findings(dataset: str, models: ModelsAlong, metric: str) -> list[str]:
    sizes = sorted({size for points in models.values() for size in points if size is not None})
    best = {size: leader for size in sizes if (leader := _leader(models, metric, size)) is not None}
    if not best:
        return []
    parts = [f"{model} with {size:,} ({shown(metric, found)})" for size, (model, found) in best.items()]
    findings = [f"{dataset}: best {words(metric)}: {', '.join(parts)}."]
    low, high = min(best), max(best)
    changes = {name: change for name in models if (change := _change(models, metric, name, low, high)) is not None}
    if low < high and changes:
        order = sorted(changes, key=lambda name: (changes[name].mean, name))
        moves = [f"{name} {change_words(changes[name], metric)}" for name in order]
        findings.append(
            f"{dataset}: from {low:,} to {high:,} annotators {words(metric)} changes as follows: {'; '.join(moves)}."
        )
    findings += [f"{dataset}: {one.words('annotators')}." for one in crossovers(models, metric)]
    return findings + [f"{dataset}: {told}." for told in growing(models, "number of annotators")]


def _leader(models: ModelsAlong, metric: str, size: int) -> tuple[str, Estimate] | None:
    known = {
        name: found
        for name, points in sorted(models.items())
        if size in points and (found := points[size].estimate(metric)) is not None
    }
    return max(known.items(), key=lambda pair: pair[1].mean) if known else None


def _change(models: ModelsAlong, metric: str, name: str, low: int, high: int) -> Estimate | None:
    """Returns the change of a model's metric from one end of the axis to the other, paired by seed.

    The result is None where the model has no results at an end, or no seed has both.
    """
    points = models[name]
    if low not in points or high not in points:
        return None
    first, last = points[low].by_seed.get(metric, {}), points[high].by_seed.get(metric, {})
    common = sorted(first.keys() & last.keys())
    return estimate([last[seed] - first[seed] for seed in common]) if common else None


TEMPLATE = StudyTemplate(
    name="sparsity",
    title="What happens as the number of annotators grows?",
    knobs={
        _AXIS: StudySetting(
            default=(100, 500, 1500, 3500, 6000, 10000),
            about="numbers of annotators: of a simulated crowd, or that a real one is split into",
            check=whole_numbers(1),
        )
    },
    plans=plans,
    summarise=summarise,
    axis=_AXIS,
    along="annotators",
)
