"""How many labels an item needs before further ones change little.

The annotations of a dataset are thinned to r labels per item (seeded and nested: the labels kept at r = 2 are among
those kept at r = 5), for several r, beside the full set. Every model meets the same thinned sample at the same seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from crowdsweep.errors import SweepFileError
from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.metrics.wording import is_share, readable
from crowdsweep.studies.axis import AxisPoint, ModelsAlong, along_axis, curve_over, first_metric, shown
from crowdsweep.studies.contract import (
    Cell,
    Curve,
    Knob,
    StudyReport,
    StudyTable,
    StudyTemplate,
    expand_datasets,
    gold_models,
    positive_number,
    whole_numbers,
)
from crowdsweep.sweepfile.records import SweepConfig

_AXIS = "redundancy"
# Report trials have a held-out likelihood only where nothing else can tell: there, accuracy is against their own votes.
_QUALITY = ("test_accuracy", "heldout_loglik", "train_accuracy", "dev_accuracy")


@dataclass(frozen=True, kw_only=True)
class Need:
    """How many labels per item one model needs.

    Attributes:
        enough: smallest r whose mean is within the tolerance of the full set's; None where no r tried is.
        possibly: smallest r that the interval of the difference does not rule out; None where it rules out all.
        surely: smallest r whose whole interval is within the tolerance; None where no r tried is.
        full: the model's mean with all labels.
    """

    enough: int | None
    possibly: int | None
    surely: int | None
    full: Estimate


@dataclass(frozen=True, kw_only=True)
class Match:
    """A model with few labels, and a cheaper model that does as well with more.

    Attributes:
        labels, model, mean: what is matched.
        cheaper, cheaper_labels, cheaper_mean: by what; None labels are all labels.
        wall_s, cheaper_wall_s: mean seconds of a trial of each.
    """

    labels: int
    model: str
    mean: float
    wall_s: float
    cheaper: str
    cheaper_labels: int | None
    cheaper_mean: float
    cheaper_wall_s: float


def plans(knobs: Mapping[str, Any], config: SweepConfig) -> SweepConfig:
    """Returns the sweep on every dataset for each number of labels per item, and on the full set.

    Raises:
        SweepFileError: the sweep names no dataset.
    """
    if not config.datasets:
        raise SweepFileError(
            f"{config.source or config.name}: study redundancy: expected at least one dataset, got none"
        )
    return expand_datasets(config, tuple(config.datasets), _AXIS, [*knobs["labels_per_item"], None])


def summarise(table: pa.Table, knobs: Mapping[str, Any]) -> StudyReport:
    """Returns the curve of accuracy against labels per item, the need of each model, and the cheaper matches."""
    metric = first_metric(table, _QUALITY)
    if metric is None:
        return StudyReport(title=TEMPLATE.title, findings=["No trial has finished yet."])
    gold, tolerance = gold_models(table), knobs["tolerance"]
    findings: list[str] = []
    curves: list[Curve] = []
    tables: list[StudyTable] = []
    for dataset, models in along_axis(table, _AXIS, [metric]).items():
        able = {name: points for name, points in models.items() if any(p.by_seed.get(metric) for p in points.values())}
        competitors = {name: points for name, points in able.items() if name not in gold}
        needs = {n: need for n, points in competitors.items() if (need := need_of(points, metric, tolerance))}
        matches = cheaper_matches(competitors, metric)
        findings += [_need_sentence(dataset, name, need, metric, tolerance) for name, need in sorted(needs.items())]
        curves.append(_curve(dataset, able, metric, gold))
        tables += [_means(dataset, able, metric), _need_table(dataset, needs, metric, tolerance)]
        if matches:
            tables.append(_match_table(dataset, matches, metric))
    return StudyReport(
        title=TEMPLATE.title,
        findings=findings,
        curves=curves,
        tables=tables,
        notes=[
            "Thinned samples are nested and drawn anew for each seed; items with fewer labels keep all they have.",
            "Differences to the full set are paired by seed; their 95 % intervals say what is possibly, surely enough.",
        ],
    )


def need_of(points: Mapping[int | None, AxisPoint], metric: str, tolerance: float) -> Need | None:
    """Returns how many labels per item a model needs, None where the full set has not been scored.

    Args:
        tolerance: loss against the full set that does not matter, in the metric's units.
    """
    full = points.get(None)
    whole = full.by_seed.get(metric) if full is not None else None
    if not whole:
        return None
    losses: dict[int, Estimate] = {}
    for labels in sorted(labels for labels in points if labels is not None):
        here = points[labels].by_seed.get(metric, {})
        if common := sorted(whole.keys() & here.keys()):
            losses[labels] = estimate([whole[seed] - here[seed] for seed in common])
    slack = tolerance + 1e-12
    return Need(
        enough=next((r for r, loss in losses.items() if loss.mean <= slack), None),
        possibly=next((r for r, loss in losses.items() if _or(loss.low, loss.mean) <= slack), None),
        surely=next((r for r, loss in losses.items() if _or_never(loss) <= slack), None),
        full=estimate([whole[seed] for seed in sorted(whole)]),
    )


def cheaper_matches(models: ModelsAlong, metric: str) -> list[Match]:
    """Returns, for the best model at each number of labels, the cheaper models that do as well with more labels.

    Cheaper means fewer seconds a trial there, on average; of each cheaper model the smallest number counts.
    """
    sizes = sorted({labels for points in models.values() for labels in points if labels is not None})
    matches: list[Match] = []
    for labels in sizes:
        here = {n: found for n, points in models.items() if (found := _mean_at(points, labels, metric)) is not None}
        if not here:
            continue
        best = max(sorted(here), key=lambda name: here[name])
        for name in sorted(models):
            for more in [*(size for size in sizes if size > labels), None]:
                mean = _mean_at(models[name], more, metric)
                if name == best or mean is None or mean < here[best]:
                    continue
                seconds, fewer = _seconds(models[best], labels), _seconds(models[name], more)
                if fewer < seconds:
                    matches.append(
                        Match(
                            labels=labels,
                            model=best,
                            mean=here[best],
                            wall_s=seconds,
                            cheaper=name,
                            cheaper_labels=more,
                            cheaper_mean=mean,
                            cheaper_wall_s=fewer,
                        )
                    )
                    break
    return matches


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _or_never(loss: Estimate) -> float:
    """Returns the upper end of a loss; a constant one is its own end, a single seed is never sure."""
    if loss.high is not None:
        return loss.high
    return loss.mean if loss.constant else float("inf")


def _mean_at(points: Mapping[int | None, AxisPoint], labels: int | None, metric: str) -> float | None:
    found = points[labels].estimate(metric) if labels in points else None
    return None if found is None else found.mean


def _seconds(points: Mapping[int | None, AxisPoint], labels: int | None) -> float:
    return estimate(points[labels].wall_s).mean


def _sizes(models: ModelsAlong) -> list[int]:
    return sorted({labels for points in models.values() for labels in points if labels is not None})


def _curve(dataset: str, models: ModelsAlong, metric: str, gold: frozenset[str]) -> Curve:
    sizes = _sizes(models)
    end = sizes[-1] + max(1.0, 0.15 * (sizes[-1] - sizes[0])) if sizes else 1.0
    return curve_over(
        models,
        metric,
        gold=gold,
        title=f"{dataset}: {readable(metric)} against labels per item",
        x_label="labels per item",
        x_ticks={**{float(size): str(size) for size in sizes}, end: "all"},
        x_of_none=end,
    )


def _means(dataset: str, models: ModelsAlong, metric: str) -> StudyTable:
    names = sorted(models)
    rows: list[list[Cell]] = [
        [
            "all" if labels is None else str(labels),
            *(shown(metric, models[n][labels].estimate(metric)) if labels in models[n] else None for n in names),
        ]
        for labels in [*_sizes(models), None]
    ]
    return StudyTable(
        title=f"{dataset}: {readable(metric)}",
        columns=["labels per item", *names],
        rows=rows,
        note="mean ± half the 95 % interval over seeds",
    )


def _need_table(dataset: str, needs: Mapping[str, Need], metric: str, tolerance: float) -> StudyTable:
    rows: list[list[Cell]] = [
        [name, *(_or_more(r) for r in (need.enough, need.possibly, need.surely)), shown(metric, need.full)]
        for name, need in sorted(needs.items())
    ]
    return StudyTable(
        title=f"{dataset}: how many labels per item are enough (within {_amount(metric, tolerance)} of all labels)",
        columns=["model", "enough", "possibly enough", "surely enough", "with all labels"],
        rows=rows,
    )


def _match_table(dataset: str, matches: list[Match], metric: str) -> StudyTable:
    scale, digits = (100.0, 1) if is_share(metric) else (1.0, 3)
    rows: list[list[Cell]] = [
        [
            match.labels,
            match.model,
            f"{scale * match.mean:.{digits}f}",
            f"{match.wall_s:.3g}",
            match.cheaper,
            "all" if match.cheaper_labels is None else match.cheaper_labels,
            f"{scale * match.cheaper_mean:.{digits}f}",
            f"{match.cheaper_wall_s:.3g}",
        ]
        for match in matches
    ]
    return StudyTable(
        title=f"{dataset}: where a cheaper model with more labels does as well",
        columns=["labels", "best model", "mean", "seconds", "cheaper model", "its labels", "its mean", "its seconds"],
        rows=rows,
    )


def _need_sentence(dataset: str, model: str, need: Need, metric: str, tolerance: float) -> str:
    within = f"within {_amount(metric, tolerance)} of what it reaches with all labels ({shown(metric, need.full)})"
    if need.enough is None:
        return f"{dataset}: {model} needs more labels per item than were tried to come {within}."
    low = need.enough if need.possibly is None else min(need.possibly, need.enough)
    ending = "more than were tried are needed to be sure" if need.surely is None else f"{need.surely} to be sure"
    noun = "label" if need.enough == 1 else "labels"
    between = f"possibly {low}, {ending}" if low != need.enough else ending
    return f"{dataset}: {model} needs {need.enough} {noun} per item ({between}) to come {within}."


def _or_more(labels: int | None) -> str:
    return "more than tried" if labels is None else str(labels)


def _amount(metric: str, tolerance: float) -> str:
    if not is_share(metric):
        return f"{tolerance:g}"
    return f"{100 * tolerance:g} point" + ("" if tolerance == 0.01 else "s")


TEMPLATE = StudyTemplate(
    name="redundancy",
    title="How many labels does an item need?",
    knobs={
        "labels_per_item": Knob(
            default=(1, 2, 3, 5, 10),
            about="numbers of labels per item to thin to; the full set is always added",
            check=whole_numbers(1),
        ),
        "tolerance": Knob(
            default=0.01,
            about="loss against the full set that does not matter, as a share: 0.01 is one point of accuracy",
            check=positive_number,
        ),
    },
    plans=plans,
    summarise=summarise,
)
