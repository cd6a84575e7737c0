"""How many labels per item a model needs, and which model does as well with fewer: conclusions, without layout.

Losses against all labels are paired by seed, and by item where the items' scores are known, since another crowd labels
other items. What is surely enough is judged by variation over the items too. Judged on these very items alone, it would
be wrong for other items up to every other time. The test goes from many labels down to few, and ends at the first
number that is not sure. So it is one test, however many numbers are tried. More labels of the same kind do not make a
model worse on the whole. So a loss below zero is chance and counts as no loss: where items are too few for a claim,
luck does not make one.

Where seeds collapsed or fits are flagged (`trial.flags`), no mean stands for the model. Such a cell is never enough, is
no target, and does not count as equally good.

The same questions are asked of a target: an accuracy, or what the best other model reaches with all labels. There a
loss below zero need not be chance, so it counts as it is, and all labels are a number like the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

import numpy as np

from crowdsweep.metrics.differences import difference
from crowdsweep.metrics.intervals import Estimate, estimate
from crowdsweep.metrics.metric_table import ItemMetric, by_held_out, info_of
from crowdsweep.studies.axis import AxisPoint, ModelsAlong
from crowdsweep.studies.groups import Group, Labels, Points

Number = TypeVar("Number", int, float)
_SLACK = 1e-12


@dataclass(frozen=True, kw_only=True)
class Need:
    """How many labels per item one model needs.

    Attributes:
        enough: smallest r whose mean is within the tolerance of the full set's; None where no r tried is.
        possibly: smallest r that the interval of the difference does not rule out; None where it rules out all.
        surely: smallest r from which on all r tried are surely within the tolerance, over the items too
            (`_surely_at_most`); None where there is none.
        full: the model's mean with all labels.
        most: the largest r tried below all labels whose fits are sound; None where there is none.
        last_gain: the gain of all labels over `most` labels, paired by seed; None where nothing pairs.
        unsound_above: whether the fits at a larger r than `most`, or at every r tried, are unsound.
        unsound: why the full set is no target (seeds that collapsed, fits that are flagged); empty where it is one.
    """

    enough: int | None
    possibly: int | None
    surely: int | None
    full: Estimate
    most: int | None
    last_gain: Estimate | None
    unsound_above: bool = False
    unsound: str = ""


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The labels per item that reach a target; infinite for all labels, where items have more than any number tried.

    Attributes:
        aim: the target in words: `90.0 %`, `what cmm reaches with all labels (91.2 ± 0.4)`.
        enough: smallest number whose mean reaches the target; None where none does.
        possibly: smallest number that the interval does not rule out.
        surely: smallest number from which on all surely reach the target, over the items too.
    """

    aim: str
    value: float
    enough: Labels | None
    possibly: Labels | None
    surely: Labels | None


@dataclass(frozen=True, kw_only=True)
class Match:
    """A model with all labels, and another model that reaches the same with fewer.

    Attributes:
        model, mean, wall_s: the model, its mean with all labels, and the mean seconds of a trial.
        cheaper, labels, cheaper_mean, cheaper_wall_s: the other model, its labels per item, its mean and seconds with
            these.
    """

    model: str
    mean: float
    wall_s: float
    cheaper: str
    labels: int
    cheaper_mean: float
    cheaper_wall_s: float


def need_of(points: Points, group: Group, tolerance: float) -> Need | None:
    """Returns how many labels per item a model needs; None where the full set has not been scored.

    Args:
        tolerance: loss against the full set that does not matter, in the metric's units.
    """
    metric, full = group.metric, points.get(None)
    reached = None if full is None else full.estimate(metric, group.heldout)
    if full is None or reached is None:
        return None
    tried = sorted(labels for labels in points if labels is not None)
    found = {labels: loss_of(full, points[labels], group) for labels in tried}
    losses = {labels: loss for labels, loss in found.items() if loss is not None}
    unsound = full.unsound(metric)
    sound = {} if unsound else {r: loss for r, loss in losses.items() if not points[r].unsound(metric)}
    most = max(sound, default=None)
    slack = tolerance + _SLACK
    return Need(
        enough=next((r for r, loss in sound.items() if loss.mean <= slack), None),
        possibly=next((r for r, loss in sound.items() if _or(loss.low, loss.mean) <= slack), None),
        surely=_surely({r: _surely_at_most(loss, metric) for r, loss in sound.items()}, slack),
        full=reached,
        most=most,
        last_gain=None if most is None else sound[most],
        unsound_above=bool(losses) and not unsound and most != max(losses),
        unsound=unsound,
    )


def reach_of(points: Points, group: Group, target: float, aim: str) -> Reach | None:
    """Returns how many labels per item reach a value of the group's metric; None where the model lacks the metric."""
    found = {labels: point.estimate(group.metric, group.heldout) for labels, point in points.items()}
    losses = {labels: _below(target, one) for labels, one in found.items() if one is not None}
    return _reach(points, group, losses, target, aim)


def match_of(points: Points, group: Group, rival: AxisPoint, aim: str, tolerance: float = 0.0) -> Reach | None:
    """Returns how many labels per item a model needs to match a rival, paired by seed and item.

    The result is None where nothing pairs.

    Args:
        rival: the rival's results at the number of labels that sets the target.
        tolerance: loss against the rival that does not matter.
    """
    reached = rival.estimate(group.metric, group.heldout)
    losses = {r: loss for r, point in points.items() if (loss := loss_of(rival, point, group)) is not None}
    itself = {r: replace(loss, low=0.0, high=0.0, varies="items") for r, loss in losses.items() if points[r] is rival}
    losses |= itself  # against itself a model loses nothing, whatever the items and seeds
    return None if reached is None else _reach(points, group, losses, reached.mean - tolerance, aim, tolerance)


def _reach(
    points: Points, group: Group, losses: Mapping[int | None, Estimate], target: float, aim: str, tolerance: float = 0.0
) -> Reach | None:
    """Returns the labels per item whose loss is at most `tolerance`; None where there is no loss to judge by.

    Unsound points reach nothing.
    """
    metric, slack = group.metric, tolerance + _SLACK
    sound = {group.number(r): loss for r, loss in losses.items() if not points[r].unsound(metric)}
    if not losses:
        return None
    ascending = sorted(sound)
    return Reach(
        aim=aim,
        value=target,
        enough=next((r for r in ascending if sound[r].mean <= slack), None),
        possibly=next((r for r in ascending if _or(sound[r].low, sound[r].mean) <= slack), None),
        surely=_surely({r: _upper_end(loss, metric) for r, loss in sound.items()}, slack),
    )


def _below(target: float, found: Estimate) -> Estimate:
    """Returns how far a mean is below a target."""
    low, high = found.low, found.high
    return replace(
        found,
        mean=target - found.mean,
        low=None if high is None else target - high,
        high=None if low is None else target - low,
    )


def loss_of(full: AxisPoint, here: AxisPoint, group: Group) -> Estimate | None:
    """Returns what `here` (fewer labels) loses against `full`, paired by seed and item; None where no seed has both."""
    metric = group.metric
    whole, part = full.by_seed.get(metric, {}), here.by_seed.get(metric, {})
    seeds = sorted(whole.keys() & part.keys())
    if not seeds:
        return None
    items, others = full.by_item.get(metric, {}), here.by_item.get(metric, {})
    paired = None
    if all(seed in items and seed in others for seed in seeds):
        paired = np.stack([items[seed].astype(np.float64) - others[seed] for seed in seeds])
    overlapping = group.heldout if by_held_out(metric) else 0.0
    one, other = [whole[seed] for seed in seeds], [part[seed] for seed in seeds]
    return difference(one, other, metric=metric, heldout=overlapping, item_differences=paired)


def cheaper_matches(models: ModelsAlong, metric: str) -> list[Match]:
    """Returns, for each model with all labels, the cheapest other model that does as well with fewer labels.

    Labels are the cost: the fewest labels come first, then the fewest seconds of a trial.
    """
    matches: list[Match] = []
    for model in sorted(models):
        mean = _mean_at(models[model], None, metric)
        if mean is None:
            continue
        others = [
            (labels, _seconds(points, labels), name, reached)
            for name, points in models.items()
            for labels in points
            if name != model and labels is not None
            if (reached := _mean_at(points, labels, metric)) is not None and reached >= mean
        ]
        if others:
            labels, seconds, name, reached = min(others)
            matches.append(
                Match(
                    model=model,
                    mean=mean,
                    wall_s=_seconds(models[model], None),
                    cheaper=name,
                    labels=labels,
                    cheaper_mean=reached,
                    cheaper_wall_s=seconds,
                )
            )
    return matches


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _surely(most: Mapping[Number, float], slack: float) -> Number | None:
    """Returns the smallest r from which on no upper end of a loss exceeds `slack`; None where there is none."""
    found: Number | None = None
    for labels in sorted(most, reverse=True):
        if most[labels] > slack:
            break
        found = labels
    return found


def _surely_at_most(loss: Estimate, metric: str) -> float:
    """Returns the upper end of a loss; a loss below zero counts as zero, and its upper end is shifted up by as much."""
    return _upper_end(loss, metric) + max(0.0, -loss.mean)


def _upper_end(loss: Estimate, metric: str) -> float:
    """Returns the upper end of the interval of a loss; infinite where nobody can be sure.

    That is the case for a single seed, and for a metric of items whose scores are not known. For other metrics, a loss
    that is the same at every seed is its own upper end.
    """
    info = info_of(metric)
    if isinstance(info, ItemMetric) and info.by_item is not None and loss.varies == "seeds":
        return inf
    if loss.high is not None:
        return loss.high
    return loss.mean if loss.constant else inf


def _mean_at(points: Points, labels: int | None, metric: str) -> float | None:
    """Returns a model's mean with that many labels; None where it has no fits with these, or no sound ones."""
    if labels not in points or points[labels].unsound(metric):
        return None
    found = points[labels].estimate(metric)
    return None if found is None else found.mean


def _seconds(points: Points, labels: int | None) -> float:
    return estimate(points[labels].wall_s).mean
