"""How many labels an item needs before further ones change little.

The annotations of a dataset are thinned to r labels per item (seeded and nested: the labels kept at r = 2 are among
those kept at r = 5), for several r, beside the full set. Every model meets the same thinned sample at the same seed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from crowdsweep.errors import SweepFileError
from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.known import HELDOUT
from crowdsweep.metrics.wording import is_share, readable, words
from crowdsweep.record.array_names import ItemScores, no_item_scores
from crowdsweep.studies.axis import AxisPoint, ModelsAlong, along_axis, curve_over, log_spaced
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
    scored_by,
    whole_numbers,
)
from crowdsweep.studies.labels_needed import Group, Match, Need, cheaper_matches, need_of
from crowdsweep.sweepfile.records import SweepConfig

_AXIS = "redundancy"
# Report trials have a held-out likelihood only where nothing else can tell: there, accuracy is against their own votes.
_QUALITY = ("test_accuracy", HELDOUT, "dev_accuracy", "train_accuracy")
_SIZE = "n_annotations"


def plans(knobs: Mapping[str, Any], config: SweepConfig) -> SweepConfig:
    """Returns the sweep on every dataset for each number of labels per item, and on the full set.

    Raises:
        SweepFileError: the sweep names no dataset, or the numbers of a dataset are missing or of one that is not there.
    """
    where = f"{config.source or config.name}: study redundancy"
    if not config.datasets:
        raise SweepFileError(f"{where}: expected at least one dataset, got none")
    labels, names = knobs["labels_per_item"], list(dict.fromkeys(entry.name for entry in config.datasets))
    if not isinstance(labels, Mapping):
        return expand_datasets(config, tuple(config.datasets), _AXIS, [*labels, None])
    if set(labels) != set(names):
        raise SweepFileError(
            f"{where}.labels_per_item: expected a list for each of the datasets {', '.join(names)}, got lists for "
            f"{', '.join(map(str, labels)) or 'none'}"
        )
    expanded = [expand_datasets(config, (entry,), _AXIS, [*labels[entry.name], None]) for entry in config.datasets]
    return replace(config, datasets=tuple(entry for part in expanded for entry in part.datasets))


def summarise(table: pa.Table, knobs: Mapping[str, Any], item_scores: ItemScores = no_item_scores) -> StudyReport:
    """Returns the curves against labels per item, the need of each model, and where fewer labels do as well."""
    gold, tolerance = gold_models(table), knobs["tolerance"]
    findings: list[str] = []
    curves: list[Curve] = []
    tables: list[StudyTable] = []
    next_steps: dict[str, str] = {}
    for group in _groups(table, item_scores):
        competitors = {name: points for name, points in group.models.items() if name not in gold}
        needs = {name: need for name, points in competitors.items() if (need := need_of(points, group, tolerance))}
        findings += [_need_sentence(group, name, need, tolerance) for name, need in sorted(needs.items())]
        next_steps.update(_worth_labelling(group, needs, tolerance))
        curves.append(_curve(group, gold))
        tables += [_means(group), _need_table(group, needs, tolerance)]
        if matches := cheaper_matches(competitors, group.metric):
            tables.append(_match_table(group, matches))
    return StudyReport(
        title=TEMPLATE.title,
        findings=findings or ["No trial has finished yet."],
        curves=curves,
        tables=tables,
        notes=[
            "Thinned samples are nested and drawn anew for each seed; items with fewer labels keep all they have.",
            "Differences to the full set are paired by seed, and by item where the scores of items are known.",
            "Their 95 % intervals say what is possibly, surely enough: surely only where they vary over items too.",
            "Where seeds collapsed or fits are flagged, no number of labels is enough, and nothing is as good.",
        ]
        if curves
        else [],
        next_steps=next_steps,
    )


def _groups(table: pa.Table, item_scores: ItemScores) -> Iterator[Group]:
    """Yields the models of each dataset by the metric that they have: those that label test items first, then those
    that label training items only, by gold where there is some."""
    for dataset, models in along_axis(table, _AXIS, [*_QUALITY, _SIZE], item_scores).items():
        by = scored_by(table, dataset)
        all_labels = _all_labels(models)
        left = {name: _without_copies(points, all_labels) for name, points in models.items()}
        why = ""
        for metric in _QUALITY:
            able = {n: points for n, points in left.items() if any(p.by_seed.get(metric) for p in points.values())}
            if not able or (metric.startswith("train_") and not by.training_gold):
                continue
            yield Group(dataset=dataset, metric=metric, models=able, all_labels=all_labels, heldout=by.heldout, why=why)
            left = {name: points for name, points in left.items() if name not in able}
            why = "training items against gold, as it labels no others"


def _all_labels(models: ModelsAlong) -> int | None:
    """Returns the smallest number of labels that keeps every annotation; None where there is none."""
    kept = [
        labels
        for points in models.values()
        if None in points
        for labels, point in points.items()
        if labels is not None and _same(point.by_seed.get(_SIZE, {}), points[None].by_seed.get(_SIZE, {}))
    ]
    return min(kept, default=None)


def _same(some: Mapping[int, float], whole: Mapping[int, float]) -> bool:
    common = some.keys() & whole.keys()
    return bool(common) and all(some[seed] == whole[seed] for seed in common)


def _without_copies(points: Mapping[int | None, AxisPoint], all_labels: int | None) -> dict[int | None, AxisPoint]:
    if all_labels is None:
        return dict(points)
    return {labels: point for labels, point in points.items() if labels is None or labels < all_labels}


def _sizes(models: ModelsAlong) -> list[int]:
    return sorted({labels for points in models.values() for labels in points if labels is not None})


def _curve(group: Group, gold: frozenset[str]) -> Curve:
    sizes = _sizes(group.models)
    log = log_spaced([*sizes, *([] if group.all_labels is None else [group.all_labels])])
    apart = 1.0 if not sizes else 1.5 * sizes[-1] if log else sizes[-1] + max(1.0, 0.15 * (sizes[-1] - sizes[0]))
    end = apart if group.all_labels is None else float(group.all_labels)
    return curve_over(
        group.models,
        group.metric,
        gold=gold,
        title=f"{group.dataset}: {readable(group.metric)} against labels per item",
        x_label="labels per item (log scale)" if log else "labels per item",
        log_x=log,
        x_ticks={**{float(size): str(size) for size in sizes}, end: group.all_words},
        x_of_none=end,
        heldout=group.heldout,
    )


def _means(group: Group) -> StudyTable:
    names = sorted(group.models)

    def mean(name: str, labels: int | None) -> str | None:
        point = group.models[name].get(labels)
        return None if point is None else group.shown(point.estimate(group.metric, group.heldout))

    rows: list[list[Cell]] = [
        [group.all_words if labels is None else str(labels), *(mean(name, labels) for name in names)]
        for labels in [*_sizes(group.models), None]
    ]
    return StudyTable(
        title=f"{group.dataset}: {readable(group.metric)}",
        columns=["labels per item", *names],
        rows=rows,
        note=_over(group) + (f"; {group.why}" if group.why else ""),
    )


def _over(group: Group) -> str:
    """Returns what the intervals of a group vary over."""
    found = [
        point.estimate(group.metric, group.heldout) for points in group.models.values() for point in points.values()
    ]
    varies = sorted({estimate.varies for estimate in found if estimate is not None and estimate.low is not None})
    return f"mean and 95 % interval, over {' or '.join(varies)}" if varies else "mean"


def _need_table(group: Group, needs: Mapping[str, Need], tolerance: float) -> StudyTable:
    rows: list[list[Cell]] = [
        [
            name,
            *(need.unsound or _or_more(r) for r in (need.enough, need.possibly, need.surely)),
            group.shown(need.full),
        ]
        for name, need in sorted(needs.items())
    ]
    within = f"within {_amount(group.metric, tolerance)} of all labels by {words(group.metric)}"
    return StudyTable(
        title=f"{group.dataset}: how many labels per item are enough ({within})",
        columns=["model", "enough", "possibly enough", "surely enough", "with all labels"],
        rows=rows,
    )


def _match_table(group: Group, matches: list[Match]) -> StudyTable:
    scale, digits = (100.0, 1) if is_share(group.metric) else (1.0, 3)
    rows: list[list[Cell]] = [
        [
            match.model,
            f"{scale * match.mean:.{digits}f}",
            f"{match.wall_s:.3g}",
            match.cheaper,
            match.labels,
            f"{scale * match.cheaper_mean:.{digits}f}",
            f"{match.cheaper_wall_s:.3g}",
        ]
        for match in matches
    ]
    return StudyTable(
        title=f"{group.dataset}: what fewer labels reach with another model, by {words(group.metric)}",
        columns=["with all labels", "mean", "seconds", "as good", "its labels", "its mean", "its seconds"],
        rows=rows,
    )


def _need_sentence(group: Group, model: str, need: Need, tolerance: float) -> str:
    start = f"{group.dataset}: {model}"
    by = f" ({words(group.metric)}: {group.why})" if group.why else ""
    full = group.shown(need.full)
    if need.unsound:
        return f"{start}: {need.unsound} with all labels ({full}), so how many labels it needs is not known{by}."
    if need.enough is None:
        if need.most is None or need.last_gain is None:
            return f"{start} was fitted to all labels only: {full}{by}."
        return f"{start} is not saturated: {_gain(group.metric, need.last_gain)} from {need.most} to {_all(group)}{by}."
    within = f"within {_amount(group.metric, tolerance)} of what it reaches with {_all(group)} ({full}){by}"
    low = need.enough if need.possibly is None else min(need.possibly, need.enough)
    ending = "more than were tried are needed to be sure" if need.surely is None else f"{need.surely} to be sure"
    noun = "label" if need.enough == 1 else "labels"
    between = f"possibly {low}, {ending}" if low != need.enough else ending
    return f"{start} needs {need.enough} {noun} per item ({between}) to come {within}."


def _worth_labelling(group: Group, needs: Mapping[str, Need], tolerance: float) -> Mapping[str, str]:
    """Returns whether more labels would help the model that is best with all of them; nothing of models with a metric
    of their own."""
    sound = {name: need for name, need in needs.items() if not need.unsound}
    if group.why or not sound:
        return {}
    name, need = max(sorted(sound.items()), key=lambda pair: pair[1].full.mean)  # the order of trials decides no tie
    if need.most is None or need.last_gain is None:
        return {}
    gain, amount = need.last_gain, _amount(group.metric, tolerance)
    told = f"{_gain(group.metric, gain)} from {need.most} labels per item to {_all(group)}"
    if gain.low is not None and gain.low > 0 and gain.mean > tolerance:
        sentence = f"More labels still help on these items: {name} gains {told}."
    elif need.surely is not None:
        noun = "label" if need.surely == 1 else "labels"
        sentence = (
            f"More labels of the same kind bring little: {name} comes within {amount} of what it "
            f"reaches with {_all(group)} from {need.surely} {noun} per item on."
        )
    else:
        sentence = f"Whether more labels would help {name} is not settled: {told}, and that may be chance."
    return {group.dataset: sentence}


def _all(group: Group) -> str:
    return "all labels" if group.all_labels is None else f"all {group.all_labels} labels"


def _gain(metric: str, gain: Estimate) -> str:
    return f"{100 * gain.mean:+.1f} points" if is_share(metric) else f"{gain.mean:+.3f}"


def _or_more(labels: int | None) -> str:
    return "more than tried" if labels is None else str(labels)


def _amount(metric: str, tolerance: float) -> str:
    if not is_share(metric):
        return f"{tolerance:g}"
    return f"{100 * tolerance:g} point" + ("" if tolerance == 0.01 else "s")


def _labels_per_item(value: Any) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
    """A knob's check: numbers for all datasets, or for each dataset by its name."""
    check = whole_numbers(1)
    return {str(name): check(numbers) for name, numbers in value.items()} if isinstance(value, dict) else check(value)


TEMPLATE = StudyTemplate(
    name="redundancy",
    title="How many labels does an item need?",
    knobs={
        "labels_per_item": Knob(
            default=(1, 2, 3, 5, 10),
            about="numbers of labels per item to thin to, for all or for each dataset; the full set is always added",
            check=_labels_per_item,
        ),
        "tolerance": Knob(
            default=0.01,
            about="loss against the full set that does not matter, as a share: 0.01 is one point of accuracy",
            check=positive_number,
        ),
    },
    plans=plans,
    summarise=summarise,
    summarise_by_item=summarise,
    axis=_AXIS,
    along="labels per item",
)
