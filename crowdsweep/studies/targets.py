"""How many labels per item models need to reach a target accuracy, or to match the best other model with all labels."""

from collections.abc import Mapping
from math import isfinite

from crowdsweep.metrics.shown import number_words, show_number
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.studies.axis import ModelsAlong
from crowdsweep.studies.contract import Cell, StudyNumber, StudyReport, StudyTable
from crowdsweep.studies.groups import Group, Labels
from crowdsweep.studies.labels_needed import Reach, match_of, reach_of

NONE = "none tried"
"""Text in place of a number that is surely enough, where there is none: items may be too few to be sure of any."""


def target_of(target: float | Mapping[str, float] | None, dataset: str) -> float | None:
    """Returns the target of a dataset; None where it has none.

    The dataset's name may be followed by its parameters in parentheses.
    """
    if not isinstance(target, Mapping):
        return target
    fitting = [name for name in target if dataset == name or dataset.startswith(f"{name} (")]
    return target[max(fitting, key=len)] if fitting else None


def targets_reached(group: Group, competitors: ModelsAlong, target: float | None) -> dict[str, Reach]:
    """Returns model → labels per item that it needs for a target accuracy.

    The result is empty where there is no target, or where the group's metric is not a share.
    """
    if target is None or not is_share(group.metric):
        return {}
    aim = number_words(target, group.metric)
    found = {name: reach_of(points, group, target, aim) for name, points in sorted(competitors.items())}
    return {name: reach for name, reach in found.items() if reach is not None}


def means_of_all(group: Group, competitors: ModelsAlong) -> dict[str, float]:
    """Returns model → mean with all labels, for the models whose fits are sound."""
    return {
        name: estimate.mean
        for name, points in sorted(competitors.items())
        if None in points and not points[None].unsound(group.metric)
        if (estimate := points[None].estimate(group.metric, group.heldout)) is not None
    }


def best_reached(group: Group, competitors: ModelsAlong, tolerance: float, within: str) -> dict[str, Reach]:
    """Returns model → labels per item that it needs to come close to the best model with all labels.

    Args:
        tolerance: how close, in the metric's units.
    """
    full = means_of_all(group, competitors)
    if not full:
        return {}
    best = max(full, key=lambda name: full[name])
    aim, rival = f"within {within} of {best} with all labels", competitors[best][None]
    found = {name: match_of(points, group, rival, aim, tolerance) for name, points in sorted(competitors.items())}
    return {name: reach for name, reach in found.items() if reach is not None}


def rivals_reached(group: Group, competitors: ModelsAlong) -> dict[str, Reach]:
    """Returns model → labels per item that it needs to match the best other model with all labels."""
    full = means_of_all(group, competitors)
    found: dict[str, Reach] = {}
    for name, points in sorted(competitors.items()):
        others = [other for other in full if other != name]
        if not others:
            continue
        best = max(others, key=lambda other: full[other])
        aim = f"{best} with all labels ({show_number(full[best], group.metric)})"
        reach = match_of(points, group, competitors[best][None], aim)
        if reach is not None:
            found[name] = reach
    return found


def reached_part(group: Group, to_target: Mapping[str, Reach], to_rival: Mapping[str, Reach]) -> StudyReport:
    """Returns the report section on what was reached: findings, a table and numbers."""
    rows: list[list[Cell]] = [
        [name, reach.aim, called(reach.enough, group), called(reach.possibly, group), called(reach.surely, group, NONE)]
        for reached in (to_target, to_rival)
        for name, reach in reached.items()
    ]
    if not rows:
        return StudyReport(title="")
    table = StudyTable(
        title=f"{group.dataset}: labels per item to reach a given {words(group.metric)}",
        columns=["model", "to reach", "enough", "possibly enough", "surely enough"],
        rows=rows,
        note="possibly: the 95 % interval does not rule it out; surely: from there on it rules out anything less; "
        f"{NONE}: more scored items, or more labels, would make it sure",
    )
    numbers = [
        needed_number(group, name, f"to reach {reach.aim}", reach.enough, reach.possibly, reach.surely)
        for reached in (to_target, to_rival)
        for name, reach in reached.items()
    ]
    findings = [*_target_words(group, to_target), *_rival_words(group, to_rival)]
    return StudyReport(title="", findings=findings, tables=[table], numbers=numbers)


def called(number: Labels | None, group: Group, otherwise: str = "more than tried") -> str:
    """Returns the name of a number of labels per item: `5`, `all (10)`; for None the text of `otherwise`."""
    if number is None:
        return otherwise
    return group.all_words if not isfinite(number) or number == group.all_labels else str(int(number))


def how_sure(enough: Labels, possibly: Labels | None, surely: Labels | None, group: Group) -> str:
    """Returns how sure a number of labels is, in words: `possibly 3, 7 to be sure`."""
    low = enough if possibly is None else min(possibly, enough)
    ending = "none that was tried is sure" if surely is None else f"{called(surely, group)} to be sure"
    return f"possibly {called(low, group)}, {ending}" if low != enough else ending


def needed_number(
    group: Group, model: str, about: str, enough: Labels | None, possibly: Labels | None, surely: Labels | None
) -> StudyNumber:
    """Returns the labels that a model needs as a study number: low is possibly enough, high is surely enough."""
    names = {"enough": enough, "possibly": possibly, "surely": surely}
    told = [
        f"{name}: {called(one, group, NONE if name == 'surely' else 'more than tried')}"
        for name, one in names.items()
        if one is None or not isfinite(one)
    ]
    value, low, high = (None if one is None else group.told(one) for one in names.values())
    note = "; ".join(told)
    return group.study_number(model, "labels_needed", about=about, value=value, low=low, high=high, note=note)


def _target_words(group: Group, reached: Mapping[str, Reach]) -> list[str]:
    """Returns a sentence on the model that reaches the target with the fewest labels; none where there is no target."""
    if not reached:
        return []
    aim = next(iter(reached.values())).aim
    able = [(reach.enough, name) for name, reach in reached.items() if reach.enough is not None]
    if not able:
        maybe = [name for name, reach in reached.items() if reach.possibly is not None]
        rest = f"; {', '.join(maybe)} possibly" if maybe else ""
        return [f"{group.dataset}: no model reaches {aim} ({words(group.metric)}) with the labels at hand{rest}."]
    enough, name = min(able)
    labels = _labels(enough, reached[name], group)
    return [f"{group.dataset}: {aim} ({words(group.metric)}) is reached with the fewest labels by {name}: {labels}."]


def _rival_words(group: Group, reached: Mapping[str, Reach]) -> list[str]:
    """Returns a sentence on the model that matches the best other one with the fewest labels, unless it needs all."""
    full = group.number(None)
    able = [(r.enough, name) for name, r in reached.items() if r.enough is not None and r.enough < full]
    if not able:
        return []
    enough, name = min(able)
    labels = _labels(enough, reached[name], group, " on")
    return [f"{group.dataset}: {name} is as good as {reached[name].aim} from {labels}."]


def _labels(number: float, reach: Reach, group: Group, ending: str = "") -> str:
    noun = f"label{'' if number == 1 else 's'} per item{ending}"
    return f"{called(number, group)} {noun} ({how_sure(number, reach.possibly, reach.surely, group)})"
