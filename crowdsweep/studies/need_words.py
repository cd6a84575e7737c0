"""Sentences and tables that say how many labels are enough."""

from collections.abc import Mapping
from math import inf

from crowdsweep.metrics.intervals import Estimate
from crowdsweep.metrics.wording import is_share, words
from crowdsweep.studies.contract import Cell, StudyTable
from crowdsweep.studies.groups import Group
from crowdsweep.studies.labels_needed import Match, Need
from crowdsweep.studies.targets import called, how_sure


def need_table(group: Group, needs: Mapping[str, Need], tolerance: float) -> StudyTable:
    """Returns the table of the labels that each model needs to come near its own result with all labels."""
    rows: list[list[Cell]] = [
        [
            name,
            *(need.unsound or called(r or inf, group) for r in (need.enough, need.possibly, need.surely)),
            group.shown(need.full),
        ]
        for name, need in sorted(needs.items())
    ]
    within = f"within {amount_words(group.metric, tolerance)} of all labels by {words(group.metric)}"
    return StudyTable(
        title=f"{group.dataset}: how many labels per item are enough ({within})",
        columns=["model", "enough", "possibly enough", "surely enough", "with all labels"],
        rows=rows,
    )


def match_table(group: Group, matches: list[Match]) -> StudyTable:
    """Returns the table of the other models that do as well with fewer labels as a model does with all of them."""
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


def need_sentence(group: Group, model: str, need: Need, tolerance: float) -> str:
    """Returns a sentence on how many labels a model needs, and how sure that is."""
    start = f"{group.dataset}: {model}"
    by = f" ({words(group.metric)}: {group.why})" if group.why else ""
    full = group.shown(need.full)
    if need.unsound:
        return f"{start}: {need.unsound} with all labels ({full}), so how many labels it needs is not known{by}."
    if need.enough is None:
        if need.most is None or need.last_gain is None:
            if need.unsound_above:
                return f"{start}: no fits to fewer labels are sound, so how many labels it needs is not known{by}."
            return f"{start} was fitted to all labels only: {full}{by}."
        rest = "; its fits to numbers between are not sound" if need.unsound_above else ""
        gain = f"{_gain(group.metric, need.last_gain)} from {need.most} to {_all(group)}"
        if _still_helps(need.last_gain, tolerance):
            return f"{start} is not saturated: {gain}{by}{rest}."
        return f"{start}: whether it is saturated is not settled: {gain}, and may be chance{by}{rest}."
    within = f"within {amount_words(group.metric, tolerance)} of what it reaches with {_all(group)} ({full}){by}"
    noun = "label" if need.enough == 1 else "labels"
    between = how_sure(need.enough, need.possibly, need.surely or inf, group)
    return f"{start} needs {need.enough} {noun} per item ({between}) to come {within}."


def worth_labelling(group: Group, needs: Mapping[str, Need], tolerance: float) -> Mapping[str, str]:
    """Returns dataset → sentence on whether more labels would help the model that is best with all labels.

    The result is empty for a group of models with a metric of their own, and where the fits do not tell.
    """
    sound = {name: need for name, need in needs.items() if not need.unsound}
    if group.why or not sound:
        return {}
    # Sorted, so that the order of trials decides no tie.
    name, need = max(sorted(sound.items()), key=lambda pair: pair[1].full.mean)
    if need.most is None or need.last_gain is None or need.unsound_above:
        return {}
    gain, amount = need.last_gain, amount_words(group.metric, tolerance)
    gain_words = f"{_gain(group.metric, gain)} from {need.most} labels per item to {_all(group)}"
    if _still_helps(gain, tolerance):
        sentence = f"More labels still help on these items: {name} gains {gain_words}."
    elif need.surely is not None:
        noun = "label" if need.surely == 1 else "labels"
        sentence = (
            f"More labels of the same kind bring little: {name} comes within {amount} of what it "
            f"reaches with {_all(group)} from {need.surely} {noun} per item on."
        )
    else:
        sentence = f"Whether more labels would help {name} is not settled: {gain_words}, and may be chance."
    return {group.dataset: sentence}


def _still_helps(gain: Estimate, tolerance: float) -> bool:
    """Returns whether the last labels brought more than chance would, and more than the tolerance."""
    return gain.low is not None and gain.low > 0 and gain.mean > tolerance


def _all(group: Group) -> str:
    """Returns `all 10 labels`, `all labels (about 6.0)`."""
    return (
        f"all {group.all_labels} labels"
        if group.all_labels is not None
        else group.all_words.replace("all", "all labels")
    )


def _gain(metric: str, gain: Estimate) -> str:
    return f"{100 * gain.mean:+.1f} points" if is_share(metric) else f"{gain.mean:+.3f} in {words(metric)}"


def amount_words(metric: str, tolerance: float) -> str:
    """Returns a tolerance in words: `1 point`, or `0.02` for a metric that is not a share."""
    if not is_share(metric):
        return f"{tolerance:g}"
    return f"{100 * tolerance:g} point" + ("" if tolerance == 0.01 else "s")
