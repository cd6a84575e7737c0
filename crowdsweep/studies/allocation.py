"""Adaptive labelling against even labelling: what the order of `next.csv` is worth for the same number of labels.

Adaptive labelling gives labels where they tell most. Both are simulated on the labels at hand (`data.adaptive`) at
every number of labels per item, and are paired by seed and by item.
"""

import json
from math import isfinite

import pyarrow as pa
import pyarrow.compute

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.shown import number_words
from crowdsweep.metrics.wording import words
from crowdsweep.studies.axis import AxisPoint, ModelsAlong, change_words
from crowdsweep.studies.contract import Cell, StudyNumber, StudyReport, StudyTable
from crowdsweep.studies.groups import Group, bought
from crowdsweep.studies.labels_needed import loss_of, match_of
from crowdsweep.studies.prices import Prices, money
from crowdsweep.studies.targets import called, means_of_all, targets_reached

PARAMETER, ADAPTIVE = "allocation", "adaptive"


def by_allocation(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Returns two tables: the trials whose labels were given evenly, and those whose labels were given adaptively.

    Both have the same names of datasets: the parameter that tells them apart is removed.
    """
    params = [json.loads(text or "{}") for text in table["dataset_params"].to_pylist()]
    adaptive = pa.array([one.pop(PARAMETER, None) == ADAPTIVE for one in params], pa.bool_())
    place = table.schema.get_field_index("dataset_params")
    field = table.schema.field(place)
    texts = pa.array([json.dumps(one, sort_keys=True) for one in params], field.type)
    alike = table.set_column(place, field, texts)
    return alike.filter(pyarrow.compute.invert(adaptive)), alike.filter(adaptive)


def allocation_part(
    group: Group, competitors: ModelsAlong, adaptive: ModelsAlong, target: float | None, prices: Prices | None
) -> StudyReport:
    """Returns the report section on what adaptive labelling brings over even labelling.

    Args:
        competitors: the models that saw no gold, with labels given evenly.
        adaptive: the models with labels given adaptively.
    """
    rows: list[list[Cell]] = []
    numbers: list[StudyNumber] = []
    gains: dict[tuple[str, int], Estimate] = {}
    for name in sorted(competitors.keys() & adaptive.keys()):
        for labels in sorted(r for r in adaptive[name] if r is not None and r in competitors[name]):
            even, told = competitors[name][labels], adaptive[name][labels]
            gain = _gain(group, even, told)
            if gain is None or even.unsound(group.metric) or told.unsound(group.metric):
                continue
            gains[name, labels] = gain
            means = [group.shown(point.estimate(group.metric, group.heldout)) for point in (even, told)]
            rows.append([name, labels, *means, change_words(gain, group.metric)])
            numbers.append(
                group.study_number(
                    name,
                    "gain",
                    about="adaptive over even labelling",
                    at=labels,
                    until=labels,
                    value=gain.mean,
                    low=gain.low,
                    high=gain.high,
                )
            )
    if not rows:
        return StudyReport(title="")
    table = StudyTable(
        title=f"{group.dataset}: labels given adaptively and evenly, by {words(group.metric)}",
        columns=["model", "labels per item", "evenly", "adaptively", "difference"],
        rows=rows,
        note="adaptively: in the order of next.csv, simulated on the labels at hand; so many labels on average",
    )
    findings = [
        *_sentences(group, competitors, adaptive, gains, prices),
        *_target_sentence(group, competitors, adaptive, target, prices),
    ]
    return StudyReport(title="", findings=findings, tables=[table], numbers=numbers)


def _gain(group: Group, even: AxisPoint, adaptive: AxisPoint) -> Estimate | None:
    """Returns the gain of adaptive labelling; None where the two labellings were not scored on the same items."""
    one, other = (point.by_item.get(group.metric, {}) for point in (even, adaptive))
    if any(len(one[seed]) != len(other[seed]) for seed in one.keys() & other.keys()):
        return None
    return loss_of(adaptive, even, group)


def _sentences(
    group: Group,
    competitors: ModelsAlong,
    adaptive: ModelsAlong,
    gains: dict[tuple[str, int], Estimate],
    prices: Prices | None,
) -> list[str]:
    """Returns a sentence on what adaptive labelling brings the model that is best with all labels.

    The sentence is about the number of labels where the gain is largest, and says how many evenly given labels do as
    well.
    """
    means = means_of_all(group, {name: competitors[name] for name, _ in gains})
    name = max(means, key=lambda one: means[one], default=None)
    if name is None:
        return []
    of_model = {labels: gain for (model, labels), gain in gains.items() if model == name}
    labels = max(sorted(of_model), key=lambda number: of_model[number].mean)
    gain, point = of_model[labels], adaptive[name][labels]
    start = f"{group.dataset}: {name} with {labels} labels per item on average, given where they are most informative"
    sure = gain.low is not None and gain.low > 0
    if not sure:
        said = "no more than chance explains" if gain.mean > 0 else "nothing"
        return [f"{start}, gains {said} over labels that are given evenly ({change_words(gain, group.metric)})."]
    told = f"{start}, gains {change_words(gain, group.metric)} over labels that are given evenly"
    match = match_of(competitors[name], group, point, "")
    enough = None if match is None else match.enough
    if enough is None or not isfinite(enough):
        return [f"{told}: more than evenly given labels reach with any number tried below all."]
    evenly = next(p for r, p in competitors[name].items() if group.number(r) == enough)
    size, without = (bought(one, group.heldout) for one in (point, evenly))
    less = 0.0 if prices is None or size is None or without is None else prices.per_label * (without - size)
    saved = f" for {money(less)} less" if less > 0 else ""
    return [f"{told}: as much as {called(enough, group)} given evenly{saved}."]


def _target_sentence(
    group: Group, competitors: ModelsAlong, adaptive: ModelsAlong, target: float | None, prices: Prices | None
) -> list[str]:
    """Returns a sentence on the labels that reach a target with either labelling, and their cost."""
    same = (1, None)  # with one label each or all labels, both labellings are the same
    given = {
        name: {**{r: competitors[name][r] for r in same if r in competitors[name]}, **adaptive[name]}
        for name in competitors.keys() & adaptive.keys()
    }
    told = [_reached_words(group, models, target, prices) for models in (given, competitors)]
    if not told[0]:
        return []
    evenly = told[1] or "not with any number tried"
    aim = number_words(target or 0.0, group.metric)
    start = f"{group.dataset}: to reach {aim} with labels given where they are most informative"
    return [f"{start}: {told[0]}; given evenly: {evenly}."]


def _reached_words(group: Group, models: ModelsAlong, target: float | None, prices: Prices | None) -> str:
    """Returns the model that reaches a target with the fewest labels: `a with 3 labels per item, 150`; else empty."""
    reached = targets_reached(group, models, target)
    able = [(reach.enough, name) for name, reach in reached.items() if reach.enough is not None]
    if not able:
        return ""
    enough, name = min(able)
    point = next(one for labels, one in models[name].items() if group.number(labels) == enough)
    size = bought(point, group.heldout)
    cost = "" if prices is None or size is None else f", {money(prices.cost(size))}"
    return f"{name} with {called(enough, group)} labels per item{cost}"
