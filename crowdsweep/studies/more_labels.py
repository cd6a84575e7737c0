"""The predicted gain of more labels than were tried, by a power law.

The law is fitted to means over seeds and items, at the mean number of labels that items had. Its uncertainty is that of
other items and other seeds (`metrics.resampling`). Only numbers of labels above the last unsound fit count: no curve
runs through fits that collapse at 2 to 4 labels and recover at 5. Where the data do not determine a law, nothing is
predicted and the reason is given.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from crowdsweep.metrics.metric_table import HELDOUT, by_held_out, info_of
from crowdsweep.metrics.power_law import FARTHEST, FEWEST_NUMBERS, PowerLaw, Predicted, fit
from crowdsweep.metrics.resampling import resampled_means
from crowdsweep.metrics.shown import show_number
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.seeds import SeedStream
from crowdsweep.studies.axis import AxisPoint, ModelsAlong
from crowdsweep.studies.contract import Cell, StudyNumber, StudyReport, StudyTable
from crowdsweep.studies.groups import Group, Labels, Points, labels_per_item, n_items_of
from crowdsweep.studies.prices import Prices, cost_of_a_point, finite, money, numbers_of, point_cost_words, point_words
from crowdsweep.studies.targets import means_of_all

DRAWS = 400
_APART = 1.01  # ratio of two numbers of labels below which they count as one
_STEPS = (1.4, 2.0)  # multiples of the labels at hand that a user might buy


def fitted_law(points: Points, group: Group, sizes: Mapping[int | None, float]) -> PowerLaw | str:
    """Returns the power law of a model; where there is none, a phrase that says why.

    Args:
        sizes: requested number of labels per item → mean number that the items have.
    """
    metric, places = group.metric, _places(points, group, sizes)
    if len(places) < FEWEST_NUMBERS and any(point.unsound(metric) for point in points.values()):
        numbers = "1 number" if len(places) == 1 else f"{len(places)} numbers"
        return f"from all labels down, fits are sound at {numbers} only, and a curve takes {FEWEST_NUMBERS}"
    if not places:
        return "their numbers of labels are not known"
    seeds = sorted(set.intersection(*({*point.by_seed[metric]} for _, point in places)))
    if not seeds:
        return "no seed in common"
    with_items = all(seed in point.by_item.get(metric, {}) for _, point in places for seed in seeds)
    scores = np.stack([_scores(point, metric, seeds, with_items=with_items) for _, point in places])
    if len(seeds) == 1 and not with_items:
        return "one seed, and the scores of items are not known, so nothing is known to vary"
    means = scores.mean(axis=(1, 2), dtype=np.float64)
    draws = resampled_means(
        scores,
        DRAWS,
        SeedStream(0).numpy("more labels"),
        rights=with_items and is_share(metric),
        heldout=group.heldout if by_held_out(metric) else 0.0,
    )
    info = info_of(metric)
    return fit([labels for labels, _ in places], means, draws, float("inf") if info is None else info.high)


def beyond_part(group: Group, competitors: ModelsAlong, target: float | None, prices: Prices | None) -> StudyReport:
    """Returns the report section on what more labels than were tried would bring each model, and cost."""
    sizes = labels_per_item(competitors, group)
    laws = {name: fitted_law(points, group, sizes) for name, points in sorted(competitors.items())}
    n_items = n_items_of(competitors, group)
    priced = None if prices is None or n_items is None else prices.per_label * n_items
    rows: list[list[Cell]] = []
    numbers: list[StudyNumber] = []
    for name, law in laws.items():
        if isinstance(law, str):
            rows.append([name, None, None, *([None, None] if priced else []), f"not predicted: {law}"])
            numbers.append(_number(group, name, "gain", note=law))
            continue
        for start, end in further(law):
            gain = law.gain(end)
            added = None if priced is None else priced * (end - start)
            rows.append(_row(group, name, (start, end), gain, added))
            numbers += _numbers(group, name, (start, end), gain, added)
    if target is not None and is_share(group.metric):
        numbers += [_needed(group, name, law, target) for name, law in laws.items() if not isinstance(law, str)]
    columns = [
        "model",
        "labels per item",
        "gain",
        *(["cost", f"cost of {point_words(group.metric)}"] if priced else []),
    ]
    table = StudyTable(
        title=f"{group.dataset}: more labels than were tried, by {words(group.metric)}",
        columns=[*columns, ""],
        rows=rows,
        note="power law with an end, fitted to the means; 95 % intervals over items and seeds, and what it missed",
    )
    findings, step = _sentences(group, competitors, laws, target)
    return StudyReport(title="", findings=findings, tables=[table] if rows else [], numbers=numbers, next_steps=step)


def further(law: PowerLaw) -> list[tuple[float, float]]:
    """Returns the steps that a report predicts: from the labels at hand to 1.4 times and twice as many."""
    ends = dict.fromkeys(float(max(round(times * law.most), int(law.most) + 1)) for times in _STEPS)
    return [(law.most, end) for end in ends if end <= 2.0 * law.most]


def gain_words(gain: Predicted, metric: str) -> str:
    """Returns a predicted gain in words, `+1.2 ± 0.5 points`; with both ends where one side is much longer."""
    scale, unit, digits = (100.0, " points", 1) if is_share(metric) else (1.0, " nats" if metric == HELDOUT else "", 3)
    below, above = scale * (gain.value - gain.low), scale * (gain.high - gain.value)
    value = f"{scale * gain.value:+.{digits}f}"
    if max(below, above) > 1.5 * min(below, above):
        return f"{value}{unit} ({scale * gain.low:+.{digits}f} to {scale * gain.high:+.{digits}f})"
    return f"{value} ± {(below + above) / 2:.{digits}f}{unit}"


def number_words(labels: Labels) -> str:
    """Returns a number of labels as text: `7`, `4.2`."""
    return f"{labels:.0f}" if abs(labels - round(labels)) < 0.05 else f"{labels:.1f}"


def _places(points: Points, group: Group, sizes: Mapping[int | None, float]) -> list[tuple[float, AxisPoint]]:
    """Returns (mean labels per item, point), ascending, for the points above the last unsound one that have the metric.

    Points whose numbers of labels are too close to each other (`_APART`) are left out.
    """
    known = [(sizes[r], point) for r, point in points.items() if r in sizes and point.by_seed.get(group.metric)]
    found: list[tuple[float, AxisPoint]] = []
    for labels, point in sorted(known, key=lambda pair: pair[0]):
        if point.unsound(group.metric):
            found = []
        elif not found or labels > _APART * found[-1][0]:
            found.append((labels, point))
    return found


def _scores(point: AxisPoint, metric: str, seeds: list[int], *, with_items: bool) -> np.ndarray:
    """Returns the scores by seed and item; without items, the means by seed in one column."""
    if with_items:
        return np.stack([point.by_item[metric][seed] for seed in seeds])
    return np.array([[point.by_seed[metric][seed]] for seed in seeds])


def _row(group: Group, model: str, step: tuple[float, float], gain: Predicted, cost: float | None) -> list[Cell]:
    told = f"{number_words(step[0])} → {number_words(step[1])}"
    money_cells: list[Cell] = [] if cost is None else [money(cost), None]
    if gain.refused:
        return [model, told, None, *money_cells, f"not predicted: {gain.refused}"]
    if cost is not None:
        money_cells[1] = point_cost_words(cost_of_a_point(cost, gain))
    return [model, told, gain_words(gain, group.metric), *money_cells, ""]


def _sentences(
    group: Group, competitors: ModelsAlong, laws: Mapping[str, PowerLaw | str], target: float | None
) -> tuple[list[str], Mapping[str, str]]:
    """Returns findings on what more labels would bring the model that is best with all labels, and next steps.

    Where nothing is predicted, the finding says why.
    """
    means = means_of_all(group, competitors)
    name = max(means, key=lambda one: means[one], default=None)
    if name is None:
        return [], {}
    law, start = laws[name], f"{group.dataset}: what more labels than were tried would bring {name}"
    if isinstance(law, str):
        return ([f"{start} is not predicted: {law}."] if len(competitors[name]) >= FEWEST_NUMBERS else []), {}
    gains = {step: law.gain(step[1]) for step in further(law)}
    told = [
        f"{number_words(a)} → {number_words(b)} labels per item: {gain_words(gain, group.metric)}"
        for (a, b), gain in gains.items()
        if not gain.refused
    ]
    if not told:
        return [f"{start} is not predicted: {next(iter(gains.values())).refused}."], {}
    found = [f"{group.dataset}: {name} by its fitted curve, {'; '.join(told)}."]
    step = {group.dataset: f"By its fitted curve {name} would gain, {'; '.join(told)}."}
    return [*found, *_target_sentence(group, name, law, target)], step


def _target_sentence(group: Group, name: str, law: PowerLaw, target: float | None) -> list[str]:
    """Returns how many labels the fitted curve needs for a target that no tried number reaches; else empty."""
    if target is None or not is_share(group.metric) or law.last >= target:
        return []
    needed, aim, farthest = law.labels_for(target), show_number(target, group.metric), int(FARTHEST * law.most)
    start = f"{group.dataset}: by its fitted curve {name}"
    if needed.refused:
        return [
            f"{start} does not reach {aim} % with {farthest} labels per item, and no curve can be extrapolated farther."
        ]
    high = f"more than {farthest}" if needed.high == float("inf") else f"{np.ceil(needed.high):.0f}"
    told = f"{np.ceil(needed.value):.0f} labels per item ({np.ceil(needed.low):.0f} to {high})"
    return [f"{start} reaches {aim} % with {told}."]


def _number(group: Group, model: str, quantity: str, *, about: str = "fitted curve", **rest: Any) -> StudyNumber:
    return group.study_number(model, quantity, about=about, **rest)


def _numbers(
    group: Group, model: str, step: tuple[float, float], gain: Predicted, cost: float | None
) -> list[StudyNumber]:
    """Returns study numbers of a predicted gain, of its cost and of the cost of a point."""
    place: dict[str, Any] = {"at": step[0], "until": step[1]}
    if gain.refused:
        return [_number(group, model, "gain", note=gain.refused, **place)]
    found = [_number(group, model, "gain", value=gain.value, low=gain.low, high=gain.high, **place)]
    if cost is None:
        return found
    found.append(_number(group, model, "cost", value=cost, **place))
    return [*found, _number(group, model, "cost_of_a_point", **numbers_of(cost_of_a_point(cost, gain)), **place)]


def _needed(group: Group, model: str, law: PowerLaw, target: float) -> StudyNumber:
    found = law.labels_for(target)
    if found.refused:
        return _number(group, model, "labels_needed", note=found.refused)
    about = f"fitted curve, to reach {show_number(target, group.metric)} %"
    note = "" if isfinite(found.high) else f"high: more than {int(FARTHEST * law.most)}"
    ends = {"value": found.value, "low": found.low, "high": finite(found.high)}
    return _number(group, model, "labels_needed", about=about, note=note, **ends)
