"""The price of labels and of what they gain: the cost of a point, and the cheapest way to a target.

Each label costs its price; the crowd of a sweep costs a fixed sum besides, whatever the number of labels. Labels that
were bought are the annotations of the training items, including those that a fit held out. Where an annotation has
several rows (multi-label answers, tokens of a sentence), each row counts as a label here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, isfinite
from typing import Any

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.power_law import Predicted
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.studies.axis import ModelsAlong
from crowdsweep.studies.contract import Cell, StudyNumber, StudyReport, StudyTable
from crowdsweep.studies.groups import Group, Labels, Points, bought
from crowdsweep.studies.labels_needed import Reach, loss_of
from crowdsweep.studies.targets import called

POINT = 0.01
"""Size of one point: a hundredth of accuracy, or a hundredth of a nat of log-likelihood."""


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices of labels, in any currency.

    Attributes:
        per_label: price of one annotation.
        fixed: sum that is paid once, whatever the number of labels.
    """

    per_label: float
    fixed: float

    def cost(self, labels: Labels) -> float:
        """Returns the cost of that many labels in total."""
        return self.fixed + self.per_label * labels


@dataclass(frozen=True, kw_only=True)
class PointCost:
    """The cost of one point, with its 95 % interval where one is known; infinite where nothing is gained."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step from one number of labels per item to the next: what it brings and costs.

    Attributes:
        start, end: names of the two numbers of labels per item.
        at, until: the same as numbers.
        gain: in the metric's units.
        point: cost of one point on this step.
    """

    start: str
    end: str
    at: float
    until: float
    gain: Estimate
    cost: float
    point: PointCost


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The cheapest way to a target among those that were tried.

    Attributes:
        aim: the target in words.
        model, labels, cost: the cheapest way whose mean reaches the target.
        sure_model, sure_labels, sure_cost: the cheapest way that surely reaches it; empty and None where none does.
    """

    aim: str
    model: str
    labels: Labels
    cost: float
    sure_model: str = ""
    sure_labels: Labels | None = None
    sure_cost: float | None = None


def prices_of(knobs: Mapping[str, Any]) -> Prices | None:
    """Returns the prices from a study's knobs; None where these set none."""
    price = knobs.get("price_per_label")
    return None if price is None else Prices(per_label=price, fixed=knobs.get("fixed_cost") or 0.0)


def steps_of(points: Points, group: Group, prices: Prices) -> list[Step]:
    """Returns what each step from one number of labels to the next brings and costs, for numbers with sound fits."""
    sound = {labels: point for labels, point in points.items() if not point.unsound(group.metric)}
    known = {labels: size for labels, point in sound.items() if (size := bought(point, group.heldout)) is not None}
    ascending = sorted(known, key=group.number)
    found: list[Step] = []
    for before, after in pairwise(ascending):
        gain = loss_of(sound[after], sound[before], group)
        if gain is None or known[after] <= known[before]:
            continue
        cost = prices.per_label * (known[after] - known[before])
        found.append(
            Step(
                start=_called(before, group),
                end=_called(after, group),
                at=group.number(before),
                until=group.number(after),
                gain=gain,
                cost=cost,
                point=cost_of_a_point(cost, gain),
            )
        )
    return found


def cost_of_a_point(cost: float, gain: Estimate | Predicted) -> PointCost:
    """Returns the cost of one point, given the cost of a gain."""
    mean = gain.mean if isinstance(gain, Estimate) else gain.value
    ends = [POINT * cost / one if one > 0 else inf for one in (gain.high, gain.low) if one is not None]
    low, high = ends if len(ends) == 2 else (None, None)
    return PointCost(value=POINT * cost / mean if mean > 0 else inf, low=low, high=high)


def cheapest(reached: Mapping[str, Reach], models: ModelsAlong, group: Group, prices: Prices) -> Plan | None:
    """Returns the cheapest way to a target; None where nothing that was tried reaches it.

    Args:
        reached: model → labels per item that reach the target.
    """
    enough = _costs(((name, one.enough) for name, one in reached.items()), models, group, prices)
    if not enough:
        return None
    cost, labels, name = min(enough)
    plan = Plan(aim=reached[name].aim, model=name, labels=labels, cost=cost)
    surely = _costs(((name, one.surely) for name, one in reached.items()), models, group, prices)
    if not surely:
        return plan
    sure_cost, sure_labels, sure_name = min(surely)
    return replace(plan, sure_model=sure_name, sure_labels=sure_labels, sure_cost=sure_cost)


def money(amount: float) -> str:
    """Returns an amount of money as text: `0.42`, `12.50`, `1,240`."""
    if not isfinite(amount):
        return "without end"
    return f"{amount:,.0f}" if abs(amount) >= 100 else f"{amount:,.2f}" if abs(amount) >= 0.01 else f"{amount:.2g}"


def finite(amount: float) -> float | None:
    """Returns an amount for programs: None if it is infinite."""
    return amount if isfinite(amount) else None


def point_words(metric: str) -> str:
    """Returns the name of one point: `a point`, `0.01 nats`."""
    return "a point" if is_share(metric) else f"{POINT:g} nats"


def point_cost_words(point: PointCost) -> str:
    """Returns the cost of a point with its interval as text: `4.32 (2.69 to 12.14)`, `no gain (at best 1.30)`."""
    low, high = point.low, point.high
    if not isfinite(point.value):
        return "no gain" + (f" (at best {money(low)})" if low is not None and isfinite(low) else "")
    return money(point.value) + ("" if low is None or high is None else f" ({money(low)} to {money(high)})")


def numbers_of(point: PointCost) -> dict[str, Any]:
    """Returns the cost of a point as the fields of a `StudyNumber`."""
    ends = {name: None if one is None else finite(one) for name, one in (("low", point.low), ("high", point.high))}
    note = "" if isfinite(point.value) else "nothing is gained"
    return {"value": finite(point.value), **ends, "note": note}


def prices_part(
    group: Group, competitors: ModelsAlong, aims: Mapping[str, Mapping[str, Reach]], prices: Prices | None
) -> StudyReport:
    """Returns the report section on the cost of tried labels: the steps of each model, the cheapest way to each aim.

    Args:
        aims: verb (`reach`, `come`) → model → labels per item that it needs for the aim after the verb.
        prices: prices of labels; None where they are not known, which makes the section empty.
    """
    if prices is None:
        return StudyReport(title="")
    rows: list[list[Cell]] = []
    numbers: list[StudyNumber] = []
    for name, points in sorted(competitors.items()):
        for step in steps_of(points, group, prices):
            rows.append(_step_row(group, name, step))
            numbers += _step_numbers(group, name, step)
    found = {verb: cheapest(reached, competitors, group, prices) for verb, reached in aims.items()}
    plans = [replace(plan, aim=f"{verb} {plan.aim}") for verb, plan in found.items() if plan is not None]
    table = StudyTable(
        title=f"{group.dataset}: what labels cost, by {words(group.metric)}",
        columns=["model", "labels per item", "gain", "cost", f"cost of {point_words(group.metric)}"],
        rows=rows,
        note=f"{prices.per_label:g} per label" + (f", plus {prices.fixed:g} fixed" if prices.fixed else ""),
    )
    return StudyReport(
        title="",
        findings=[f"{group.dataset}: the {_plan_words(group, plan)}" for plan in plans],
        tables=[table] if rows else [],
        numbers=[*numbers, *(_plan_number(group, plan) for plan in plans)],
        next_steps={group.dataset: f"The {_plan_words(group, plans[0])}"} if plans else {},
    )


def _step_row(group: Group, model: str, step: Step) -> list[Cell]:
    scale, digits = (100.0, 1) if is_share(group.metric) else (1.0, 3)
    ends = [] if step.gain.low is None or step.gain.high is None else [step.gain.low, step.gain.high]
    between = f" [{', '.join(f'{scale * end:+.{digits}f}' for end in ends)}]" if ends else ""
    gain = f"{scale * step.gain.mean:+.{digits}f}{between}"
    return [model, f"{step.start} → {step.end}", gain, money(step.cost), point_cost_words(step.point)]


def _step_numbers(group: Group, model: str, step: Step) -> list[StudyNumber]:
    own: dict[str, Any] = {"about": "tried", "at": group.told(step.at), "until": group.told(step.until)}
    gain = step.gain
    return [
        group.study_number(model, "gain", value=gain.mean, low=gain.low, high=gain.high, **own),
        group.study_number(model, "cost", value=step.cost, **own),
        group.study_number(model, "cost_of_a_point", **numbers_of(step.point), **own),
    ]


def _plan_words(group: Group, plan: Plan) -> str:
    noun = "label" if plan.labels == 1 else "labels"
    plan_words = f"{plan.model} with {called(plan.labels, group)} {noun} per item, for {money(plan.cost)}"
    start = f"cheapest way to {plan.aim} ({words(group.metric)}): {plan_words}"
    if plan.sure_labels is None or plan.sure_cost is None:
        return f"{start}; nothing that was tried is sure."
    if (plan.sure_model, plan.sure_labels) == (plan.model, plan.labels):
        return f"{start}, and that is sure."
    sure = f"{plan.sure_model} with {called(plan.sure_labels, group)}, for {money(plan.sure_cost)}"
    return f"{start}; to be sure {sure}."


def _plan_number(group: Group, plan: Plan) -> StudyNumber:
    return group.study_number(
        plan.model,
        "cost",
        about=f"cheapest way to {plan.aim}",
        at=group.told(plan.labels),
        value=plan.cost,
        high=plan.sure_cost,
        note="" if plan.sure_labels is None else f"surely {plan.sure_model} with {called(plan.sure_labels, group)}",
    )


def _costs(
    needed: Iterable[tuple[str, float | None]], models: ModelsAlong, group: Group, prices: Prices
) -> list[tuple[float, float, str]]:
    """Returns (cost, labels per item, model) for the models that reach the target and whose bought labels are known."""
    found: list[tuple[float, float, str]] = []
    for name, number in needed:
        for labels, point in models[name].items():
            if number is not None and group.number(labels) == number:
                size = bought(point, group.heldout)
                found += [] if size is None else [(prices.cost(size), number, name)]
    return found


def _called(labels: int | None, group: Group) -> str:
    return group.all_words if labels is None else str(labels)
