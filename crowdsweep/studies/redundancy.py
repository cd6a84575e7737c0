"""The redundancy study: how many labels an item needs before further labels change little.

The annotations of a dataset are thinned to r labels per item, for several r, and the full set is run as well. Thinning
is seeded and nested: the labels kept at r = 2 are among those kept at r = 5. Every model gets the same thinned sample
at the same seed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from crowdsweep.errors import SweepFileError
from crowdsweep.metrics.metric_table import HELDOUT
from crowdsweep.metrics.wording import readable
from crowdsweep.studies.allocation import ADAPTIVE, PARAMETER, allocation_part, by_allocation
from crowdsweep.studies.axis import ModelsAlong, along_axis, curve_over, log_spaced
from crowdsweep.studies.contract import (
    Cell,
    Curve,
    StudyNumber,
    StudyReport,
    StudyResults,
    StudySetting,
    StudyTable,
    StudyTemplate,
    amount,
    expand_datasets,
    positive_number,
    true_or_false,
    unless_left_out,
    whole_numbers,
)
from crowdsweep.studies.groups import AXIS, SIZE, Group, groups_of, labels_per_item
from crowdsweep.studies.labels_needed import Need, cheaper_matches, need_of
from crowdsweep.studies.more_labels import beyond_part
from crowdsweep.studies.need_words import amount_words, match_table, need_sentence, need_table, worth_labelling
from crowdsweep.studies.prices import prices_of, prices_part
from crowdsweep.studies.summary_table import TARGET, Row, summary_row, summary_table
from crowdsweep.studies.targets import (
    best_reached,
    needed_number,
    reached_part,
    rivals_reached,
    target_of,
    targets_reached,
)
from crowdsweep.sweepfile.records import DatasetEntry, SweepConfig

_NOTES = (
    "Thinned samples are nested and redrawn for each seed; items with fewer labels keep all they have.",
    "Differences to the full set are paired by seed, and by item where the scores of items are known.",
    "Their 95 % intervals say what is possibly, surely enough: surely only where they vary over items too.",
    "Intervals say what other items and seeds would give, labelled by these annotators; other annotators may differ.",
    "Where seeds collapsed or fits are flagged, no number of labels is enough, and nothing is as good.",
)
_WITHOUT_GOLD = (
    "Where there is no gold, held-out answers take its place: how well a model predicts what an annotator answers. "
    "They do not say how many items are labelled right, and a crowd that errs together is predicted well; they cannot "
    "say how many labels a target accuracy takes. Gold of a hundred items or more can."
)


def plans(knobs: Mapping[str, Any], config: SweepConfig) -> SweepConfig:
    """Returns the sweep with every dataset at each number of labels per item, and with the full set.

    Raises:
        SweepFileError: the sweep names no dataset; numbers of labels are missing for a dataset, or given for one that
            is not there; a target is for one that is not there; or there is a fixed cost without a price.
    """
    where = f"{config.source or config.name}: study redundancy"
    if knobs["fixed_cost"] and knobs["price_per_label"] is None:
        raise SweepFileError(
            f"{where}.fixed_cost: expected study.price_per_label with it, got none; without the price of a label "
            f"no cost can be computed"
        )
    if not config.datasets:
        raise SweepFileError(f"{where}: expected at least one dataset, got none")
    given, names = knobs["labels_per_item"], list(dict.fromkeys(entry.name for entry in config.datasets))
    labels: Mapping[str, Sequence[int]] = given if isinstance(given, Mapping) else dict.fromkeys(names, tuple(given))
    if set(labels) != set(names):
        raise SweepFileError(
            f"{where}.labels_per_item: expected a list for each of the datasets {', '.join(names)}, got lists for "
            f"{', '.join(map(str, labels)) or 'none'}"
        )
    targets: Mapping[str, float] = knobs["target"] if isinstance(knobs["target"], Mapping) else {}
    if strange := sorted(targets.keys() - set(names)):
        raise SweepFileError(
            f"{where}.target: expected shares of the datasets {', '.join(names)}, got one of {', '.join(strange)}"
        )
    found: list[DatasetEntry] = []
    for entry in config.datasets:
        found += expand_datasets(config, (entry,), AXIS, [*labels[entry.name], None]).datasets
        if knobs["adaptive"]:
            told = replace(entry, params={**entry.params, PARAMETER: ADAPTIVE})
            # With one label per item, no label can go elsewhere.
            more = [number for number in labels[entry.name] if number > 1]
            found += expand_datasets(config, (told,), AXIS, more).datasets
    return replace(config, datasets=tuple(found))


def summarise(results: StudyResults, knobs: Mapping[str, Any]) -> StudyReport:
    """Returns the report: curves against labels per item, what each model needs, and where fewer labels suffice."""
    evenly, adaptively = by_allocation(results.table)
    groups = list(groups_of(replace(results, table=evenly)))
    told = {group.metric for group in groups}
    adaptive = along_axis(adaptively, AXIS, [*sorted(told), SIZE], results.item_scores)
    told_of = [_part(group, results.gold_models, knobs, adaptive.get(group.dataset, {})) for group in groups]
    parts = [one.report for one in told_of]
    findings = [finding for part in parts for finding in part.findings[:1]]  # the first of every dataset, then the rest
    findings += [finding for part in parts for finding in part.findings[1:]]
    findings += [sentence for one in told_of for sentence in one.needs]  # sentences on every model come last
    ranks_by_answers = any(number.metric == HELDOUT for part in parts for number in part.numbers)
    return StudyReport(
        title=TEMPLATE.title,
        findings=findings or ["No trial has finished yet."],
        curves=[curve for part in parts for curve in part.curves],
        tables=[*summary_table([one.row for one in told_of]), *(told for part in parts for told in part.tables)],
        notes=[*_NOTES, *([_WITHOUT_GOLD] if ranks_by_answers else [])] if parts else [],
        next_steps={dataset: step for part in parts for dataset, step in part.next_steps.items()},
        numbers=[number for part in parts for number in part.numbers],
    )


@dataclass(frozen=True, kw_only=True)
class _Part:
    """The part of the report on one group of models.

    It has a report, sentences on the labels that each model needs, and a row of the short table.
    """

    report: StudyReport
    needs: Sequence[str]
    row: Row


def _part(group: Group, gold: frozenset[str], knobs: Mapping[str, Any], adaptive: ModelsAlong) -> _Part:
    """Returns the part of the report on one group of models.

    Args:
        group: models with labels given evenly.
        adaptive: models of the dataset with labels given adaptively.
    """
    tolerance, target, prices = knobs["tolerance"], target_of(knobs["target"], group.dataset), prices_of(knobs)
    within = amount_words(group.metric, tolerance)
    competitors = {name: points for name, points in group.models.items() if name not in gold}
    needs = {name: need for name, points in competitors.items() if (need := need_of(points, group, tolerance))}
    to_target, to_rival = targets_reached(group, competitors, target), rivals_reached(group, competitors)
    near_best = best_reached(group, competitors, tolerance, within)
    beyond = beyond_part(group, competitors, target, prices)
    told = [
        reached_part(group, to_target, to_rival),
        prices_part(group, competitors, {"reach": to_target, "come": near_best}, prices),
        beyond,
        allocation_part(group, competitors, adaptive, target, prices),
    ]
    matches = cheaper_matches(competitors, group.metric)
    aims = {TARGET: to_target, f"within {within} of the best": near_best}
    report = StudyReport(
        title="",
        findings=[finding for part in told for finding in part.findings],
        curves=[_curve(group, gold)],
        tables=[
            _means(group),
            need_table(group, needs, tolerance),
            *(one for part in told for one in part.tables),
            *([match_table(group, matches)] if matches else []),
        ],
        next_steps=_steps(group, [worth_labelling(group, needs, tolerance), *(part.next_steps for part in told)]),
        numbers=[
            *_mean_numbers(group),
            *_need_numbers(group, needs, within),
            *(number for part in told for number in part.numbers),
        ],
    )
    sentences = [need_sentence(group, name, need, tolerance) for name, need in sorted(needs.items())]
    return _Part(report=report, needs=sentences, row=summary_row(group, competitors, aims, prices, beyond.numbers))


def _steps(group: Group, steps: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    """Returns dataset → what all parts say is worth doing; empty for models with a metric of their own."""
    told = [one[group.dataset] for one in steps if group.dataset in one]
    return {group.dataset: " ".join(told)} if told and not group.why else {}


def _mean_numbers(group: Group) -> list[StudyNumber]:
    sizes = labels_per_item(group.models, group)
    numbers: list[StudyNumber] = []
    for name, points in sorted(group.models.items()):
        for labels in sorted(points, key=group.number):
            found = points[labels].estimate(group.metric, group.heldout)
            if found is not None:
                own: dict[str, Any] = {"value": found.mean, "low": found.low, "high": found.high}
                whole = "" if labels is not None else "all labels"
                note = "; ".join(one for one in (whole, points[labels].unsound(group.metric)) if one)
                numbers.append(group.study_number(name, "mean", at=labels or sizes.get(None), note=note, **own))
    return numbers


def _need_numbers(group: Group, needs: Mapping[str, Need], within: str) -> list[StudyNumber]:
    about = f"within {within} of all labels"
    return [
        group.study_number(name, "labels_needed", about=about, note=need.unsound)
        if need.unsound
        else needed_number(group, name, about, *(r or inf for r in (need.enough, need.possibly, need.surely)))
        for name, need in sorted(needs.items())
    ]


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

    sizes = labels_per_item(group.models, group)

    def called(labels: int | None) -> str:
        if labels is None:
            return group.all_words
        fewer = labels - sizes.get(labels, labels) > 0.05  # some items have fewer labels
        return f"{labels} (about {sizes[labels]:.1f})" if fewer else str(labels)

    rows: list[list[Cell]] = [
        [called(labels), *(mean(name, labels) for name in names)] for labels in [*_sizes(group.models), None]
    ]
    return StudyTable(
        title=f"{group.dataset}: {readable(group.metric)}",
        columns=["labels per item", *names],
        rows=rows,
        note=_over(group) + (f"; {group.why}" if group.why else ""),
    )


def _over(group: Group) -> str:
    """Returns the note that says what the intervals of a group vary over."""
    found = [
        point.estimate(group.metric, group.heldout) for points in group.models.values() for point in points.values()
    ]
    varies = sorted({estimate.varies for estimate in found if estimate is not None and estimate.low is not None})
    return f"mean and 95 % interval, over {' or '.join(varies)}" if varies else "mean"


def _by_dataset(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a knob's check that takes a value for all datasets, or for each dataset by its name."""
    return lambda value: (
        {str(name): check(one) for name, one in value.items()} if isinstance(value, dict) else check(value)
    )


def _share(value: Any) -> float:
    """Checks a knob's value: a share above 0, at most 1."""
    share = positive_number(value)
    if share > 1:
        raise ValueError("expected a share, at most 1 (0.9 for 90 %)")
    return share


TEMPLATE = StudyTemplate(
    name="redundancy",
    title="How many labels does an item need?",
    knobs={
        "labels_per_item": StudySetting(
            default=(1, 2, 3, 5, 10),
            about="numbers of labels per item to thin to, for all or for each dataset; the full set is always added",
            check=_by_dataset(whole_numbers(1)),
        ),
        "tolerance": StudySetting(
            default=0.01,
            about="loss against the full set that does not matter, as a share: 0.01 is one point of accuracy",
            check=positive_number,
        ),
        "adaptive": StudySetting(
            default=False,
            about="whether to give the same labels also where most informative, as next.csv would, and compare",
            check=true_or_false,
        ),
        "target": StudySetting(
            default=None,
            about="accuracy that is to be reached, for all or for each dataset, as a share: 0.9 is 90 %",
            check=unless_left_out(_by_dataset(_share)),
        ),
        "price_per_label": StudySetting(
            default=None,
            about="what one label costs, in any currency: the report then says what a point costs",
            check=unless_left_out(positive_number),
        ),
        "fixed_cost": StudySetting(
            default=None,
            about="what is paid once, whatever the number of labels, in the same currency",
            check=unless_left_out(amount),
        ),
    },
    plans=plans,
    summarise=summarise,
    axis=AXIS,
    along="labels per item",
)
