"""Comparison of sweeps: the differences of their sweep files, and paired scores of the cells that two of them share.

A model on a dataset is paired with the model of the same label on the same dataset with the same parameters. Datasets
are matched by name or path, else by their data (fingerprint), else by folder name where it is unique in both sweeps.

Trials are paired seed by seed, as for models of one sweep (`analysis.paired`), with Holm's correction over all pairs.
This needs equal data, the same ranking metric, and common seeds. Of more than two sweeps, each is compared with the
first, and the correction runs over the pairs of all of them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import fmean as mean
from typing import Any

from crowdsweep.analysis.compare import DatasetComparison, ModelScore
from crowdsweep.analysis.paired import PairedTest, holm, paired_test
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.metrics.metric_table import by_held_out
from crowdsweep.record.naming import dataset_words, short_name
from crowdsweep.record.spec import Place
from crowdsweep.search.contract import Goal

LEFT_OUT = ("name",)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A model on a dataset, in two sweeps or in one of them.

    Attributes:
        dataset: the dataset with its parameters, in words.
        metric, goal: the ranking metric and its direction, from the first sweep that has the model.
        first, second: mean score in each sweep: over the common seeds where trials are paired, else over the sweep's
            own seeds; None where there is none.
        test: test of second minus first over the common seeds; None where the trials cannot be paired. It has no p
            value where one of the means is not sound (`ModelScore.unsound`).
        why: why the trials cannot be paired, or their test says nothing; empty where neither is so.
    """

    dataset: str
    model: str
    metric: str
    goal: Goal
    first: float | None
    second: float | None
    test: PairedTest | None = None
    why: str = ""

    @property
    def second_is(self) -> str:
        """Result of the test for the second sweep: `better`, `worse`, `not significantly different`, `the same` or
        `not tested`; empty without a test."""
        if self.why or self.test is None or self.test.difference is None:
            return ""
        difference = self.test.difference.mean
        if self.test.p is None and difference == 0:
            return "the same"
        if not self.test.is_significant:
            return "not significantly different" if self.test.p is not None else "not tested"
        return "better" if (difference > 0) == (self.goal == "maximize") else "worse"


@dataclass(frozen=True, kw_only=True)
class _Cell:
    block: DatasetComparison
    score: ModelScore
    fingerprint: str
    params: Mapping[str, Any]


Cells = Mapping[tuple[Place, str], _Cell]
"""(dataset, label of the model) → cell."""


def differences(*configs: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    """Returns the keys in which some sweep file differs from the first: (key path, value in each file).

    A value is None where a file lacks the key. Entries of lists are identified by their label or name, so their order
    does not matter. The names of the sweeps are ignored.

    Args:
        configs: at least two sweep files with their defaults, as journals hold them.
    """
    first, *others = configs
    found = [
        {key: (one, other) for key, one, other in _differences(first, config, "") if key not in LEFT_OUT}
        for config in others
    ]
    told: list[tuple[str, list[Any]]] = []
    for key in dict.fromkeys(key for changes in found for key in changes):
        own = next(changes[key][0] for changes in found if key in changes)
        told.append((key, [own, *(changes[key][1] if key in changes else own for changes in found)]))
    return told


def _differences(first: Any, second: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    among = [*_names(first), *_names(second)]
    one, other = _parts(first, among), _parts(second, among)
    if one is None or other is None:
        if first != second:
            yield path, first, second
        return
    for key in dict.fromkeys([*one, *other]):
        yield from _differences(one.get(key), other.get(key), f"{path}.{key}" if path else key)


def pairs_of(first: AnalysedSweep, *others: AnalysedSweep) -> list[list[Pair]]:
    """Compares each of the other sweeps with the first.

    Returns:
        For each other sweep, the models of the first sweep and of that one, grouped by dataset, in the order of the
        first sweep. Holm's correction runs over the pairs of all other sweeps together.
    """
    own = _cells(first)
    each = [_beside(own, _cells(other)) for other in others]
    paired = sum(key in own and key in other for other in each for key in other)
    found: list[Pair] = []
    for number, other in enumerate(each, start=1):
        keys = list(dict.fromkeys([*own, *other]))
        among, letters = {place[0] for place, _ in keys}, (letter_of(0), letter_of(number))
        pairs: list[Pair] = []
        for place, model in keys:
            one, two = own.get((place, model)), other.get((place, model))
            known = one or other[place, model]
            name = dataset_words(place[0], known.params, among), model
            pairs.append(_pair(name, one, two, paired, letters))
        datasets = list(dict.fromkeys(pair.dataset for pair in pairs))
        found += sorted(pairs, key=lambda pair, order=datasets: order.index(pair.dataset))
    corrected, sizes = iter(_corrected(found)), [len({*own, *other}) for other in each]
    return [list(islice(corrected, size)) for size in sizes]


def letter_of(number: int) -> str:
    """Returns the letter that names the sweep of this number, from 0: A, B, …, Z, AA, …"""
    before, last = divmod(number, 26)
    return (letter_of(before - 1) if before else "") + chr(ord("A") + last)


def _corrected(pairs: Sequence[Pair]) -> list[Pair]:
    found = list(pairs)
    tested = [place for place, pair in enumerate(found) if pair.test is not None and pair.test.p is not None]
    corrected = holm([pair.test.p for place in tested if (pair := found[place]).test and pair.test.p is not None])
    for place, p_holm in zip(tested, corrected, strict=True):
        test = found[place].test
        assert test is not None  # noqa: S101 - these are the tested ones
        found[place] = replace(found[place], test=replace(test, p_holm=p_holm))
    return found


def _beside(own: Cells, other: Cells) -> Cells:
    """Returns the cells of another sweep, with its datasets renamed to those of the first sweep that match."""
    partners = _partners(own, other)
    return {(partners.get(place, place), model): cell for (place, model), cell in other.items()}


def _cells(sweep: AnalysedSweep) -> dict[tuple[Place, str], _Cell]:
    """Returns every cell of a sweep's comparison."""
    prints = {trial.spec.place: trial.spec.fingerprint for trial in sweep.trials if trial.chosen}
    params = {row.place: row.dataset_params for row in sweep.state.plan.datasets}
    found: dict[tuple[Place, str], _Cell] = {}
    for block in sweep.comparison.datasets:
        place = block.place
        shown = dict(sorted(params.get(place, {}).items()))  # sweeps may order parameters differently
        for score in block.scores:
            fingerprint = prints.get(place, "")
            found[place, score.model] = _Cell(block=block, score=score, fingerprint=fingerprint, params=shown)
    return found


def _partners(one: Cells, other: Cells) -> dict[Place, Place]:
    """Returns dataset of the second sweep → its match in the first, by the most reliable criterion that finds one."""
    left = [{place: cell.fingerprint for (place, _), cell in cells.items()} for cells in (one, other)]
    found: dict[Place, Place] = {}
    by: Sequence[Callable[[Place, str], Any]] = (
        lambda place, _: place,
        lambda place, fingerprint: (fingerprint, place[1]) if fingerprint else place,
        lambda place, _: (short_name(place[0]), place[1]),
    )
    for same in by:
        first, second = (_only(places, same) for places in left)
        for key in first.keys() & second.keys():
            found[second[key]] = first[key]
            del left[0][first[key]], left[1][second[key]]
    return found


def _only(places: Mapping[Place, str], same: Callable[[Place, str], Any]) -> dict[Any, Place]:
    """Returns key → dataset, for datasets whose key (`same`) no other dataset has."""
    found: dict[Any, list[Place]] = {}
    for place, fingerprint in places.items():
        found.setdefault(same(place, fingerprint), []).append(place)
    return {key: members[0] for key, members in found.items() if len(members) == 1}


def _pair(
    key: tuple[str, str], first: _Cell | None, second: _Cell | None, paired: int, letters: tuple[str, str]
) -> Pair:
    known = first or second
    assert known is not None  # noqa: S101 - one of the sweeps has the key
    pair = Pair(
        dataset=key[0],
        model=key[1],
        metric=known.block.metric,
        goal=known.block.goal,
        first=_mean(first),
        second=_mean(second),
    )
    if first is None or second is None:
        return replace(pair, why="new" if first is None else "missing")
    if first.block.metric != second.block.metric:
        return replace(pair, second=None, why=f"the second is ranked by {second.block.metric or 'nothing'}")
    if first.fingerprint != second.fingerprint:
        return replace(pair, why="other data under the same name")
    if pair.first is None or pair.second is None:
        return replace(pair, why="no score")
    heldouts = {cell.block.references.heldout if by_held_out(cell.block.metric) else 0.0 for cell in (first, second)}
    if len(heldouts) > 1:
        return replace(pair, why="other annotations were held out")
    test = paired_test(second.score.scores, first.score.scores, paired, heldouts.pop(), pair.metric)
    if test.difference is None:
        return replace(pair, why=test.reason)
    one, other = first.score.scores.by_seed, second.score.scores.by_seed
    common = sorted(one.keys() & other.keys())
    pair = replace(
        pair, test=test, first=mean(one[seed] for seed in common), second=mean(other[seed] for seed in common)
    )
    unsound = [
        f"in {name} {why}"
        for name, cell in zip(letters, (first, second), strict=True)
        if (why := cell.score.unsound(cell.block.metric))
    ]
    if unsound:
        pair = replace(pair, test=replace(test, p=None), why=f"not comparable: {', '.join(unsound)}")
    return pair


def _mean(cell: _Cell | None) -> float | None:
    found = None if cell is None else cell.score.metrics.get(cell.block.metric)
    return None if found is None else found.mean


def _names(value: Any) -> list[str]:
    return [*map(_entry_name, value)] if isinstance(value, list) else []


def _parts(value: Any, among: Collection[str]) -> dict[str, Any] | None:
    """Returns the parts of a mapping by key, or the entries of a list by label or name; None for other values."""
    if isinstance(value, Mapping):
        return {str(key): part for key, part in value.items()}
    if not isinstance(value, list) or not value or not all(map(_entry_name, value)):
        return None
    found: dict[str, Any] = {}
    for part in value:
        name = short_name(_entry_name(part), among)
        nth = sum(known.partition("#")[0] == name for known in found)
        found[name + (f"#{nth + 1}" if nth else "")] = part
    return found


def _entry_name(part: Any) -> str:
    named = isinstance(part, Mapping) and isinstance(part.get("name"), str)
    return str(part.get("label") or part["name"]) if named else ""
