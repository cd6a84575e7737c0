"""The best models along the axis of a study: one strip per dataset, in place of an answer for every setting."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from crowdsweep.analysis.answer import by_test, not_different
from crowdsweep.analysis.compare import Comparison, DatasetComparison
from crowdsweep.metrics.shown import show_score
from crowdsweep.metrics.wording import readable
from crowdsweep.record.naming import describe_dataset
from crowdsweep.record.spec import canonical_json
from crowdsweep.search.dimensions import Number
from crowdsweep.studies.contract import StudyTemplate
from crowdsweep.units import listed


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Result at one value of a study's axis.

    Attributes:
        value: the value as text; `all` where the parameter is left out.
        winner: the best model with a sound mean (`Score.unsound`); empty where there is none.
        as_good: other models that are not significantly different from the winner.
    """

    value: str
    winner: str
    score: str = ""
    as_good: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Winners:
    """The best models on one dataset along the axis of a study.

    Attributes:
        dataset: the dataset with its other parameters, in words.
        along: what the axis counts, in words.
        metric: the metric that ranks, in words, with its unit.
        settings: results by value of the axis, ascending.
        whole: the comparison where the parameter is left out; None where there is none.
    """

    dataset: str
    along: str
    metric: str
    settings: Sequence[Setting]
    whole: DatasetComparison | None

    @property
    def sentence(self) -> str:
        """A sentence on which model is best at which values, such as `Best by the number of labels per item: mmce from
        1 to 2, lia from 5 on.`"""
        known = [setting for setting in self.settings if setting.winner]
        runs = [(winner, [one.value for one in run]) for winner, run in groupby(known, key=lambda one: one.winner)]
        if not runs:
            return "No model is ranked yet."
        if len(runs) == 1:
            winner, values = runs[0]
            where = f"with {values[0]} {self.along}" if len(values) == 1 else f"at every number of {self.along}"
            return f"{winner} is best {where}{self._sure(known)}."
        parts = [
            f"{winner} {_range(values, last=place == len(runs) - 1)}" for place, (winner, values) in enumerate(runs)
        ]
        return f"Best by the number of {self.along}: {', '.join(parts)}{self._sure(known)}."

    def colour_of(self, setting: Setting) -> int:
        """Returns the colour index, from 0 to 5, of the winner of a setting: the same wherever that model wins."""
        names = list(dict.fromkeys(one.winner for one in self.settings if one.winner))
        return names.index(setting.winner) % 6 if setting.winner else 0

    def _sure(self, known: Sequence[Setting]) -> str:
        """Returns a clause on models that are as good as the winner: their names, where the same ones are at every
        setting, else at how many settings there are such models."""
        shared = [set(one.as_good) for one in known if one.as_good]
        if not shared:
            return ""
        if len({one.winner for one in known}) == 1 and len(shared) == len(known):
            always = [name for name in known[0].as_good if all(name in names for names in shared)]
            if always:
                return f"; {listed(always)} {not_different(len(always))} from it anywhere"
        where = "each of them" if len(shared) == len(known) else f"{len(shared)} of {len(known)}"
        return f"; at {where} others {not_different(2)} from the best"


def winners_of(comparison: Comparison, template: StudyTemplate) -> list[Winners]:
    """Returns the winners on each dataset of a study; none where its template varies no dataset parameter."""
    if not template.axis:
        return []
    return [
        Winners(
            dataset=dataset,
            along=template.along or template.axis,
            metric=next((readable(block.metric) for _, block in blocks if block.metric), ""),
            settings=[_setting(value, block) for value, block in blocks],
            whole=next((block for value, block in blocks if value is None), None),
        )
        for dataset, blocks in _by_dataset(comparison, template.axis)
    ]


def _by_dataset(
    comparison: Comparison, axis: str
) -> Iterator[tuple[str, list[tuple[Number | None, DatasetComparison]]]]:
    found: dict[str, list[tuple[Number | None, DatasetComparison]]] = {}
    for block in comparison.datasets:
        params = json.loads(block.dataset_params)
        value = params.pop(axis, None)
        found.setdefault(describe_dataset(block.dataset, canonical_json(params), block.among), []).append(
            (value, block)
        )
    for dataset, blocks in found.items():
        yield dataset, sorted(blocks, key=lambda pair: (pair[0] is None, pair[0] or 0))


def _setting(value: Number | None, block: DatasetComparison) -> Setting:
    text = "all" if value is None else f"{value:,}"
    best = next((score for score in block.ranked if not score.unsound(block.metric)), None)
    if best is None:
        return Setting(value=text, winner="")
    score = show_score(best.metrics[block.metric], block.metric)
    as_good = [one.model for one in by_test(block)[0]] if best is block.ranked[0] else []  # tests are against the first
    return Setting(value=text, winner=best.model, score=score, as_good=as_good)


def _range(values: Sequence[str], *, last: bool) -> str:
    if len(values) == 1:
        return f"with {values[0]}"
    return f"from {values[0]} on" if last else f"from {values[0]} to {values[-1]}"
